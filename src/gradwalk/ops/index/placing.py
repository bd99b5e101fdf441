"""Placing with a reduction, and copies of a tensor in which a part is replaced.

All but the largest and smallest of many writes are made of indexing, sums and products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import furthest, has_gradients, int64
from gradwalk.ops.core.op import Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import div_floor
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.elementwise.remainders import floor_divide, remainder
from gradwalk.ops.index.indexing import (
    Index,
    along_dim,
    as_vector,
    getitem,
    place,
    scatter_index,
    setitem,
    write_view,
)
from gradwalk.ops.index.indexing import (
    put as put_op,
)
from gradwalk.ops.index.picking import index_slices, multiplied_at
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.shape.rearranging import diagonal, diagonal_op, two_axes
from gradwalk.ops.shape.reshaping import (
    apart,
    broadcast_to,
    cast,
    new_result,
    normal_axis,
    reshape,
)

_EVERY = ("slice", None, None, None)


def _extreme_at_forward(x: Any, src: Any, *indices: Any, index: Index, largest: bool) -> Any:
    out = np.array(x)
    part, subscript = place(out, index, indices)
    (np.maximum if largest else np.minimum).at(part, subscript, src)
    return out


def _same(x: Any, y: Any) -> Any:
    """Where numbers are equal; a NaN equals a NaN, which is what was chosen if there is one."""
    return (x == y) | ((x != x) & (y != y))


def _ties(x: Any, src: Any, indices: Any, out: Any, index: Index) -> tuple[Any, Any, Any]:
    """Which elements of x and of src are the one chosen, and how many there are at each place."""
    own, written = _same(x, out), _same(src, getitem(out, *indices, index=index))
    counts = put_op(cast(written, dtype=x.dtype), *indices, index=index, shape=tuple(x.shape))
    return own, written, counts + cast(own, dtype=x.dtype)


def _extreme_rule(g: Any, x: Any, src: Any, indices: Any, out: Any, index: Index) -> Any:
    own, _, ties = _ties(x, src, indices, out, index)
    return where(own, g / ties, 0)


def _extreme_src_rule(g: Any, x: Any, src: Any, indices: Any, out: Any, index: Index) -> Any:
    _, written, ties = _ties(x, src, indices, out, index)
    return where(written, getitem(g / ties, *indices, index=index), 0)


# The largest, or the smallest, of x and of everything written to a place; equal ones share g.
extreme_at = define(
    "extreme_at",
    _extreme_at_forward,
    vjp=[_extreme_rule, _extreme_src_rule, None],
    shape=lambda x, src, *indices, index, largest: x,
)


def _reduced(
    name: str, x: Any, src: Any, fixed: Index, arrays: list[Any], reduce: str, include_self: bool
) -> Any:
    """x with everything written to its places reduced; without x itself if not `include_self`."""
    starts = {"sum": 0, "mean": 0, "prod": 1}
    if reduce in ("amax", "amin"):
        starts[reduce] = furthest(x.dtype, below=reduce == "amax")
    if reduce not in starts:
        raise ValueError(f"{name}: the reduction is sum, prod, mean, amax or amin, not {reduce!r}")
    if not math.prod(src.shape):
        return setitem(x, src, *arrays, index=fixed)  # writes nothing, and is part of the graph
    shape = tuple(x.shape)
    start = x if include_self else setitem(x, starts[reduce], *arrays, index=fixed)
    if reduce == "prod":
        return multiplied_at(start, fixed, arrays, src)
    if reduce in ("amax", "amin"):
        return extreme_at(start, src, *arrays, index=fixed, largest=reduce == "amax")
    total = start + put_op(src, *arrays, index=fixed, shape=shape)
    if reduce == "sum":
        return total
    ones = cast(src == src, dtype=int64) * 0 + 1
    count = put_op(ones, *arrays, index=fixed, shape=shape)
    count = count + 1 if include_self else where(count == 0, 1, count)
    if has_gradients(x.dtype):
        return total / cast(count, dtype=x.dtype)
    return cast(div_floor(total, count), dtype=x.dtype)


@public(method=True, inplace=True, numpy=True)
@new_result
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """`input` with `src` reduced into it at `index` along `dim`: sum, prod, mean, amax or amin.

    >>> import gradwalk as gw
    >>> gw.scatter_reduce(gw.zeros(2), 0, gw.tensor([0, 0, 1]), gw.tensor([3.0, 5.0, 1.0]), "amax")
    tensor([5., 1.])
    """
    rows, places, values = as_vector(input), as_vector(index), as_vector(src)
    fixed, arrays, values = scatter_index("scatter_reduce", rows, dim, places, values)
    out = _reduced("scatter_reduce", rows, values, fixed, arrays, reduce, include_self)
    return apart(reshape(out, shape=tuple(input.shape)), input)


@public(method=True, inplace=True, numpy=True)
@new_result
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """`input` with the slices of `source` reduced into those at `index` along `dim`.

    >>> import gradwalk as gw
    >>> gw.index_reduce(gw.ones(2), 0, gw.tensor([0, 0]), gw.tensor([3.0, 5.0]), "prod")
    tensor([15.,  1.])
    """
    rows = as_vector(input)
    places, source = index_slices("index_reduce", rows, dim, index, source)
    if reduce == "sum":
        raise ValueError("index_reduce: the sum is index_add")
    fixed: Index = along_dim(rows, dim)
    arrays = [places]
    if reduce == "prod":  # one index array per dimension
        axis = normal_axis(dim, rows.ndim)
        arrays = list(np.indices(tuple(source.shape)))
        arrays[axis] = reshape(places, shape=_column(axis, source))
        fixed = tuple(("array", i) for i in range(rows.ndim))
    out = _reduced("index_reduce", rows, source, fixed, arrays, reduce, include_self)
    return apart(reshape(out, shape=tuple(input.shape)), input)


def _column(axis: int, source: Any) -> Shape:
    return tuple(n if i == axis else 1 for i, n in enumerate(source.shape))


@public(method=True, inplace=True)
@new_result
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`input`, seen as flat, with `source` written at `index`, or added with `accumulate`.

    >>> import gradwalk as gw
    >>> gw.put(gw.zeros(2, 2), gw.tensor([3, 0]), gw.tensor([5.0, 7.0]))
    tensor([[7., 0.],
            [0., 5.]])
    """
    if index.dtype != int64:
        raise IndexError(f"put takes an index of int64, not {index.dtype}")
    if input.dtype != source.dtype or math.prod(index.shape) != math.prod(source.shape):
        raise ValueError(
            f"put takes one value of {input.dtype} per index, not {source.dtype} of shape "
            f"{tuple(source.shape)} at shape {tuple(index.shape)}"
        )
    size, shape = math.prod(input.shape), tuple(input.shape)
    places, values = (reshape(t, shape=(math.prod(t.shape),)) for t in (index, source))
    fixed = (("array", 0),)
    if accumulate:
        addend = put_op(values, places, index=fixed, shape=(size,))
        return input + reshape(addend, shape=shape)
    written = setitem(reshape(input, shape=(size,)), values, places, index=fixed)
    return reshape(written, shape=shape)


@public(method=True, inplace=True)
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """`input` with the next element of `source` wherever the mask is true.

    >>> import gradwalk as gw
    >>> gw.masked_scatter(gw.zeros(3), gw.tensor([True, False, True]), gw.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_scatter takes a mask of bool, not {mask.dtype}: mask.bool()")
    if input.dtype != source.dtype:
        raise TypeError(f"masked_scatter writes {source.dtype} into {input.dtype}; cast one")
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    full = broadcast_to(mask, shape)
    flat = reshape(full, shape=(math.prod(shape),))
    length = math.prod(source.shape)
    if length < flat.shape[0] and int(sum(flat)) > length:
        raise ValueError(
            f"masked_scatter: the mask is true more often than source has elements ({length})"
        )
    if not length:  # the mask is false everywhere
        return where(full, cast(sum(source), dtype=input.dtype), input)
    places = clip(cumsum(flat, 0) - 1, 0, length - 1)
    taken = getitem(reshape(source, shape=(length,)), places, index=(("array", 0),))
    return where(full, reshape(taken, shape=shape), input)


# -- a part replaced -----------------------------------------------------------------------------


def _fits(name: str, part: Shape, src: Any) -> None:
    if tuple(src.shape) != tuple(part):
        raise ValueError(f"{name}: src has shape {tuple(src.shape)}, the part {tuple(part)}")


@public(method=True, numpy=True)
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy of `input` with `src` as its slice at `index` along `dim`."""
    axis = normal_axis(dim, input.ndim)
    _fits("select_scatter", (*input.shape[:axis], *input.shape[axis + 1 :]), src)
    return setitem(input, src, index=(*(_EVERY,) * axis, index.__index__()))


@public(method=True, numpy=True)
def slice_scatter(
    input: Any,
    src: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    """A copy of `input` with `src` as its slices from `start` to `end` along `dim`."""
    axis = normal_axis(dim, input.ndim)
    count = len(range(*slice(start, end, step).indices(input.shape[axis])))
    _fits("slice_scatter", (*input.shape[:axis], count, *input.shape[axis + 1 :]), src)
    return setitem(input, src, index=(*(_EVERY,) * axis, ("slice", start, end, step)))


@public(method=True)
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy of `input` with `src` on its diagonal over two dimensions."""
    _fits("diagonal_scatter", diagonal(input, offset, dim1, dim2).shape, src)
    axes = two_axes("diagonal_scatter", dim1, dim2, input.ndim)
    chain = ((diagonal_op, {"offset": int(offset), "axes": axes}, 0),)
    return write_view(input, src, chain=chain)


@public()
def unravel_index(indices: Any, shape: int | Sequence[int]) -> tuple[Any, ...]:
    """Places in a flat tensor as an index for each dimension of a shape.

    >>> import gradwalk as gw
    >>> gw.unravel_index(gw.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if indices.dtype.kind not in "iu" or min(sizes, default=0) < 0:
        raise ValueError(f"unravel_index takes integers and sizes that are not negative: {sizes}")
    indices = cast(indices, dtype=int64)
    parts = []
    for size in reversed(sizes):
        parts.append(remainder(indices, size))
        indices = floor_divide(indices, size)
    return tuple(reversed(parts))
