"""Picking and placing by masks and indices: nonzero, masked_fill, scatter, index_add and friends.

None of these is an op of its own: they are getitem, setitem and put with index arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of, traces
from gradwalk.ops.core.dtypes import bool_, category, held_by, int8, int64, result_dtype
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.public import Change, Mixed, public, public_change
from gradwalk.ops.elementwise.arithmetic import add, div_floor
from gradwalk.ops.elementwise.choice import equal, not_equal
from gradwalk.ops.elementwise.choice import where as choose
from gradwalk.ops.index.indexing import (
    Index,
    along_dim,
    as_vector,
    from_user_index,
    getitem,
    put,
    refuse_negative,
    scatter_index,
    setitem,
)
from gradwalk.ops.reduce.sorting import sort_op
from gradwalk.ops.shape.rearranging import concrete
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    cat,
    clone,
    getitem_slice,
    normal_axis,
    pad_op,
    reshape,
    stack,
    unsqueeze,
)

_EVERYWHERE = {"index": ("...",)}
_AT: Index = (("array", 0),)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """self where the condition holds, `other` elsewhere."""
    return choose(condition, self, other)


@public(method=_where_method)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, `other` elsewhere; alone, where it holds.

    >>> import gradwalk as gw
    >>> gw.where(gw.tensor([True, False]), gw.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    >>> gw.where(gw.tensor([True, False, True]))
    (tensor([0, 2]),)
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return choose(condition, input, other)


@public(method=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Mixed:
    """The places of the elements that are not zero: one row each, or an index per dimension."""
    mask = input if input.dtype == bool_ else not_equal(input, 0)
    if as_tuple and not mask.ndim:
        mask = unsqueeze(mask, 0)  # as PyTorch, which sees one element
    everywhere = np.indices(mask.shape)
    index = (("mask", 0, mask.ndim),)
    columns = tuple(getitem(grid, mask, index=index) for grid in everywhere)
    if as_tuple:
        return columns
    if not columns:  # no dimensions: no columns
        return getitem(np.zeros((1, 0), np.int64), unsqueeze(mask, 0), index=(("mask", 0, 1),))
    return stack(columns, 1)


@public(method=True)
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` rows of `nonzero`, with rows of `fill_value` after the last.

    >>> import gradwalk as gw
    >>> gw.nonzero_static(gw.tensor([0, 5, 6]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise ValueError(f"nonzero_static: size cannot be negative, got {size}")
    count, shape = math.prod(input.shape), tuple(input.shape)
    mask = reshape(input if input.dtype == bool_ else not_equal(input, 0), shape=(count,))
    # In order, the places where the mask is true come first, and there are fixed numbers of both.
    order = sort_op(cast(mask, dtype=int8), axis=0, descending=True)[1]
    found = getitem_slice(getitem(mask, order, index=_AT), 0, 0, min(size, count))
    places = getitem_slice(order, 0, 0, min(size, count))
    columns = []
    for axis, length in enumerate(shape):
        after = math.prod(shape[axis + 1 :])
        columns.append(choose(found, div_floor(places, after) % length, fill_value))
    rows = stack(columns, 1) if columns else reshape(places[:0], shape=(min(size, count), 0))
    missing = max(size - count, 0)
    return clone(pad_op(rows, widths=((0, missing), (0, 0)), value=fill_value))


@public(method=True)
def argwhere(input: Any) -> Any:
    """The places of the elements that are not zero, one row each."""
    return nonzero(input)


@public(method=True)
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where the mask is true, in one dimension.

    >>> import gradwalk as gw
    >>> gw.masked_select(gw.tensor([1.0, 2.0, 3.0]), gw.tensor([True, False, True]))
    tensor([1., 3.])
    """
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_select takes a mask of bool, not {mask.dtype}: mask.bool()")
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    index = (("mask", 0, len(shape)),)
    return getitem(broadcast_to(input, shape), broadcast_to(mask, shape), index=index)


def _masked_fill_in_place(x: Any, mask: Any, value: Any) -> Change:
    _check_mask(mask)
    full = broadcast_to(mask, x.shape)
    return setitem, (x, value, full), {"index": (("mask", 0, full.ndim),)}


def _check_mask(mask: Any) -> None:
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_fill takes a mask of bool, not {mask.dtype}: mask.bool()")


@public(method=True, inplace=_masked_fill_in_place)
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """`input` with `value` where the mask is true, in the dtype of `input`."""
    one_value("masked_fill", value)
    _check_mask(mask)
    out = choose(mask, value, input)
    return out if out.dtype == input.dtype else cast(out, dtype=input.dtype)


def one_value(name: str, value: Any) -> None:
    if getattr(value, "ndim", 0):
        raise ValueError(f"{name} takes a number or a 0-d tensor, not shape {tuple(value.shape)}")


@public_change(numpy=True)
def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Change:
    """`input` with `src` (or `value`) written at `index` along `dim`.

    Of several writes to one place the last one wins, and only it receives a gradient.

    >>> import gradwalk as gw
    >>> gw.scatter(gw.zeros(3), 0, gw.tensor([2, 0]), gw.tensor([5.0, 7.0]))
    tensor([7., 0., 5.])
    """
    src = value if src is None else src
    if reduce not in (None, "add", "multiply"):
        raise ValueError(f"scatter: reduce is 'add' or 'multiply', not {reduce!r}")
    if reduce is not None and not getattr(src, "ndim", 0):
        src = src if hasattr(src, "dtype") else np.asarray(held_by(input.dtype, src), input.dtype)
        src = broadcast_to(src, tuple(index.shape))
    fixed, arrays, src = scatter_index("scatter", input, dim, index, src)
    if reduce == "add":
        return add, (input, put(src, *arrays, index=fixed, shape=tuple(input.shape))), {}
    if reduce == "multiply":
        return setitem, (input, multiplied_at(input, fixed, arrays, src)), _EVERYWHERE
    return setitem, (input, src, *arrays), {"index": fixed}


@rounds_once
def multiplied_at(x: Any, fixed: Index, arrays: list[Any], src: Any) -> Any:
    """x times every number written to a place.

    In order, the writes to one place stand side by side, and each round multiplies runs of twice
    the length. The last of a place has the whole product, and the last write wins.
    """
    if not arrays:
        return x * src
    shape = tuple(x.shape)
    places: Any = 0
    for array, length in zip(arrays, shape, strict=True):
        places = places * length + array
    count = math.prod(src.shape)
    places, values = reshape(places, shape=(count,)), reshape(src, shape=(count,))
    longest = _longest_run(places, count)
    if longest > 1:
        order = sort_op(places, axis=0, descending=False)[1]
        places, values = (getitem(t, order, index=_AT) for t in (places, values))
    length = 1
    while length < longest:
        same = equal(*(getitem_slice(places, 0, *ends) for ends in _apart(length, count)))
        later, earlier = (getitem_slice(values, 0, *ends) for ends in _apart(length, count))
        first = getitem_slice(values, 0, 0, length)
        values = cat([first, later * choose(same, earlier, 1)], 0)
        length *= 2
    ones = np.ones(math.prod(shape), x.dtype)
    return x * reshape(setitem(ones, values, places, index=_AT), shape=shape)


def _apart(distance: int, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The ends of two slices of `count` elements: those with one so far before them, and these."""
    return (distance, count), (0, count - distance)


def _longest_run(places: Any, count: int) -> int:
    """How often one place is written to at most, as far as it is known."""
    known = numbers_of(places)
    if known is None or not count:
        return count
    return int(np.unique(known, return_counts=True)[1].max())


@public_change(numpy=True)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Change:
    """`input` with the slices of alpha × source added at `index` along `dim`.

    >>> import gradwalk as gw
    >>> gw.index_add(gw.zeros(3), 0, gw.tensor([0, 0, 2]), gw.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    rows = as_vector(input)
    index, source = index_slices("index_add", rows, dim, index, source)
    refuse_negative("index_add", index)
    if alpha != 1:
        source = source * alpha
    addend = put(source, index, index=along_dim(rows, dim), shape=tuple(rows.shape))
    return add, (input, addend if input.ndim else reshape(addend, shape=())), {}


@public_change(numpy=True)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Change:
    """`input` with the slices at `index` along `dim` replaced by those of `source`."""
    index, source = index_slices("index_copy", as_vector(input), dim, index, source)
    refuse_negative("index_copy", index)
    return _written_along(input, dim, index, source)


def _written_along(x: Any, dim: int, index: Any, value: Any) -> Change:
    """The change that writes slices of x; a single number is written as a vector of one."""
    if x.ndim:
        return setitem, (x, value, index), {"index": along_dim(x, dim)}
    vector = as_vector(x)
    written = setitem(vector, value, index, index=along_dim(vector, dim))
    return setitem, (x, reshape(written, shape=())), _EVERYWHERE


def index_slices(name: str, x: Any, dim: int, index: Any, source: Any) -> tuple[Any, Any]:
    """The places along `dim` as a vector, and the slices to put there."""
    axis = normal_axis(dim, x.ndim)
    index = as_vector(index)
    expected = (*x.shape[:axis], math.prod(index.shape), *x.shape[axis + 1 :])
    shape = tuple(source.shape)
    if index.ndim != 1 or (shape != expected and (shape or expected != (1,))):
        raise ValueError(
            f"{name} into shape {tuple(x.shape)} at an index of shape {tuple(index.shape)} along "
            f"{dim} needs a source of shape {expected}, not {shape}"
        )
    return index, as_vector(source)


@public_change(numpy=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Change:
    """`input` with the slices at `index` along `dim` filled with one value."""
    one_value("index_fill", value)
    return _written_along(input, dim, index, value)


@public_change()
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Change:
    """`input` with x[indices] = values, or += values with `accumulate`, repeats counted."""
    fixed, arrays = from_user_index(tuple(indices))
    if not accumulate:
        return setitem, (input, values, *arrays), {"index": fixed}
    return add, (input, put_addend(input, fixed, arrays, values)), {}


@public()
def fill(input: Any, value: Any) -> Any:
    """A tensor like `input` with every element `value`."""
    one_value("fill", value)
    return setitem(input, value, index=("...",))


def put_addend(x: Any, fixed: Index, arrays: Sequence[Any], values: Any) -> Any:
    """What an accumulating `index_put` adds."""
    target = getitem(x.detach() if hasattr(x, "detach") else x, *arrays, index=fixed)
    spread = broadcast_to(values, tuple(target.shape))
    return put(spread, *arrays, index=fixed, shape=tuple(x.shape))


def _checked(index: Any, count: int) -> Any:
    """Add a dimension of length 1 to an index whose numbers are unknown.

    Each is looked up in a column of all valid numbers, so a number out of range raises when used.
    """
    from gradwalk.ops.index.embedding import embedding_op
    from gradwalk.ops.network.softmax import without_negatives

    column = np.arange(count)[:, None]
    column.flags.writeable = False
    return embedding_op(column, without_negatives(index, count), padding_idx=None)


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Class indices as rows of 0 and one 1.

    >>> import gradwalk as gw
    >>> gw.nn.functional.one_hot(gw.tensor([2, 0]), 3)
    tensor([[0, 0, 1],
            [1, 0, 0]])
    """
    if category(result_dtype([input])) != 1:
        raise TypeError(f"one_hot takes integers, not {input.dtype}")
    if traces.on and num_classes > 0:
        return cast(equal(_checked(input, num_classes), np.arange(num_classes)), dtype=int64)
    if num_classes == -1:
        numbers = concrete(input, "one_hot without num_classes")
        if not numbers.size:
            raise ValueError("one_hot of no elements needs num_classes")
        num_classes = int(numbers.max()) + 1
    known = numbers_of(input)
    if known is not None and known.size and not 0 <= known.min() <= known.max() < num_classes:
        raise ValueError(
            f"one_hot: class indices must be in [0, {num_classes}), found "
            f"{known.min()} to {known.max()}"
        )
    return cast(equal(unsqueeze(input, -1), np.arange(num_classes)), dtype=int64)
