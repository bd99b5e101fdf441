"""Storages: which memory tensors share, what autograd nodes save, and in-place writes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Edge, Saved, Trace
from gradwalk.torch import private

OVERWRITTEN = "modified by an inplace operation"


class HeldWeakly(list[Any]):
    """A list of live objects that holds PyTorch's tensors weakly."""

    def append(self, thing: Any) -> None:
        super().append(weakref.ref(thing) if isinstance(thing, torch.Tensor) else thing)

    def __iter__(self) -> Iterator[Any]:
        for held in super().__iter__():
            thing = held() if isinstance(held, weakref.ref) else held
            if thing is not None:
                yield thing


class Write(NamedTuple):
    """One in-place write."""

    order: int  # counts all writes
    time: int  # number of nodes at that time
    name: str  # of the operation
    line: SourceLine | None


class Memories:
    """Fill `trace.saved` and `trace.memory`, and remember in-place writes."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._numbers: dict[int, tuple[Any, int]] = {}  # storage -> weak reference, number
        self._storages = 0  # seen so far
        self._writes: dict[int, list[Write]] = {}  # by storage, oldest first
        self._count = 0  # of them

    def note_memory(self, edge: Edge, tensor: torch.Tensor) -> None:
        """Note the storage of an output."""
        place = self._placed("out", tensor)
        if place is not None:
            self.trace.memory[edge] = place

    def note_write(self, tensor: torch.Tensor, name: str, line: SourceLine | None) -> None:
        """Note an in-place write."""
        place = self._placed("", tensor)
        if place is not None:
            self._count += 1
            write = Write(self._count, len(self.trace.nodes), name, line)
            self._writes.setdefault(place.memory, []).append(write)

    def last_write(self, tensor: torch.Tensor) -> tuple[int, SourceLine | None] | None:
        """The number and line of the last write to a tensor's memory; None without one."""
        place = self._placed("", tensor)
        writes = self._writes.get(-1 if place is None else place.memory)
        return (writes[-1].order, writes[-1].line) if writes else None

    def note_saved(self, index: int, saved: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Note what a node saves for backward, except parameters."""
        places = []
        for name, tensor in saved:
            place = self._placed(name, tensor)
            whole = tensor if tensor._base is None else tensor._base  # a transposed weight
            if place is not None and not (whole.is_leaf and whole.requires_grad):
                places.append(place)
        self.trace.saved[index] = tuple(places)

    def _placed(self, name: str, tensor: torch.Tensor) -> Saved | None:
        storage = None if tensor.is_meta else private.storage_of(tensor)
        if storage is None:
            return None
        return Saved(name, storage.nbytes(), self._number(storage))

    def _number(self, storage: Any) -> int:
        key = storage._cdata
        known = self._numbers.get(key)
        if known is None or known[0].expired():
            self._storages += 1
            weakly = private.StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            known = self._numbers[key] = weakly, self._storages
        return known[1]

    # -- what was overwritten before backward needed it --------------------------------------------

    def explain_overwritten(
        self, error: RuntimeError, nodes: list[Any], index_of: Callable[[Any], int | None]
    ) -> None:
        """Add to PyTorch's error which operation saved the tensor, and which one overwrote it."""
        if OVERWRITTEN not in str(error):
            return
        for grad_fn in reversed(nodes):
            index = index_of(grad_fn)
            if index is not None and _is_spoilt(grad_fn):
                text, line = self._told(index)
                error.add_note(text)
                error.gradwalk_line = line  # type: ignore[attr-defined]
                return

    def _told(self, index: int) -> tuple[str, SourceLine | None]:
        node = self.trace.nodes[index]
        name, line = self.trace.name(index), node.line
        own = [Edge(index, k) for k in range(len(node.metas))]
        for edge in [*own, *(edge for _, edge in node.edges)]:
            place = self.trace.memory.get(edge)
            writes = self._writes.get(place.memory if place else -1, ())
            later = next((write for write in writes if write.time > index), None)
            if later is not None:
                what = "its result" if edge.node == index else self.trace.name(edge.node)
                return (
                    f"gradwalk: {name} ({line}) keeps {what} for backward, and {later.name} "
                    f"({later.line}) overwrote it before backward ran. Fix: compute it out of "
                    "place there, or write to a clone().",
                    later.line,
                )
        return f"gradwalk: what {name} ({line}) keeps for backward was overwritten in place.", line


def _is_spoilt(grad_fn: Any) -> bool:
    for name in private.saved_names(grad_fn):
        if private.is_packed(grad_fn, name):
            continue
        try:
            getattr(grad_fn, name)
        except RuntimeError as error:
            if OVERWRITTEN in str(error):
                return True
    return False
