"""The median and quantiles of the elements that are not NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import define
from gradwalk.ops.core.public import Mixed, public
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.reduce.reduction import (
    picked_along,
    picking,
    reduced_shape,
    sum,
    to_chosen,
)
from gradwalk.ops.reduce.sorting import middle_of, order_of, pick_along
from gradwalk.ops.shape.reshaping import cast, full_axes


def _middle_of_numbers(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    """The lower of the two middle elements of those that are no NaN; of none, a NaN."""
    order = order_of(x, axis[0], descending=False)  # NaN last
    count = np.sum(x == x, axis=axis, keepdims=True)
    middle = np.take_along_axis(order, np.maximum(count - 1, 0) // 2, axis[0])
    return picked_along(x, middle, axis, keepdim)


def _share_equals(g: Any, x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    best = (x == out) | ((out != out) & (x != x))
    return where(best, g / sum(cast(best, dtype=x.dtype)), 0)


nanmedian_op = define(
    "nanmedian",
    lambda x, *, axis: (
        _middle_of_numbers(x.reshape(-1), axis=(0,), keepdim=False)[0] if x.size else middle_of(x)
    ),
    vjp=[_share_equals],
    shape=lambda x, *, axis: (),
)
nanmedian_along = picking("nanmedian_along", _middle_of_numbers, to_chosen, reduced_shape)


@public(method=True, numpy=True)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Mixed:
    """`median` of the elements that are not NaN.

    >>> import gradwalk as gw
    >>> gw.nanmedian(gw.tensor([4.0, float("nan"), 3.0]))
    tensor(3.)
    """
    if dim is None:
        return nanmedian_op(input, axis=full_axes(input, None))
    return pick_along("nanmedian", nanmedian_along, input, dim, keepdim)
