"""The same program in gradwalk and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw

ENGINES = (gw, torch)


def leaf(m: Any, *values: float) -> Any:
    return m.tensor(list(values) or [0.5, -1.5, 2.0], dtype=m.float64, requires_grad=True)


def listed(thing: Any) -> Any:
    """Tensors inside containers as lists of numbers."""
    if isinstance(thing, (tuple, list)):
        return [listed(t) for t in thing]
    return thing.tolist() if hasattr(thing, "tolist") else thing


def assert_same(program: Callable[[Any], Any]) -> None:
    """Assert that the program gives the same in both, or raises in both."""
    results = []
    for m in ENGINES:
        try:
            results.append(listed(program(m)))
        except (RuntimeError, ValueError, TypeError) as error:
            results.append(error)
    ours, theirs = results
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"PyTorch refuses: {theirs}"
    else:
        assert not isinstance(ours, Exception), ours
        assert_equal(ours, theirs)


def assert_equal(ours: Any, theirs: Any) -> None:
    """Assert equality, with numbers up to rounding."""
    if isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            assert_equal(one, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-14, nan_ok=True)
    else:
        assert ours == theirs
