"""Norms, counts, and sums that skip NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.argument_names import numpy_names
from gradwalk.ops.core.op import define
from gradwalk.ops.elementwise.arithmetic import abs, div, power, sign, zero
from gradwalk.ops.elementwise.choice import logical_not, not_equal, where
from gradwalk.ops.elementwise.remainders import isnan
from gradwalk.ops.reduce.reduction import Dim, keep, of_floats, reduced_shape, sum, sum_op
from gradwalk.ops.shape.reshaping import cast, full_axes

__all__ = [
    "count_nonzero", "nanmean", "nansum", "norm",
]  # fmt: skip


def _norm_forward(x: Any, *, p: float, axis: tuple[int, ...], keepdim: bool) -> Any:
    if p == 2:
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdim))
    size = np.abs(x)
    if p == 1:
        return np.sum(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(x != 0, axis=axis, keepdims=keepdim, dtype=x.dtype)
    if math.isinf(p):
        return (np.amax if p > 0 else np.amin)(size, axis=axis, keepdims=keepdim)
    return np.power(np.sum(np.power(size, p), axis=axis, keepdims=keepdim), 1 / p)


def _norm_rule(g: Any, x: Any, out: Any, p: float, axis: tuple[int, ...]) -> Any:
    g, out = keep(g, x.shape, axis), keep(out, x.shape, axis)
    if p == 0:
        return zero(x) * g
    if p == 1:
        return sign(x) * g
    if math.isinf(p):  # ties share; a NaN is the largest and the smallest
        best = (abs(x) == out) | (x != x)
        ties = sum_op(cast(best, dtype=x.dtype), axis=axis, keepdim=True)
        return where(best, sign(x) * (g / ties), 0)
    # The norm of nothing but zeros has a kink: slope 0. Its quotient is kept finite as well,
    # for the second derivative.
    some = where(out == 0, 1.0, out)
    if p == 2:
        return x * where(out == 0, 0, g / some)
    scale = where(out == 0, 0, g / power(some, exponent=p - 1))
    if p < 1:  # infinitely steep at 0
        size = where(x == 0, 1.0, abs(x))
        return where(x == 0, 0, sign(x) * power(size, exponent=p - 1) * scale)
    return sign(x) * power(abs(x), exponent=p - 1) * scale


norm_op = define("vector_norm", _norm_forward, vjp=[_norm_rule], shape=reduced_shape)


def norm(
    input: Any,
    p: float | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Any:
    """(Σ |x|ᵖ)^(1/p) over `dim`: "fro" and None are p = 2; inf the largest, 0 how many are not 0.

    "nuc" is the sum of the singular values of matrices.

    >>> import gradwalk as gw
    >>> gw.norm(gw.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        from gradwalk.ops.reduce.norms import matrix_norm

        axes = (0, 1) if dim is None and input.ndim == 2 else dim
        if not isinstance(axes, (tuple, list)) or len(axes) != 2:
            raise ValueError("norm: p = 'nuc' is a norm of matrices: give two dimensions as dim")
        return matrix_norm(input, "nuc", axes, keepdim, dtype=dtype)
    if p is None or p == "fro":
        p = 2.0
    if not isinstance(p, (int, float)):
        raise ValueError(f"norm: p is a number or 'fro', not {p!r}")
    x = of_floats("norm", input if dtype is None else cast(input, dtype=np.dtype(dtype)))
    return norm_op(x, p=float(p), axis=full_axes(x, dim), keepdim=bool(keepdim))


@numpy_names
def nansum(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of what is not NaN.

    >>> import gradwalk as gw
    >>> gw.nansum(gw.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    x = input if input.dtype.kind != "f" else where(isnan(input), 0, input)
    return sum(x, dim, keepdim, dtype=dtype)


@numpy_names
def nanmean(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of what is not NaN."""
    x = of_floats("nanmean", input if dtype is None else cast(input, dtype=np.dtype(dtype)))
    return div(nansum(x, dim, keepdim), sum(logical_not(isnan(x)), dim, keepdim))


@numpy_names
def count_nonzero(input: Any, dim: Dim = None) -> Any:
    """How many elements are not 0."""
    return sum(not_equal(input, 0), dim)
