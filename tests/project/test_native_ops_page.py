"""The page of native ops is up to date, and names every op."""

from __future__ import annotations

import pytest

from gradwalk.compiler.backends.llvm.emit.elementwise_table import EMITTERS
from gradwalk.ops import TABLE
from tools import native_ops

UPDATE = "python -m tools.native_ops"


def listed() -> dict[str, str]:
    """The kernel of each op on the page."""
    lines = native_ops.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| `")]
    return {row[0].strip("| `"): row[1] for row in rows if len(row) == 5}


@pytest.mark.slow  # it plans every op in several dtypes
def test_the_page_is_up_to_date() -> None:
    assert native_ops.PAGE.read_text(encoding="utf-8") == native_ops.page(), (
        f"native-ops.md is not what is made of the compiler now. Run `{UPDATE}` and commit the "
        "page with your change."
    )


def test_every_op_is_on_the_page() -> None:
    assert listed().keys() == TABLE.keys(), f"run `{UPDATE}`"


def test_what_has_an_emitter_is_native() -> None:
    maps = {name for name in EMITTERS if name in TABLE and TABLE[name].elementwise}
    assert maps and {name for name in maps if "map" not in listed()[name]} == set()
