"""Reductions of segments: pieces of a dimension that lie one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.dtypes import int64, real_only
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.placing import scatter_reduce
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.shape.reshaping import broadcast_to, cast, getitem_slice, normal_axis, reshape

_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_PLACED = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


@public()
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """The sum, mean, prod, max or min of each segment of `data` along `axis`.

    `lengths` are those of the segments, or `offsets` where they begin and the last one ends; their
    other dimensions are those of `data` before `axis`.

    >>> import gradwalk as gw
    >>> gw.segment_reduce(gw.tensor([1.0, 2.0, 5.0]), "max", lengths=gw.tensor([2, 1]))
    tensor([2., 5.])
    """
    real_only("segment_reduce", data)
    if reduce not in _STARTS:
        raise ValueError(f"segment_reduce: the reduction is {', '.join(_STARTS)}, not {reduce!r}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise ValueError("segment_reduce takes either lengths or offsets")
    dim = normal_axis(axis, data.ndim)
    if lengths is None:
        lengths = offsets[..., 1:] - offsets[..., :-1]
    lead, size = tuple(data.shape[:dim]), data.shape[dim]
    if tuple(lengths.shape[:-1]) != lead:
        raise ValueError(
            f"segment_reduce: lengths of shape {tuple(lengths.shape)} do not fit data of shape "
            f"{tuple(data.shape)} along axis {dim}"
        )
    known = None if unsafe else numbers_of(lengths)  # None while it is traced or batched
    if known is not None and ((known < 0).any() or (known.sum(-1) != size).any()):
        raise ValueError(f"segment_reduce: lengths must be at least 0 and sum to {size}")
    count, rest = lengths.shape[-1], tuple(data.shape[dim + 1 :])
    thin = (1,) * len(rest)
    ends = reshape(cumsum(cast(lengths, dtype=int64), -1), shape=(*lead, 1, count))
    number = sum(cast(ends <= np.arange(size).reshape(size, 1), dtype=int64), -1)
    places = broadcast_to(reshape(number, shape=(*lead, size, *thin)), tuple(data.shape))
    first = data.dtype.type(_STARTS[reduce] if initial is None else initial)
    start = np.full((*lead, count + unsafe, *rest), first)  # the last one takes what is left over
    found = scatter_reduce(_beside(start, data), dim, places, data, _PLACED[reduce])
    if unsafe:
        found = getitem_slice(found, dim, 0, count)
    if reduce != "mean":
        return found
    each = cast(reshape(lengths, shape=(*lead, count, *thin)), dtype=data.dtype)
    empty = math.nan if initial is None else float(initial)
    return where(each == 0, empty, found / where(each == 0, 1, each))


def _beside(array: Any, data: Any) -> Any:
    """An array as what `data` is: a tensor, or an array itself."""
    return array if isinstance(data, np.ndarray) else data.new_tensor(array)
