"""Measure what a forward pass of PyTorch saves for backward: by storage, module call and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from gradwalk.graph.source import SourceLine
from gradwalk.torch import private
from gradwalk.torch.record.operations import tensors_in
from gradwalk.torch.user_lines import caller, line_at


@dataclass
class MeasuredCall:
    """A call of a module."""

    name: str
    outer: int | None  # the call that it is a part of
    given: dict[int, int] = field(default_factory=dict)  # storages of its arguments -> bytes


@dataclass
class SavedStorage:
    """A piece of memory that backward needs."""

    bytes: int
    savers: set[int | None] = field(default_factory=set)  # innermost calls
    line: SourceLine | None = None  # of the first operation that saved it
    shape: tuple[int, ...] = ()


class SavedTensors:
    """What is saved for backward while a forward pass runs inside `measured`.

    Parameters do not count: they are there anyway. Memory that several operations save counts once.
    """

    def __init__(self, model: torch.nn.Module, own: Iterable[torch.Tensor]) -> None:
        self.calls: list[MeasuredCall] = []
        self.saved: dict[int, SavedStorage] = {}
        self._names = {id(module): name for name, module in model.named_modules()}
        self._own = {place[1] for tensor in own if (place := _storage(tensor)) is not None}
        self._stack: list[int] = []
        self._weakly: dict[int, Any] = {}  # of saved storages and arguments: an address may return

    @property
    def total(self) -> int:
        """Bytes that are kept when the forward pass ends."""
        return sum(storage.bytes for storage in self.saved.values())

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what runs inside."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack):
                yield
        finally:
            before.remove()
            after.remove()

    def inside(self, call: int | None) -> Iterator[int]:
        """A call and those that it is a part of, innermost first."""
        while call is not None:
            yield call
            call = self.calls[call].outer

    def alive(self, storages: dict[int, int]) -> dict[int, int]:
        """Those of the arguments of calls that still exist."""
        return {key: size for key, size in storages.items() if not self._weakly[key].expired()}

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        name = self._names.get(id(module), type(module).__name__)
        call = MeasuredCall(name, self._stack[-1] if self._stack else None)
        for tensor in tensors_in(args):
            place = _storage(tensor)
            if place is not None and place[1] not in self._own:
                self._weakly[place[1]] = place[0]
                call.given[place[1]] = place[2]
        self._stack.append(len(self.calls))
        self.calls.append(call)

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        self._stack.pop()

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        place = _storage(tensor)
        if place is None or place[1] in self._own:
            return tensor
        weakly, key, size = place
        known = self.saved.get(key)
        if known is None or self._weakly[key].expired():
            known = self.saved[key] = SavedStorage(size, shape=tuple(tensor.shape))
            known.line = line_at(*caller())
            self._weakly[key] = weakly
        known.savers.add(self._stack[-1] if self._stack else None)
        return tensor


def _unpack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _storage(tensor: torch.Tensor) -> tuple[Any, int, int] | None:
    """The storage of a tensor: a weak reference, what identifies it, and bytes."""
    storage = None if tensor.is_meta else private.storage_of(tensor)
    if storage is None:
        return None
    weakly = private.StorageWeakRef(storage)  # type: ignore[no-untyped-call]
    return weakly, int(storage._cdata), storage.nbytes()
