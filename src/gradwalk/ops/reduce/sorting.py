"""Ordering elements, and finding them in order: sort, topk, median, unique, searchsorted.

The gradient of a chosen element goes to where it was chosen from; `median()` over everything
shares it between equal elements, as PyTorch does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import int32, int64, is_floating
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.core.public import Mixed, public
from gradwalk.ops.elementwise.arithmetic import zero
from gradwalk.ops.index.indexing import gather, index_select
from gradwalk.ops.reduce.reduction import (
    ValuesIndices,
    any_op,
    picked_along,
    picking,
    put_back,
    reduced_shape,
    share_ties,
    sum,
    to_chosen,
)
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.shape.rearranging import concrete
from gradwalk.ops.shape.reshaping import cast, clone, concatenate, full_axes, normal_axis, reshape


def order_of(x: Any, axis: int, descending: bool) -> Any:
    """Indices that sort x, equal elements in their order; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _sort_forward(x: Any, *, axis: int, descending: bool) -> tuple[Any, Any]:
    indices = order_of(x, axis, descending)
    return np.take_along_axis(x, indices, axis), indices


def _topk_forward(x: Any, *, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    first = (slice(None),) * axis + (slice(k),)
    indices = np.ascontiguousarray(order_of(x, axis, largest)[first])
    return np.take_along_axis(x, indices, axis), indices


sort_op = picking("sort", _sort_forward, put_back, lambda x, **_: x)
topk_op = picking(
    "topk",
    _topk_forward,
    put_back,
    lambda x, *, k, axis, largest: (*x[:axis], k, *x[axis + 1 :]),
)


def _middle_along(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    """The lower of the two middle elements, or a NaN if there is one."""
    order = order_of(x, axis[0], descending=False)
    middle = np.take(order, [(x.shape[axis[0]] - 1) // 2], axis[0])
    if is_floating(x.dtype):
        missing = np.isnan(x)
        first = np.argmax(missing, axis=axis[0], keepdims=True)
        middle = np.where(missing.any(axis=axis, keepdims=True), first, middle)
    return picked_along(x, middle, axis, keepdim)


def middle_of(x: Any) -> Any:
    """The median of all elements."""
    if not x.size:
        if not is_floating(x.dtype):
            raise ValueError(f"the median of no elements is NaN, which {x.dtype} does not have")
        return np.asarray(np.nan, x.dtype)  # as PyTorch
    return _middle_along(x.reshape(-1), axis=(0,), keepdim=False)[0]


median_op = define(
    "median",
    lambda x, *, axis: middle_of(x),
    vjp=[lambda g, x, out, axis: share_ties(g, x, out, axis)],
    shape=lambda x, *, axis: (),
)
median_along = picking("median_along", _middle_along, to_chosen, reduced_shape)


def _kth_along(x: Any, *, k: int, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    place = np.take(order_of(x, axis[0], descending=False), [k - 1], axis[0])
    return picked_along(x, place, axis, keepdim)


kthvalue_op = picking("kthvalue", _kth_along, to_chosen, reduced_shape)


def _searchsorted_forward(sequence: Any, values: Any, *, right: bool) -> Any:
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    out = np.empty(values.shape, int64)
    for row in np.ndindex(sequence.shape[:-1]):
        out[row] = np.searchsorted(sequence[row], values[row], side)
    return out


searchsorted_op = define(
    "searchsorted",
    _searchsorted_forward,
    vjp=[None, None],
    shape=lambda sequence, values, *, right: values,
    gives=int64,
)


@public(method=True, numpy=True)
def sort(
    input: Any, dim: int = -1, descending: bool = False, *, stable: bool = True
) -> ValuesIndices:
    """Values in order along `dim`, and where each came from; always stable.

    >>> import gradwalk as gw
    >>> gw.sort(gw.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    if not input.ndim:
        return ValuesIndices(clone(input), cast(zero(input), dtype=int64))
    axis = normal_axis(dim, input.ndim)
    return ValuesIndices(*sort_op(input, axis=axis, descending=bool(descending)))


def _no_such_k(name: str, k: int, x: Any, dim: int) -> ValueError:
    return ValueError(f"{name}: k = {k} is out of range for shape {tuple(x.shape)}, dim {dim}")


@public(method=True, numpy=True)
def topk(
    input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The k largest (or smallest) values along `dim` in order, and where each came from."""
    axis = normal_axis(dim, input.ndim)
    if not 0 <= k <= (input.shape[axis] if input.ndim else 1):
        raise _no_such_k("topk", k, input, dim)
    if not input.ndim:
        return sort(input)
    return ValuesIndices(*topk_op(input, k=int(k), axis=axis, largest=bool(largest)))


@public(method=True, numpy=True)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Mixed:
    """The middle element (the lower of two); with `dim`, values and indices.

    >>> import gradwalk as gw
    >>> gw.median(gw.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    if dim is None:
        return median_op(input, axis=full_axes(input, None))
    return pick_along("median", median_along, input, dim, keepdim)


def pick_along(name: str, op: Op, x: Any, dim: int, keepdim: bool) -> ValuesIndices:
    """An op that picks one element along a dimension; of a 0-d tensor, the only one."""
    axis = (normal_axis(dim, x.ndim),)
    if not x.ndim:
        return ValuesIndices(*op(reshape(x, shape=(1,)), axis=axis, keepdim=False))
    if not x.shape[axis[0]]:
        raise IndexError(f"{name}: shape {tuple(x.shape)} has no elements along dim {dim}")
    return ValuesIndices(*op(x, axis=axis, keepdim=bool(keepdim)))


@public(method=True, numpy=True)
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that put x in order along `dim`; always stable."""
    return sort(input, dim, descending).indices


@public(method=True, numpy=True)
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest value along `dim` (from 1), and its index.

    >>> import gradwalk as gw
    >>> gw.kthvalue(gw.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    axis = (normal_axis(dim, input.ndim),)
    if not 1 <= k <= (input.shape[axis[0]] if input.ndim else 1):
        raise _no_such_k("kthvalue", k, input, dim)
    if not input.ndim:
        return sort(input)
    return ValuesIndices(*kthvalue_op(input, k=int(k), axis=axis, keepdim=bool(keepdim)))


@public(method=True)
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Mixed:
    """Every value once, in order; also where each element is among them, and how often it occurs.

    With `dim`, every slice once. The gradient of a value goes to the first element that has it.

    >>> import gradwalk as gw
    >>> gw.unique(gw.tensor([3, 1, 3, 2]), return_counts=True)
    (tensor([1, 2, 3]), tensor([1, 1, 2]))
    """
    if dim is not None:
        return _unique_slices(input, normal_axis(dim, input.ndim), return_inverse, return_counts)
    values, order = sort(reshape(input, shape=(math.prod(input.shape),)))
    new = new_ones(values)
    results = [values[new]]
    if return_inverse:
        ranks = cumsum(new, 0) - 1
        results.append(reshape(gather(ranks, 0, argsort(order)), shape=tuple(input.shape)))
    if return_counts:
        results.append(run_lengths(new))
    return results[0] if len(results) == 1 else tuple(results)


def new_ones(rows: Any) -> Any:
    """Which elements, or slices along the first axis, differ from the one before."""
    apart = rows[1:] != rows[:-1]
    if apart.ndim > 1:
        apart = any_op(apart, axis=tuple(range(1, apart.ndim)), keepdim=False)
    flat = reshape(rows, shape=(math.prod(rows.shape),))
    first = zero(flat[: min(rows.shape[0], 1)]) == 0
    return concatenate(first, apart, axis=0)


def run_lengths(new: Any) -> Any:
    """How many elements there are from each new one to the next."""
    ends = concatenate(new[1:], new[:1], axis=0)  # the last of each kind
    upto = cumsum(new == new, 0)[ends]  # how many elements so far
    return concatenate(upto[:1], upto[1:] - upto[:-1], axis=0)


def _unique_slices(x: Any, axis: int, return_inverse: bool, return_counts: bool) -> Any:
    """Every slice along an axis once, in order of their first elements, then their second..."""
    rows = np.atleast_1d(concrete(x, "unique"))
    if any(n == 0 for i, n in enumerate(rows.shape) if i != axis):
        raise ValueError(f"unique: the slices of shape {rows.shape} along {axis} are empty")
    _, first, places, counts = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    nothing = cast(sum(zero(x)), dtype=int64)  # adding it turns an array into the kind of x
    wanted = [places] * return_inverse + [counts] * return_counts
    slices = index_select(x if x.ndim else reshape(x, shape=(1,)), axis, first)
    return (slices, *(nothing + array.reshape(-1) for array in wanted)) if wanted else slices


@public()
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where each value of `input` belongs in a sorted sequence (row by row if it has rows).

    >>> import gradwalk as gw
    >>> gw.searchsorted(gw.tensor([1, 3, 5]), gw.tensor([3, 4, 9]))
    tensor([1, 2, 3])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(
            f"searchsorted: side is 'left' or 'right', not {side!r} with right={right}"
        )
    if isinstance(input, int | float):
        input = np.asarray(input)
    rows = tuple(input.shape)[:-1]
    if len(sorted_sequence.shape) > 1 and tuple(sorted_sequence.shape[:-1]) != rows:
        raise ValueError(
            f"searchsorted: a sequence of shape {tuple(sorted_sequence.shape)} needs values with "
            f"the same leading dimensions, not {tuple(input.shape)}"
        )
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    places = searchsorted_op(sorted_sequence, input, right=right or side == "right")
    return cast(places, dtype=int32) if out_int32 else places


@public()
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the bucket between sorted boundaries that each value falls into.

    >>> import gradwalk as gw
    >>> gw.bucketize(gw.tensor([0.5, 2.0, 9.0]), gw.tensor([1.0, 2.0, 3.0]))
    tensor([0, 1, 3])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
