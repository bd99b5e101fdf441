"""Running reductions: sums, products, extremes and log-sums of everything up to each element.

The rules of products and log-sums are recurrences, written for arrays; `expand` is a tree of
ordinary ops (log₂ n rounds of combining each element with the one 1, 2, 4, ... before it),
differentiable to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import mul
from gradwalk.ops.elementwise.special import logaddexp
from gradwalk.ops.reduce.reduction import (
    ValuesIndices,
    in_dtype,
    picking,
    put_back,
    sum,
    total_dtype,
)
from gradwalk.ops.shape.reshaping import (
    clone,
    concatenate,
    flip,
    getitem_slice,
    new_result,
    normal_axis,
    reshape,
)


def _tree(combine: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    """Every element combined with all before it, in log₂ n rounds."""
    count = x.shape[axis]
    out = clone(x)
    shift = 1
    while shift < count:
        first = getitem_slice(out, axis, 0, shift)
        rest = getitem_slice(out, axis, shift, count)
        before = getitem_slice(out, axis, 0, count - shift)
        out = concatenate(first, combine(before, rest), axis=axis)
        shift *= 2
    return out


def _backwards(g: Any, factor: Any, axis: int) -> Any:
    """The recurrence s[k] = g[k] + factor[k] × s[k + 1] along an axis, from its end."""
    out = np.array(g)
    rows, factors = np.moveaxis(out, axis, 0), np.moveaxis(factor, axis, 0)
    for k in range(len(rows) - 2, -1, -1):
        rows[k] += factors[k] * rows[k + 1]
    return out


def _shifted(x: Any, axis: int, by: int, fill: float) -> Any:
    """x moved along an axis, forwards (by = 1) or backwards (-1), with `fill` in the gap."""
    out = np.full_like(x, fill)
    to, source = np.moveaxis(out, axis, 0), np.moveaxis(x, axis, 0)
    if by > 0:
        to[1:] = source[:-1]
    else:
        to[:-1] = source[1:]
    return out


cumsum_op: Op = define(
    "cumsum",
    lambda x, *, axis: np.cumsum(x, axis=axis, dtype=total_dtype(x.dtype)),
    vjp=[lambda g, axis: flip(cumsum_op(flip(g, axis=(axis,)), axis=axis), axis=(axis,))],
    shape=lambda shape, *, axis: shape,
    linear=True,
    gives=total_dtype,
)


def _cumprod_rule(g: Any, x: Any, out: Any, axis: int) -> Any:
    # d out[i] / d x[k] is the product of the factors up to i but the k-th: those before it, times
    # those after it, which the recurrence adds up. Nothing is divided, so zeros are no exception.
    return _shifted(out, axis, 1, 1) * _backwards(g, _shifted(x, axis, -1, 0), axis)


cumprod_op = define(
    "cumprod",
    lambda x, *, axis: np.cumprod(x, axis=axis, dtype=total_dtype(x.dtype)),
    vjp=[_cumprod_rule],
    shape=lambda x, *, axis: x,
    gives=total_dtype,
    expand=lambda x, *, axis: in_dtype(
        total_dtype(x.dtype), lambda factors: _tree(mul, factors, axis), x
    ),
    array_only=True,
    formula={"x": "Σ from its place on of g × the product without it"},
    on_complex=True,
)


def _logcumsumexp_rule(g: Any, x: Any, out: Any, axis: int) -> Any:
    # d out[i] / d x[k] = exp(x[k] − out[i]), in steps none of which exceeds 1. Before the first
    # finite element all of them are -inf: those steps are 0, not exp(-inf − -inf).
    nothing = out == -math.inf
    step = np.exp(out - _shifted(out, axis, -1, math.inf))
    step = np.where(nothing, 0, step)
    return np.exp(x - np.where(nothing, 0, out)) * _backwards(g, step, axis)


logcumsumexp_op = define(
    "logcumsumexp",
    lambda x, *, axis: np.logaddexp.accumulate(x, axis=axis),
    vjp=[_logcumsumexp_rule],
    shape=lambda x, *, axis: x,
    to_float=True,
    promotes=True,
    expand=lambda x, *, axis: _tree(logaddexp, x, axis),
    array_only=True,
    formula={"x": "Σ from its place on of g × exp({x} − {out})"},
)


def _best_so_far(best: np.ufunc, x: Any, axis: int) -> tuple[Any, Any]:
    """The running extreme and the last place it was met; a NaN beats everything."""
    values = best.accumulate(x, axis=axis)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    places = np.arange(x.shape[axis]).reshape(shape)
    met = (x == values) | (x != x)
    return values, np.maximum.accumulate(np.where(met, places, 0), axis=axis)


def _running(name: str, best: np.ufunc) -> Op:
    return picking(
        name, lambda x, *, axis: _best_so_far(best, x, axis), put_back, lambda x, *, axis: x
    )


cummax_op = _running("cummax", np.maximum)
cummin_op = _running("cummin", np.minimum)


# -- public functions -------------------------------------------------------------------


def _scan(op: Op, x: Any, dim: int) -> Any:
    """Apply a scan; a single number is a row of one."""
    axis = normal_axis(dim, x.ndim)
    if x.ndim:
        return op(x, axis=axis)
    row = op(reshape(x, shape=(1,)), axis=0)
    if op.multiple:
        return tuple(reshape(part, shape=()) for part in row)
    return reshape(row, shape=())


@public(method=True, inplace=True, numpy=True)
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sum along `dim`."""
    if not input.ndim:
        normal_axis(dim, 0)
        return sum(input, dtype=dtype)
    return in_dtype(dtype, lambda x: _scan(cumsum_op, x, dim), input)


@public(method=True, inplace=True, numpy=True)
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running product along `dim`.

    >>> import gradwalk as gw
    >>> gw.cumprod(gw.tensor([2.0, 3.0, 4.0]), 0)
    tensor([ 2.,  6., 24.])
    """
    return in_dtype(dtype, lambda x: _scan(cumprod_op, x, dim), input)


@public(method=True, numpy=True)
@new_result
def logcumsumexp(input: Any, dim: int) -> Any:
    """Running log Σ exp along `dim`, stable."""
    return _scan(logcumsumexp_op, input, dim)


@public(method=True, numpy=True)
@new_result
def cummax(input: Any, dim: int) -> ValuesIndices:
    """Running maximum along `dim`, and where each was (last) met.

    >>> import gradwalk as gw
    >>> gw.cummax(gw.tensor([1.0, 3.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return ValuesIndices(*_scan(cummax_op, input, dim))


@public(method=True, numpy=True)
@new_result
def cummin(input: Any, dim: int) -> ValuesIndices:
    """Running minimum along `dim`, and where each was (last) met."""
    return ValuesIndices(*_scan(cummin_op, input, dim))
