"""How often values occur: the most frequent one, runs of equal ones, histograms."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.graph.abstract import is_unknown
from gradwalk.ops.core.dtypes import int64, is_floating
from gradwalk.ops.core.public import Mixed, public
from gradwalk.ops.elementwise.arithmetic import zero
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.indexing import put
from gradwalk.ops.reduce.reduction import (
    ValuesIndices,
    amax,
    amin,
    picked_along,
    picking,
    reduced_shape,
    sum,
    to_chosen,
)
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.reduce.sorting import new_ones, order_of, pick_along, run_lengths, searchsorted
from gradwalk.ops.shape.rearranging import concrete, movedim
from gradwalk.ops.shape.reshaping import (
    cast,
    clone,
    getitem_slice,
    new_result,
    normal_axis,
    reshape,
)

Histogram = namedtuple("Histogram", "hist bin_edges")


def _most_frequent(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    """The smallest of the values that occur most often, where it occurs last."""
    order = np.moveaxis(order_of(x, axis[0], descending=False), axis[0], -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis[0], -1), order, -1)
    new = np.ones(ordered.shape, bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    places = np.arange(ordered.shape[-1])
    run = places - np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    last = np.argmax(run, axis=-1, keepdims=True)
    index = np.moveaxis(np.take_along_axis(order, last, -1), -1, axis[0])
    return picked_along(x, index, axis, keepdim)


mode_op = picking("mode", _most_frequent, to_chosen, reduced_shape)


@public(method=True, numpy=True)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The value that occurs most often along `dim` (the smallest of several), and its last index.

    >>> import gradwalk as gw
    >>> gw.mode(gw.tensor([3, 1, 3, 2])).values
    tensor(3)
    """
    return pick_along("mode", mode_op, input, dim, keepdim)


@public(method=True)
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Mixed:
    """Every run of equal values once; also which run each element is in, and how long each is.

    >>> import gradwalk as gw
    >>> gw.unique_consecutive(gw.tensor([1, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    if dim is None:
        rows, shape = reshape(input, shape=(math.prod(input.shape),)), tuple(input.shape)
    else:
        axis = normal_axis(dim, input.ndim)
        rows = movedim(input, axis, 0)
        shape = tuple(rows.shape[:1])
    new = new_ones(rows)
    kept = rows[new]
    results = [kept if dim is None else movedim(kept, 0, axis)]
    if return_inverse:
        results.append(reshape(cumsum(new, 0) - 1, shape=shape))
    if return_counts:
        results.append(run_lengths(new))
    return results[0] if len(results) == 1 else tuple(results)


# -- histograms ----------------------------------------------------------------------------------


def _between(low: Any, high: Any, bins: int) -> Any:
    """Edges from `low` to `high`, whose numbers are not known."""
    wider = cast(low == high, dtype=low.dtype) * 0.5
    low, high, places = low - wider, high + wider, np.arange(bins + 1)
    return where(places == bins, high, low + (high - low) / bins * cast(places, dtype=low.dtype))


def _edges(bins: Any, low: Any, high: Any, dtype: Any) -> Any:
    """The edges of one dimension: given, or a number of bins of equal width."""
    if hasattr(bins, "shape") and not isinstance(bins, np.integer):
        return concrete(bins, "histogram")
    if bins <= 0:
        raise ValueError(f"a histogram has at least one bin, not {bins}")
    if hasattr(low, "shape"):
        return _between(low, high, bins)
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"histogram: the range [{low}, {high}] is empty or not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1, dtype=dtype)


def _counts(rows: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """How many rows fall into each cell between edges, or the sum of their weights."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    place: Any = 0
    inside = rows[:, 0] == rows[:, 0]
    for number, (edge, count) in enumerate(zip(edges, shape, strict=True)):
        column = clone(rows[:, number])
        found = searchsorted(edge, column, right=True) - 1
        last = column == getitem_slice(edge, 0, count, count + 1)  # the last bin has both edges
        found = cast(found, dtype=int64) - cast(last, dtype=int64)
        inside = inside & (found >= 0) & (found < count)
        place = place * count + found
    amounts = cast(inside, dtype=rows.dtype) if weight is None else where(inside, weight, 0)
    cells = (math.prod(shape),)
    place = where(inside, place, 0)
    out = reshape(put(amounts, place, index=(("array", 0),), shape=cells), shape=shape)
    if not density:
        return out
    volume: Any = 1
    for number, (edge, count) in enumerate(zip(edges, shape, strict=True)):
        widths = getitem_slice(edge, 0, 1, count + 1) - getitem_slice(edge, 0, 0, count)
        volume = volume * reshape(widths, shape=(count, *(1,) * (len(edges) - number - 1)))
    return out / sum(out) / cast(volume, dtype=rows.dtype)


def _limits(rows: Any) -> list[Any]:
    """The least and the greatest number of each column: tensors if their numbers are not known."""
    size = rows.shape[1]
    if not rows.shape[0]:
        return [0.0, 1.0] * size
    if is_unknown(rows):
        ends = [end(rows, 0) for end in (amin, amax)]
        return [reshape(e[i], shape=()) for i in range(size) for e in ends]
    numbers = concrete(rows, "histogram")
    limits: list[Any] = np.stack([numbers.min(0), numbers.max(0)], 1).reshape(-1).tolist()
    return limits


@public()
@new_result
def histogramdd(
    input: Any,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> Histogram:
    """A histogram of the rows of `input`, each a point; no gradient.

    `bins` is a number of bins, one for each coordinate, or a tensor of edges for each.
    """
    if not is_floating(input.dtype) or input.ndim < 2:
        raise ValueError(f"histogramdd takes rows of floats, not {input.dtype} of {input.ndim} dim")
    size = input.shape[-1]
    points = input.detach() if hasattr(input, "detach") else input
    rows = reshape(points, shape=(math.prod(points.shape[:-1]), size))
    each = list(bins) if isinstance(bins, (tuple, list)) else [bins] * size
    if len(each) != size or (range is not None and len(range) != 2 * size):
        raise ValueError(f"histogramdd of {size} coordinates needs bins, and a range, for each")
    if weight is not None:
        if tuple(weight.shape) != tuple(input.shape[:-1]) or weight.dtype != input.dtype:
            raise ValueError("histogramdd takes one weight per row, in the dtype of the input")
        weight = reshape(weight.detach(), shape=(rows.shape[0],))
    limits = range
    if limits is None:
        limits = _limits(rows)
    edges = [_edges(b, limits[2 * i], limits[2 * i + 1], input.dtype) for i, b in enumerate(each)]
    nothing = sum(zero(rows))  # adding it turns an array into the kind of the input
    hist = _counts(rows, edges, weight, density)
    return Histogram(hist, tuple(nothing + edge for edge in edges))


@public(method=True)
@new_result
def histogram(
    input: Any,
    bins: Any = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> Histogram:
    """How many elements fall into each bin, or the sum of their weights, and the bins' edges.

    `bins` is a number, or a tensor of edges; no gradient.

    >>> import gradwalk as gw
    >>> gw.histogram(gw.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    column = reshape(input, shape=(math.prod(input.shape), 1))
    if weight is not None:
        weight = reshape(weight, shape=(math.prod(weight.shape),))
    hist, edges = histogramdd(column, [bins], range=range, weight=weight, density=density)
    return Histogram(hist, edges[0])
