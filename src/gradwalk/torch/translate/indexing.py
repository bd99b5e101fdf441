"""Indexing: indices, slices, masks, gather, scatter, embeddings."""

from __future__ import annotations

from typing import Any

import torch

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry

EVERY = ("slice", None, None, None)


def _at(axis: int, part: Any) -> tuple[Any, ...]:
    """An index with `part` at an axis and full slices before it."""
    return (*(EVERY,) * axis, part)


def _sliced(c: AtenCall) -> Any:
    length = c.self.shape[c.axis()]
    start = 0 if c.start is None else c.start
    end = length if c.end is None else c.end
    start, end = (max(min(n + length if n < 0 else n, length), 0) for n in (start, end))
    return ("slice", start, max(end, start), c.step)


@entry("select.int", "select_copy.int")
def _select(c: AtenCall) -> Known:
    return Known("getitem", (c.self,), {"index": _at(c.axis(), int(c.index))})


@entry("slice.Tensor", "slice_copy.Tensor")
def _slice(c: AtenCall) -> Known:
    return Known("getitem", (c.self,), {"index": _at(c.axis(), _sliced(c))})


@entry("narrow", "narrow_copy")
def _narrow(c: AtenCall) -> Known:
    start = int(c.start) % max(c.self.shape[c.axis()], 1) if c.start < 0 else int(c.start)
    part = ("slice", start, start + c.length, None)
    return Known("getitem", (c.self,), {"index": _at(c.axis(), part)})


@entry("select_scatter")
def _select_scatter(c: AtenCall) -> Known:
    return Known("setitem", (c.self, c.src), {"index": _at(c.axis(), int(c.index))})


@entry("slice_scatter")
def _slice_scatter(c: AtenCall) -> Known:
    return Known("setitem", (c.self, c.src), {"index": _at(c.axis(), _sliced(c))})


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
    found = _subscript(c.indices)
    if found is None:
        return None
    return Known("getitem", (c.self, *found[1]), {"index": found[0]})


@entry("index_put", "_unsafe_index_put")
def _index_put(c: AtenCall) -> Known | None:
    found = _subscript(c.indices)
    if found is None or c.values["values"].dtype != c.self.dtype:
        return None
    op = "index_put_added" if c.accumulate else "setitem"
    return Known(op, (c.self, c.values["values"], *found[1]), {"index": found[0]})


@entry("index_select")
def _index_select(c: AtenCall) -> Known | None:
    if not c.self.dim() or c.index.dim() != 1:
        return None
    return Known("getitem", (c.self, c.index), {"index": _at(c.axis(), ("array", 0))})


@entry("masked_select")
def _masked_select(c: AtenCall) -> Known | None:
    if c.self.shape != c.mask.shape or not c.self.dim():
        return None
    return Known("getitem", (c.self, c.mask), {"index": (("mask", 0, c.mask.dim()),)})


direct("take", "take", "self index")
direct("gather", "gather", "self index", axis=lambda c: c.axis())


def _written(name: str, op: str, source: str, **attrs: Any) -> None:
    """Register an overload that writes `source` at an index along `dim`."""

    def known(c: AtenCall) -> Known | None:
        rank = c.self.dim() if op.startswith("scatter") else 1
        if not c.self.dim() or c.index.dim() != rank:
            return None
        found = {k: c.values[v] for k, v in attrs.items()}
        return Known(op, (c.self, c.index, c.values[source]), {"axis": c.axis(), **found})

    entry(name)(known)


_written("scatter.src", "scatter", "src")
_written("scatter.value", "scatter", "value")
_written("scatter_add", "scatter_add", "src")
_written("index_add", "index_add", "source", alpha="alpha")
_written("index_copy", "index_copy", "source")
_written("index_fill.int_Scalar", "index_fill", "value")
_written("index_fill.int_Tensor", "index_fill", "value")


@entry("embedding")
def _embedding(c: AtenCall) -> Known | None:
    if c.scale_grad_by_freq or c.sparse:
        return None
    padding = None if c.padding_idx < 0 else c.padding_idx
    return Known("embedding", (c.weight, c.indices), {"padding_idx": padding})


@entry("searchsorted.Tensor")
def _searchsorted(c: AtenCall) -> Known | None:
    plain = c.sorter is None and not c.out_int32 and c.values["self"].dim() > 0
    right = c.right or c.side == "right"
    if not plain or c.sorted_sequence.shape[:-1] != c.self.shape[:-1]:
        return None
    return Known("searchsorted", (c.sorted_sequence, c.self), {"right": right})


@entry("bucketize.Tensor")
def _bucketize(c: AtenCall) -> Known | None:
    if c.out_int32:
        return None
    return Known("searchsorted", (c.boundaries, c.self), {"right": c.right})
