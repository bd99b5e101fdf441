"""Indexing: indices, slices, masks, gather, scatter, embeddings."""

from __future__ import annotations

from typing import Any

import torch

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry, has_dims, same

EVERY = ("slice", None, None, None)


def at_axis(axis: int, part: Any) -> tuple[Any, ...]:
    """An index with `part` at an axis and full slices before it."""
    return (*(EVERY,) * axis, part)


def clipped(place: int, length: int) -> int:
    """The end of a slice, counted from the front and within the length."""
    return max(min(place + length if place < 0 else place, length), 0)


def _item(c: AtenCall) -> Any:
    return at_axis(c.axis(), int(c.index))


def _slice(c: AtenCall) -> Any:
    length = c.self.shape[c.axis()]
    start = clipped(0 if c.start is None else c.start, length)
    end = clipped(length if c.end is None else c.end, length)
    return at_axis(c.axis(), ("slice", start, max(end, start), c.step))


def _narrow(c: AtenCall) -> Any:
    start = int(c.start) % max(c.self.shape[c.axis()], 1) if c.start < 0 else int(c.start)
    return at_axis(c.axis(), ("slice", start, start + c.length, None))


direct("select.int select_copy.int", "getitem", "self", index=_item)
direct("slice.Tensor slice_copy.Tensor", "getitem", "self", index=_slice)
direct("narrow narrow_copy", "getitem", "self", index=_narrow)
direct("select_scatter", "setitem", "self src", index=_item)
direct("slice_scatter", "setitem", "self src", index=_slice)


def _subscript(indices: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Split index tensors (None for a full dimension) into our static part and arrays."""
    fixed: list[Any] = []
    arrays: list[Any] = []
    for index in indices:
        if index is None:
            fixed.append(EVERY)
        elif index.dtype == torch.bool:
            if not index.dim():
                return None
            fixed.append(("mask", len(arrays), index.dim()))
            arrays.append(index)
        elif index.dtype == torch.uint8:  # masks of dtype uint8
            return None
        else:
            fixed.append(("array", len(arrays)))
            arrays.append(index)
    return tuple(fixed), tuple(arrays)


@entry("index.Tensor", "_unsafe_index.Tensor")
def _index(c: AtenCall) -> Known | None:
    subscript = _subscript(c.indices)
    if subscript is None:
        return None
    index, arrays = subscript
    return Known("getitem", (c.self, *arrays), {"index": index})


@entry("index_put", "_unsafe_index_put")
def _index_put(c: AtenCall) -> Known | None:
    subscript, values = _subscript(c.indices), c.values["values"]
    if subscript is None or values.dtype != c.self.dtype:
        return None
    index, arrays = subscript
    op = "index_put_added" if c.accumulate else "setitem"
    return Known(op, (c.self, values, *arrays), {"index": index})


def _one_index(c: AtenCall) -> bool:
    return has_dims(c) and c.index.dim() == 1


def _index_each(c: AtenCall) -> bool:
    return has_dims(c) and c.index.dim() == c.self.dim()


direct(
    "index_select", "getitem", "self index", when=_one_index,
    index=lambda c: at_axis(c.axis(), ("array", 0)),
)  # fmt: skip
direct(
    "masked_select", "getitem", "self mask",
    when=lambda c: has_dims(c) and c.self.shape == c.mask.shape,
    index=lambda c: (("mask", 0, c.mask.dim()),),
)  # fmt: skip
same("take", "self index")
same("gather", "self index", axis=AtenCall.axis)
same("scatter.src scatter_add", "self index src", when=_index_each, axis=AtenCall.axis)
same("scatter.value", "self index value", when=_index_each, axis=AtenCall.axis)

_along: dict[str, Any] = {"when": _one_index, "axis": AtenCall.axis}
same("index_add", "self index source", attrs="alpha", **_along)
same("index_copy", "self index source", **_along)
same("index_fill.int_Scalar index_fill.int_Tensor", "self index value", **_along)


def padding_index(c: AtenCall) -> int | None:
    """The row of an embedding that gets no gradient."""
    return None if c.padding_idx < 0 else int(c.padding_idx)


same(
    "embedding", "weight indices", padding_idx=padding_index,
    when=lambda c: not (c.scale_grad_by_freq or c.sparse),
)  # fmt: skip


def _can_search(c: AtenCall) -> bool:
    plain = c.sorter is None and not c.out_int32 and has_dims(c)
    return plain and c.sorted_sequence.shape[:-1] == c.self.shape[:-1]


direct(
    "searchsorted.Tensor", "searchsorted", "sorted_sequence self", when=_can_search,
    right=lambda c: c.right or c.side == "right",
)  # fmt: skip
direct(
    "bucketize.Tensor", "searchsorted", "boundaries self", when=lambda c: not c.out_int32,
    right="right",
)  # fmt: skip
