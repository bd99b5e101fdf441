"""Batching rules of indexing: reading and writing at indices that may differ between samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.batching.errors import refused
from gradwalk.batching.lanes import Lanes, Shape, aligned, spread
from gradwalk.batching.rules.shape import BATCHED_ATTRIBUTES
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index import embedding, indexing, placing
from gradwalk.ops.shape.reshaping import expand_op, permute, reshape

_EVERY = ("slice", None, None, None)


class Subscript(NamedTuple):
    """An index of one sample, written for all of them.

    NumPy puts the axes of index arrays that are not side by side first. `order` brings its result
    to the axes (sample, *those of one sample).
    """

    parts: indexing.Index
    arrays: list[Any]
    order: tuple[int, ...]

    def read(self, result: Any) -> Any:
        """The result of an op with this index, samples first."""
        return result if _in_order(self.order) else permute(result, axes=self.order)

    def written(self, value: Any) -> Any:
        """A value, samples first, for an op that writes at this index."""
        if _in_order(self.order):
            return value
        back = tuple(sorted(range(len(self.order)), key=self.order.__getitem__))
        return permute(value, axes=back)


def _in_order(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def _subscript(
    index: indexing.Index, indices: Sequence[Lanes], rank: int, size: int, shared: bool = False
) -> Subscript:
    """The subscript into an array of samples, of `rank` axes each, or into one that they share."""
    _refuse_masks(index, indices)
    count = len(_common(index, indices))  # axes that the index arrays give
    rest, first = _other_axes(index, rank)
    total = 1 + count + rest
    if not any(i.batched for i in indices):
        together = first is not None or not count
        front = () if together else tuple(range(count))
        order = range(total) if together else (count, *front, *range(count + 1, total))
        return Subscript((_EVERY, *index), [i.inner for i in indices], tuple(order))
    place = 0 if first is None else first
    if shared:
        numpys = (place, *range(place), *range(place + 1, total))
        return Subscript(index, [aligned(i, count) for i in indices], numpys)
    # The number of the sample is one more index array, the first, and so NumPy puts their axes
    # first: (sample, *those of the arrays, *rest).
    samples = np.arange(size).reshape(size, *(1,) * count)
    samples.flags.writeable = False  # read-only: a tracer takes it for a constant
    arrays = [samples, *[_of_rank(i, count) for i in indices]]
    renumbered = [(part[0], part[1] + 1, *part[2:]) if _is_array(part) else part for part in index]
    moved = range(1, 1 + count)
    others = range(1 + count, total)
    order = (0, *others[:place], *moved, *others[place:])
    return Subscript((("array", 0), *renumbered), arrays, tuple(order))


def _is_array(part: Any) -> bool:
    """Whether a part of an index is an array of integers or a mask."""
    return isinstance(part, tuple) and part[0] != "slice"


def _of_rank(indices: Lanes, rank: int) -> Any:
    """Index arrays with one axis for the samples and `rank` others."""
    if indices.batched:
        return aligned(indices, rank)
    return reshape(indices.inner, shape=(*(1,) * (1 + rank - indices.ndim), *indices.shape))


def _refuse_masks(index: indexing.Index, indices: Sequence[Lanes]) -> None:
    for part in index:
        if isinstance(part, tuple) and part[0] == "mask" and indices[part[1]].batched:
            raise refused(
                "x[mask] with a mask that differs between samples: each would have its own shape.",
                "gradwalk.where(mask, x, 0) keeps the shape.",
            )


def _common(index: indexing.Index, indices: Sequence[Lanes]) -> Shape:
    """The shape that the index arrays of one sample give together; that of a mask is not known."""
    shapes = []
    for part in index:
        if _is_array(part):
            shapes.append((1,) if part[0] == "mask" else indices[part[1]].shape)
    return np.broadcast_shapes(*shapes)


def _other_axes(index: indexing.Index, rank: int) -> tuple[int, int | None]:
    """How many axes of the result come from no index array, and before which of them the axes of
    the arrays stand; None if these are not side by side, and come first."""
    used = 0
    for part in index:
        if isinstance(part, tuple) and part[0] == "mask":
            used += part[2]
        elif part is not None and part != "...":
            used += 1
    before = 0  # axes of the result so far
    first, closed, apart = None, False, False
    for part in index if "..." in index else (*index, "..."):
        if isinstance(part, int):
            continue  # it selects first, and leaves no axis
        if _is_array(part):
            apart = apart or closed
            first = before if first is None else first
            continue
        closed = first is not None
        before += rank - used if part == "..." else 1
    return before, None if apart else first


def read(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """getitem."""
    x, *indices = args
    subscript = _subscript(attrs["index"], indices, x.ndim, size, shared=not x.batched)
    return subscript.read(op(x.inner, *subscript.arrays, index=subscript.parts))


def last_writes(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """winners: each sample writes to a tensor of its own, whatever they share."""
    x, *indices = args
    subscript = _subscript(attrs["index"], indices, x.ndim, size)
    return subscript.read(op(spread(x, size), *subscript.arrays, index=subscript.parts))


def put(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """The transpose of getitem."""
    g, *indices = args
    shape = attrs["shape"]
    subscript = _subscript(attrs["index"], indices, len(shape), size)
    value = subscript.written(spread(g, size))
    return op(value, *subscript.arrays, index=subscript.parts, shape=(size, *shape))


def write(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """setitem; where a mask differs between samples, a choice."""
    x, value, *indices = args
    index = attrs["index"]
    whole = spread(x, size)
    single = value.__class__ is not Lanes or value.size == 1
    if len(index) == 1 and isinstance(index[0], tuple) and index[0][0] == "mask" and single:
        mask = indices[0]
        lifted = (*mask.shape, *(1,) * (x.ndim - mask.ndim))
        chosen = reshape(spread(mask, size), shape=(size, *lifted))
        if value.__class__ is Lanes:
            value = _whole_number(value, x.ndim, size)
        return where(chosen, value, whole)
    subscript = _subscript(index, indices, x.ndim, size)
    if value.__class__ is Lanes:
        rank = len(subscript.order) - 1
        extra = max(value.ndim - rank, 0)  # leading axes of length 1, which NumPy leaves out
        lanes = spread(value, size)
        lanes = reshape(lanes, shape=(size, *(1,) * (rank - value.ndim), *value.shape[extra:]))
        value = subscript.written(lanes)
    return op(whole, value, *subscript.arrays, **{**attrs, "index": subscript.parts})


def _whole_number(value: Lanes, rank: int, size: int) -> Any:
    """One number for each sample, or for all."""
    if not value.batched:
        return reshape(value.inner, shape=())
    return reshape(value.inner, shape=(size, *(1,) * rank))


def write_view(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """A write through a chain of view ops, each of them for all samples."""
    base, value = args
    chain = tuple([(o, BATCHED_ATTRIBUTES[o](size, **a), i) for o, a, i in attrs["chain"]])
    part = indexing.through(np.broadcast_to(np.int8(0), base.shape), attrs["chain"])
    if value.__class__ is Lanes:
        value = expand_op(spread(value, size, part.ndim), shape=(size, *part.shape))
    return op(spread(base, size), value, chain=chain)


def embed(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """Rows of one table, or of a table for each sample: of all tables one below the other."""
    weight, indices = args
    if not weight.batched:
        return op(weight.inner, indices.inner, **attrs)
    table, skip = weight.inner, attrs["padding_idx"]
    count, *rest = weight.shape
    if skip is not None and hasattr(table, "detach"):  # that row gets no gradient
        padding = (np.arange(count) == skip).reshape(count, *(1,) * len(rest))
        table = where(padding, table.detach(), table)
    tables = reshape(table, shape=(size * count, *rest))
    return op(tables, _numbered(indices, count, size), padding_idx=None)


def add_rows(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """The transpose of `embed`."""
    y, indices = args
    count, skip = attrs["count"], attrs["skip"]
    rest = y.shape[indices.ndim :]
    flat = op(spread(y, size), _numbered(indices, count, size), count=size * count, skip=None)
    out = reshape(flat, shape=(size, count, *rest))
    if skip is None:
        return out
    return where((np.arange(count) == skip % count).reshape(count, *(1,) * len(rest)), 0, out)


def _numbered(indices: Lanes, count: int, size: int) -> Any:
    """Row numbers in the tables of all samples, one below the other."""
    starts = (np.arange(size) * count).reshape(size, *(1,) * indices.ndim)
    starts.flags.writeable = False
    rows = spread(indices, size)
    return where(rows < 0, rows + count, rows) + starts


RULES = {
    indexing.getitem: read,
    indexing.winners: last_writes,
    indexing.put: put,
    indexing.setitem: write,
    placing.extreme_at: write,
    indexing.write_view: write_view,
    embedding.embedding_op: embed,
    embedding.sum_rows: add_rows,
}
