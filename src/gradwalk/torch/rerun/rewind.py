"""Copies of what an optimizer's step changes, so that a step can be undone bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from operator import is_
from typing import Any

import torch

from gradwalk.torch import private_foreach
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.rerun.snapshots import BufferSnapshot

SHARE = 0.5  # of the free memory of a device: copies may take no more
_Kind = tuple[torch.device, torch.dtype]


class NoRoom(Exception):
    """The device has too little memory for the copies."""


class Rewind:
    """The parameters, state and options of an optimizer before its last step.

    The copies stay on their device, and no copy waits for the device: `take` before each step
    writes over those of the step before.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.randomness: Randomness | None = None
        self.buffers: list[BufferSnapshot] | None = None  # as they were before the next model call
        self.is_certain = True  # whether everything was copied, whatever the device found
        self._members: list[Any] = []  # parameters, and what else the optimizer holds
        self._tensors: list[torch.Tensor] = []  # those of them that are tensors
        # The copies of all tensors of a kind, and the tensors themselves.
        self._large: dict[_Kind, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._blank: set[_Kind] = set()  # kinds of which nothing is copied yet
        self._always: set[_Kind] = set()  # kinds of which the device cannot skip the copy
        self._numbers: dict[_Kind, list[torch.Tensor]] = {}  # tensors of one element
        self._taken: dict[_Kind, torch.Tensor] = {}  # the elements of those
        self._state: dict[Any, Any] = {}
        self._options: list[dict[str, Any]] = []

    def take(self, unless: torch.Tensor | None = None) -> None:
        """Copy everything as it is now; raise `NoRoom` if the device is too full.

        `unless`: the device need not copy what it holds if it finds 1 in this number of its own.
        """
        groups, state = self.optimizer.param_groups, self.optimizer.state
        self._options = [{name: g[name] for name in g if name != "params"} for g in groups]
        self.buffers = None
        options = (value for kept in self._options for value in kept.values())
        members = [
            *chain.from_iterable(group["params"] for group in groups),
            *(value for value in options if isinstance(value, torch.Tensor)),
            *chain.from_iterable(kept.values() for kept in state.values() if type(kept) is dict),
        ]
        if not are_same(members, self._members):  # there may be hundreds, almost always the same
            self._members = members
            self._state = {p: dict(kept) for p, kept in state.items() if type(kept) is dict}
            tensors = [member for member in members if isinstance(member, torch.Tensor)]
            if not are_same(tensors, self._tensors):
                self._make_room(tensors)
        self.is_certain = unless is None
        with torch.no_grad():
            for kind in self._large:
                if unless is None or not self._copy_unless(unless, kind):
                    self._blank.discard(kind)
                    private_foreach.copy_all(*self._large[kind])
            for kind, numbers in self._numbers.items():
                self._taken[kind] = torch.stack([n.reshape(()) if n.ndim else n for n in numbers])

    def _copy_unless(self, is_one: torch.Tensor, kind: _Kind) -> bool:
        """Let the device decide whether to copy; return False if it cannot."""
        copies, sources = self._large[kind]
        if kind in self._always or kind[0] != is_one.device or not kind[1].is_floating_point:
            return False
        if kind not in self._blank:
            self._blank.add(kind)
            for copy in copies:
                copy.fill_(private_foreach.BLANK)
        try:
            private_foreach.copy_all_unless(is_one, copies, sources)
        except RuntimeError:  # not on this device, or not for this dtype
            self._always.add(kind)
            return False
        return True

    def is_written(self) -> None:
        """Note that the device had a reason to copy."""
        self._blank.clear()

    def _make_room(self, tensors: list[torch.Tensor]) -> None:
        known = {
            id(source): copy
            for copies, sources in self._large.values()
            for copy, source in zip(copies, sources)
        }
        self._tensors, self._large, self._numbers, self._taken = tensors, {}, {}, {}
        self._blank.clear()
        missing: dict[torch.device, int] = {}
        for tensor in tensors:
            if tensor.numel() > 1 and id(tensor) not in known:
                missing[tensor.device] = missing.get(tensor.device, 0) + tensor.nbytes
        for device, count in missing.items():
            if count > SHARE * _free_memory(device):
                raise NoRoom
        for tensor in tensors:
            kind = tensor.device, tensor.dtype
            if tensor.numel() == 1 and tensor.is_cpu:
                self._numbers.setdefault(kind, []).append(tensor)
                continue
            copy = known.get(id(tensor))
            if copy is None or copy.shape != tensor.shape:
                copy = torch.empty_like(tensor, requires_grad=False)
            copies, sources = self._large.setdefault(kind, ([], []))
            copies.append(copy)
            sources.append(tensor)

    def restore(self, unnoticed: bool) -> None:
        """Undo all changes since `take`; `unnoticed` by graphs that saved the tensors."""
        with torch.no_grad():
            for copies, sources in self._large.values():
                targets = [t.data for t in sources] if unnoticed else sources
                private_foreach.copy_all(targets, copies)
            for kind, numbers in self._numbers.items():
                for number, value in zip(numbers, self._taken[kind].unbind()):
                    (number.data if unnoticed else number).copy_(value.reshape(number.shape))
        for group, options in zip(self.optimizer.param_groups, self._options):
            group.update(options)
            for parameter in group["params"]:
                if parameter in self._state:
                    self.optimizer.state[parameter] = dict(self._state[parameter])
                else:
                    self.optimizer.state.pop(parameter, None)

    @contextmanager
    def undone(self, for_good: bool) -> Iterator[None]:
        """Undo the step while inside, or for good: then with the random states and buffers."""
        now = Rewind(self.optimizer)
        if not for_good:
            now.take()
        self.restore(unnoticed=not for_good)
        if for_good:
            if self.randomness is not None:
                self.randomness.restore()
            for buffer in self.buffers or ():
                buffer.restore()
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None  # of a later step, if any
        try:
            yield
        finally:
            if not for_good:
                now.restore(unnoticed=True)


def are_same(some: list[Any], others: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _free_memory(device: torch.device) -> float:
    """The bytes that can still be allocated on a device; infinite if unknown."""
    module: Any = None if device.type == "cpu" else torch.get_device_module(device)
    if not hasattr(module, "mem_get_info"):
        return math.inf
    free, _ = module.mem_get_info(device)
    return float(free + module.memory_reserved(device) - module.memory_allocated(device))
