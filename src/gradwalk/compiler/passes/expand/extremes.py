"""Definitions, in other ops, of extremes, medians and their positions: forward only.

    top      = amax(x)                                     along the axis
    position = amin(where(x == top, 0 1 2 ..., length))    the first that is as large

One kernel runs both along its rows. As in NumPy a NaN is larger (and smaller) than everything, so
the result is the first NaN. (Of 0 and −0, which are equal, the value may be the other one.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.ir.compiler_ops import running_max
from gradwalk.ops.core.dtypes import int64, is_floating
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.reduce.reduction import amin_op, any_op, mean_op, reduced_shape, sum_op
from gradwalk.ops.reduce.sorting import topk_op
from gradwalk.ops.shape.reshaping import cast, getitem_slice, reshape

Axes = tuple[int, ...]
LONGEST = np.iinfo(np.int32).max  # up to here positions are numbers of 32 bits: more in a vector


def values_and_positions(extreme: Op) -> Callable[..., Any]:
    """The definition of max or min along an axis."""

    def best(x: Any, *, axis: Axes, keepdim: bool) -> Any:
        top = extreme(x, axis=axis, keepdim=True)
        return _kept((top, _first(x, top, axis)), axis, keepdim)

    return best


def _kept(pair: tuple[Any, ...], axis: Axes, keepdim: bool) -> tuple[Any, ...]:
    """Values and positions, without their axis of length 1 unless `keepdim`."""
    if keepdim:
        return pair
    shape = reduced_shape(pair[0].shape, axis=axis, keepdim=False)
    return tuple(reshape(each, shape=shape) for each in pair)


def positions(extreme: Op) -> Callable[..., Any]:
    """The definition of argmax or argmin, along an axis or over everything."""

    def position(x: Any, *, axis: Axes, keepdim: bool) -> Any:
        first = _first(x, extreme(x, axis=axis, keepdim=True), axis)
        shape = reduced_shape(x.shape, axis=axis, keepdim=keepdim)
        return first if first.shape == shape else reshape(first, shape=shape)

    return position


def _first(x: Any, top: Any, axis: Axes) -> Any:
    """Where the first element is that equals `top`, or the first NaN."""
    return _first_true(_equals(x, top), axis)


def _first_true(x: Any, axis: Axes) -> Any:
    lengths = tuple(n if i in axis else 1 for i, n in enumerate(x.shape))
    count = int(np.prod(lengths, dtype=np.int64))
    kind = np.int32 if count <= LONGEST else np.int64
    counted = np.arange(count, dtype=kind).reshape(lengths)
    return cast(amin_op(where(x, counted, count), axis=axis, keepdim=True), dtype=int64)


def _equals(x: Any, top: Any) -> Any:
    here = x == top
    return here | (x != x) if is_floating(x.dtype) else here


def running(extreme: Op) -> Callable[..., Any]:
    """The definition of cummax or cummin: values, and where each was last met."""

    def best_so_far(x: Any, *, axis: int) -> Any:
        top = extreme(x, axis=axis)
        lengths = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
        counted = np.arange(x.shape[axis]).reshape(lengths)
        return top, running_max(where(_equals(x, top), counted, 0), axis=axis)

    return best_so_far


# -- the k-th and the middle -----------------------------------------------------------------------


def kth_along(x: Any, *, k: int, axis: Axes, keepdim: bool) -> Any:
    """The definition of kthvalue: the last of the k smallest."""
    return _kept(_kth(x, k, axis[0]), axis, keepdim)


def median_along(x: Any, *, axis: Axes, keepdim: bool) -> Any:
    """The definition of the lower middle along an axis; a NaN, the first, if there is one."""
    values, indices = _kth(x, (x.shape[axis[0]] - 1) // 2 + 1, axis[0])
    if is_floating(x.dtype):
        missing = x != x
        some = any_op(missing, axis=axis, keepdim=True)
        values = where(some, math.nan, values)
        indices = where(some, _first_true(missing, axis), indices)
    return _kept((values, indices), axis, keepdim)


def median(x: Any, *, axis: Axes) -> Any:
    """The definition of the median of everything; of nothing it is NaN, as the mean is."""
    count = math.prod(x.shape)
    if not count:
        return mean_op(x, axis=tuple(range(x.ndim)), keepdim=False)
    flat = reshape(x, shape=(count,))
    return median_along(flat, axis=(0,), keepdim=False)[0]


def _kth(x: Any, k: int, axis: int) -> tuple[Any, ...]:
    lowest = topk_op(x, k=k, axis=axis, largest=False)
    return tuple(getitem_slice(each, axis, k - 1, k) for each in lowest)


def searchsorted(sequence: Any, values: Any, *, right: bool) -> Any:
    """The definition of searchsorted: how many come before a value; a NaN comes last."""
    if sequence.ndim > 1:
        sequence = reshape(sequence, shape=(*sequence.shape[:-1], 1, sequence.shape[-1]))
    if not hasattr(values, "shape"):  # a number
        values = np.asarray(values)
    each = reshape(values, shape=(*values.shape, 1))
    before = sequence <= each if right else sequence < each
    if is_floating(values.dtype):
        last = each != each
        before = before | (last if right else last & (sequence == sequence))
    return sum_op(before, axis=(values.ndim,), keepdim=False)
