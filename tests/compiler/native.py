"""Compare a compiled function with the same function run eagerly; all of it must be native."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwalk as gw
from tests.compiler.backends.llvm.test_native_ops import in_numpy


def agrees(function: Callable[..., Any], *xs: Any, tolerance: float = 0.0) -> Any:
    """Compare, and return the results of the second compiled call. Arrays become tensors."""
    tensors = [gw.tensor(x) if isinstance(x, np.ndarray) else x for x in xs]
    expected = _all(function(*tensors))
    compiled = gw.compile(function)
    compiled(*tensors)
    found = _all(compiled(*tensors))
    for got, want in zip(found, expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got.numpy(), want.numpy(), tolerance, tolerance)
    assert not in_numpy(compiled)
    return found


def gradients_agree(function: Callable[..., Any], *xs: Any, tolerance: float = 1e-12) -> None:
    """The same for the gradients of Σ y² for every float x, y being the first result."""

    def slopes(*xs: Any) -> Any:
        xs = tuple(x.detach().requires_grad_(x.dtype.kind == "f") for x in xs)
        y = _all(function(*xs))[0]
        return tuple(gw.autograd.grad((y * y).sum(), [x for x in xs if x.requires_grad]))

    agrees(slopes, *xs, tolerance=tolerance)


def _all(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def drawn(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    """Numbers with many ties, of either sign."""
    found = np.asarray(np.random.default_rng(seed).normal(size=shape)).round(1) * 10
    return np.asarray(np.abs(found) if dtype == np.uint8 else found).astype(dtype)


def with_special(array: Any) -> Any:
    """The same with some NaN and infinities; one row is all −inf."""
    array = array.copy()
    array.reshape(-1)[::11] = np.nan
    array.reshape(-1)[3::13] = np.inf
    array.reshape(-1)[5::17] = -np.inf
    if array.ndim > 1:
        array[0] = -np.inf
    return array
