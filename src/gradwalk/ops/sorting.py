"""Ordering elements: sort, topk, median.

The gradient of a chosen element goes to where it was chosen from; `median()` over everything
shares it between equal elements, as PyTorch does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.arithmetic import zero
from gradwalk.ops.dtypes import int64
from gradwalk.ops.index import along, put
from gradwalk.ops.op import Shape, define
from gradwalk.ops.reduction import (
    ValuesIndices,
    max_along_shapes,
    share_ties,
    to_chosen,
)
from gradwalk.ops.shape import cast, clone, full_axes, normal_axis, reshape

__all__ = [
    "median", "sort", "topk",
]  # fmt: skip


def _order(x: Any, axis: int, descending: bool) -> Any:
    """Indices that sort x, equal elements in their order; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _sort_forward(x: Any, *, axis: int, descending: bool) -> tuple[Any, Any]:
    indices = _order(x, axis, descending)
    return np.take_along_axis(x, indices, axis), indices


def _topk_forward(x: Any, *, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    first = (slice(None),) * axis + (slice(k),)
    indices = np.ascontiguousarray(_order(x, axis, largest)[first])
    return np.take_along_axis(x, indices, axis), indices


def _put_back(g: Any, indices: Any, x_shape: Shape, axis: int) -> Any:
    fixed, arrays = along(indices, axis)
    return put(g[0], *arrays, index=fixed, shape=x_shape)


def _cut(shape: Shape, axis: int, k: int) -> Shape:
    return (*shape[:axis], k, *shape[axis + 1 :])


sort_op = define(
    "sort",
    _sort_forward,
    vjp=[_put_back],
    outputs=("values", "indices"),
    shape=lambda x, *, axis, descending: (x, x),
    gives=(None, int64),
)
topk_op = define(
    "topk",
    _topk_forward,
    vjp=[_put_back],
    outputs=("values", "indices"),
    shape=lambda x, *, k, axis, largest: (_cut(x, axis, k),) * 2,
    gives=(None, int64),
)


def _middle_along(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    """The lower of the two middle elements, or a NaN if there is one."""
    (along_axis,) = axis
    order = _order(x, along_axis, descending=False)
    middle = np.take(order, [(x.shape[along_axis] - 1) // 2], along_axis)
    if x.dtype.kind == "f":
        missing = np.isnan(x)
        first = np.argmax(missing, axis=along_axis, keepdims=True)
        middle = np.where(missing.any(axis=along_axis, keepdims=True), first, middle)
    values = np.take_along_axis(x, middle, along_axis)
    return (values, middle) if keepdim else (values.squeeze(axis), middle.squeeze(axis))


def _middle(x: Any) -> Any:
    if not x.size:
        return np.asarray(np.nan, x.dtype)  # as PyTorch
    return _middle_along(x.reshape(-1), axis=(0,), keepdim=False)[0]


median_op = define(
    "median",
    lambda x, *, axis: _middle(x),
    vjp=[lambda g, x, out, axis: share_ties(g, x, out, axis)],
    shape=lambda x, *, axis: (),
)
median_along = define(
    "median_along",
    _middle_along,
    vjp=[lambda g, indices, x_shape, axis: to_chosen(g, indices, x_shape, axis)],
    outputs=("values", "indices"),
    shape=max_along_shapes,
    gives=(None, int64),
)


def sort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
    """Values in order along `dim`, and where each came from; always stable.

    >>> import gradwalk as gw
    >>> gw.sort(gw.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    if not x.ndim:
        return ValuesIndices(clone(x), cast(zero(x), dtype=int64))
    axis = normal_axis(dim, x.ndim)
    return ValuesIndices(*sort_op(x, axis=axis, descending=bool(descending)))


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) values along `dim` in order, and where each came from."""
    axis = normal_axis(dim, x.ndim)
    if not 0 <= k <= (x.shape[axis] if x.ndim else 1):
        raise ValueError(f"topk: k = {k} is out of range for shape {tuple(x.shape)}, dim {dim}")
    if not x.ndim:
        return sort(x)
    return ValuesIndices(*topk_op(x, k=int(k), axis=axis, largest=bool(largest)))


def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element (the lower of two); with `dim`, values and indices.

    >>> import gradwalk as gw
    >>> gw.median(gw.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    if dim is None:
        return median_op(x, axis=full_axes(x, None))
    axis = (normal_axis(dim, x.ndim),)
    if not x.ndim:
        return ValuesIndices(*median_along(reshape(x, shape=(1,)), axis=axis, keepdim=False))
    return ValuesIndices(*median_along(x, axis=axis, keepdim=bool(keepdim)))
