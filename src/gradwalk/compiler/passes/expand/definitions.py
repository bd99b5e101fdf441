"""Definitions, in other ops, of some ops without `expand`: forward only.

Their forwards are NumPy functions that a kernel cannot run; written like this they are fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gradwalk.compiler.ir.compiler_ops import running_max, running_min
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.passes.expand.einsum import einsum_definition
from gradwalk.compiler.passes.expand.extremes import (
    kth_along,
    median,
    median_along,
    positions,
    running,
    searchsorted,
    values_and_positions,
)
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import int64, is_floating
from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.elementwise.arithmetic import abs, exp, log, log1p, power, sqrt, zero
from gradwalk.ops.elementwise.choice import maximum, where
from gradwalk.ops.elementwise.remainders import isfinite
from gradwalk.ops.index.indexing import Index, getitem, put, setitem
from gradwalk.ops.reduce.reduction import amax_op, amin_op, mean_op, reduced_shape, sum_op
from gradwalk.ops.shape.rearranging import diagonal_op, windows_op
from gradwalk.ops.shape.reshaping import cast, reshape

Axes = tuple[int, ...]
T = TypeVar("T")


def _var(x: Any, *, axis: Axes, correction: float, keepdim: bool) -> Any:
    apart = x - mean_op(x, axis=axis, keepdim=True)
    freedom = math.prod(x.shape[i] for i in axis) - correction
    total = sum_op(apart * apart, axis=axis, keepdim=keepdim)
    return total / (float(freedom) if freedom > 0 else 0.0)


def _norm(x: Any, *, p: float, axis: Axes, keepdim: bool) -> Any:
    if p == 2:
        return sqrt(sum_op(x * x, axis=axis, keepdim=keepdim))
    if p == 0:
        return sum_op(cast(x != 0, dtype=x.dtype), axis=axis, keepdim=keepdim)
    size = abs(x)
    if p == 1:
        return sum_op(size, axis=axis, keepdim=keepdim)
    if math.isinf(p):
        return (amax_op if p > 0 else amin_op)(size, axis=axis, keepdim=keepdim)
    return power(sum_op(power(size, exponent=p), axis=axis, keepdim=keepdim), exponent=1 / p)


def _logsumexp(x: Any, *, axis: Axes, keepdim: bool) -> Any:
    if 0 in x.shape:  # log 0; there is no largest element
        return log(sum_op(x, axis=axis, keepdim=keepdim))
    top = amax_op(x, axis=axis, keepdim=True)
    top = where(isfinite(top), top, 0)  # as its forward has it
    out = log(sum_op(exp(x - top), axis=axis, keepdim=True)) + top
    return out if keepdim else reshape(out, shape=reduced_shape(x.shape, axis=axis, keepdim=False))


def _log_softmax(x: Any, *, axis: int) -> Any:
    # As its forward has it: in terms of logsumexp, an infinity would hide the NaN beside it.
    shifted = x - amax_op(x, axis=(axis,), keepdim=True)
    return shifted - log(sum_op(exp(shifted), axis=(axis,), keepdim=True))


def _cross_entropy_of_logits(x: Any, target: Any) -> Any:
    return log1p(exp(-abs(x))) + maximum(x, 0.0) - x * target


def _cross_entropy(x: Any, target: Any) -> Any:
    least = -100.0  # as its forward has it
    return (target - 1.0) * maximum(log1p(-x), least) - target * maximum(log(x), least)


def _flip(x: Any, *, axis: Axes) -> Any:
    steps = (("slice", None, None, -1 if i in axis else None) for i in range(x.ndim))
    return getitem(x, index=tuple(steps))


def _matmul_of_integers(x: Any, y: Any) -> Any:
    left, right = (
        reshape(x, shape=(*x.shape, 1)),
        reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:])),
    )
    total = sum_op(left * right, axis=(max(x.ndim, y.ndim) - 1,), keepdim=False)
    dtype = np.result_type(x.dtype, y.dtype)
    return total if total.dtype == dtype else cast(total, dtype=dtype)


def _winners(x: Any, *indices: Any, index: Index) -> Any:
    ids = cast(zero(x), dtype=int64)
    shape = getitem(ids, *indices, index=index).shape
    written = np.arange(math.prod(shape)).reshape(shape)
    ids = setitem(ids, written, *indices, index=index)
    return getitem(ids, *indices, index=index) == written


def _windows_add(g: Any, *, shape: Shape, axis: int, size: int, step: int) -> Any:
    # Spread out over (shape + size − 1), each element p gets g[p − j, j] of every j: of the windows
    # of that array the diagonals.
    reach = size - 1 + (g.shape[axis] - 1) * step + 1
    here = (*(("slice", None, None, None),) * axis, ("slice", size - 1, reach, step))
    room = (*shape[:axis], shape[axis] + size - 1, *shape[axis + 1 :], size)
    apart = windows_op(put(g, index=here, shape=room), axis=axis, size=size, step=1)
    last = len(shape)
    diagonals = diagonal_op(_flip(apart, axis=(last,)), offset=0, axes=(last, last + 1))
    total = sum_op(diagonals, axis=(last,), keepdim=False)
    return total if total.dtype == g.dtype else cast(total, dtype=g.dtype)


def _of_table(named: dict[str, T]) -> dict[Op, T]:
    """A dictionary by op, of one by the names of ops in the table."""
    return {TABLE[name]: value for name, value in named.items()}


DEFINITIONS: dict[Op, Callable[..., Any]] = _of_table(
    {
        "var": _var,
        "std": lambda x, **attrs: sqrt(_var(x, **attrs)),
        "vector_norm": _norm,
        "logsumexp": _logsumexp,
        "log_softmax": _log_softmax,
        "binary_cross_entropy": _cross_entropy,
        "binary_cross_entropy_logits": _cross_entropy_of_logits,
        "flip": _flip,
        "max": values_and_positions(amax_op),
        "min": values_and_positions(amin_op),
        "argmax": positions(amax_op),
        "argmin": positions(amin_op),
        "cummax": running(running_max),
        "cummin": running(running_min),
        "kthvalue": kth_along,
        "median_along": median_along,
        "median": median,
        "searchsorted": searchsorted,
        "matmul": _matmul_of_integers,
        "winners": _winners,
        "windows_add": _windows_add,
        "einsum": einsum_definition,
    }
)
# Up to this length counting all smaller elements is faster than bisection.
LONGEST_SEARCH = 256
CONDITIONS: dict[Op, Callable[[Call], bool]] = _of_table(
    {
        "searchsorted": lambda call: call.terms[0].shape[-1] <= LONGEST_SEARCH,
        "vector_norm": lambda call: bool(call.terms[0].size) or math.isfinite(call.attrs["p"]),
        "matmul": lambda call: not is_floating(call.outputs[0].dtype),  # others have a kernel
        # Among no integers there is none, which NumPy says; of no floats it is NaN.
        "median": lambda call: bool(call.terms[0].size) or is_floating(call.terms[0].dtype),
    }
)
# Ops whose definition also holds for no elements.
OF_NOTHING = {
    TABLE[name]
    for name in (
        "einsum", "logsumexp", "matmul", "median", "vector_norm", "searchsorted", "std", "var",
    )
}  # fmt: skip
