"""einops on gradwalk's tensors."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.project.checkout import run_here


def test_without_the_package_the_error_says_what_to_install(monkeypatch: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "einops", None)
    with pytest.raises(ImportError, match="pip install einops"):
        from gradwalk.einops import rearrange  # noqa: F401


def test_functions_and_layers() -> None:
    einops = importlib.import_module("einops")
    from gradwalk.einops import EinMix, Rearrange, Reduce, rearrange, reduce, repeat

    x = gw.arange(24.0).reshape(2, 3, 4).requires_grad_()
    for function, pattern, options in (
        (rearrange, "a b c -> b (a c)", {}),
        (reduce, "a b c -> a c", {"reduction": "max"}),
        (reduce, "a (b d) c -> a d c", {"reduction": "prod", "d": 3}),
        (repeat, "a b c -> a r b c", {"r": 2}),
    ):
        found = function(x, pattern, **options)
        assert np.array_equal(found.detach(), function(x.detach().numpy(), pattern, **options))
    einops.rearrange(x, "a b c -> (a b c)").sum().backward()
    assert x.grad is not None and bool((x.grad == 1).all())
    assert Rearrange("a b c -> a (b c)")(x).shape == (2, 12)
    assert Reduce("a b c -> a", "mean")(x).tolist() == [5.5, 17.5]
    assert EinMix("a b c -> a b d", weight_shape="c d", bias_shape="d", c=4, d=5)(x).shape[-1] == 5


def test_a_program_that_makes_a_module_needs_no_other_import(tmp_path: Path) -> None:
    code = (
        "import gradwalk as torch, einops\n"
        "net = torch.nn.Linear(2, 3)\n"
        "print(einops.rearrange(net(torch.ones(4, 2)), '(a b) c -> a (b c)', a=2).shape)"
    )
    assert run_here(code, cwd=tmp_path) == "(2, 6)\n"


def test_a_program_without_modules_that_imports_einops_first_needs_no_other(tmp_path: Path) -> None:
    code = (
        "import einops, gradwalk as torch\n"
        "print(einops.rearrange(torch.ones(4, 3), '(a b) c -> a (b c)', a=2).shape)"
    )
    assert run_here(code, cwd=tmp_path) == "(2, 6)\n"
