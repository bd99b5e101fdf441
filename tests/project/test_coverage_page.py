"""The page of coverage shows the results, and a handful of its rows are measured again."""

from __future__ import annotations

import warnings

import pytest

from tools.coverage import page
from tools.coverage.architectures import NAMES
from tools.coverage.examine import examine


def test_the_page_shows_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(page.load()), (
        "docs/pytorch/coverage.md is not what is made of tools/coverage/results.json. "
        "Run `python -m tools.coverage` and commit both."
    )


def test_the_results_are_of_listed_architectures() -> None:
    rows = page.load()["architectures"]
    assert list(rows) == [name for name in NAMES if name in rows] and len(rows) >= 100
    libraries = {name.partition("/")[0] for name in rows}
    assert libraries == {"transformers", "timm", "torchvision"}


# Normed queries and keys, experts, writes through views, experts with latent attention.
@pytest.mark.parametrize("name", ["Qwen3", "Mixtral", "Rwkv", "DeepseekV3"])
def test_a_row_is_what_is_measured_now(name: str) -> None:
    pytest.importorskip("transformers")
    name = f"transformers/{name}ForCausalLM"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = examine(name, imports=False)
    assert row["identical"] and row["gradients"] and row["planted"] == 3
    known = page.load()["architectures"][name]
    assert (row["opaque"], row["missed"]) == (known["opaque"], known["missed"]) == ({}, [])
