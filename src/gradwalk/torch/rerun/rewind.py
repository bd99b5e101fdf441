"""Copies of what an optimizer's step changes, so that a step can be undone bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradwalk.torch import private
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
        self._tensors: list[torch.Tensor] = []
        self._large: dict[_Kind, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._numbers: dict[_Kind, list[torch.Tensor]] = {}  # tensors of one element
        self._taken: dict[_Kind, torch.Tensor] = {}  # the elements of those
        self._state: dict[Any, Any] = {}
        self._options: list[dict[str, Any]] = []

    def take(self) -> None:
        """Copy everything as it is now; raise `NoRoom` if the device is too full."""
        state, tensors = self.optimizer.state, []
        self._state, self._options = {}, []
        self.buffers = None
        for group in self.optimizer.param_groups:
            self._options.append({name: group[name] for name in group if name != "params"})
            tensors += [value for value in group.values() if isinstance(value, torch.Tensor)]
            for parameter in group["params"]:
                tensors.append(parameter)
                if parameter in state:
                    self._state[parameter] = kept = dict(state[parameter])
                    tensors += [v for v in kept.values() if isinstance(v, torch.Tensor)]
        if list(map(id, tensors)) != list(map(id, self._tensors)):
            self._make_room(tensors)
        with torch.no_grad():
            for sources, copies in self._large.values():
                private.copy_all(copies, sources)
            for kind, numbers in self._numbers.items():
                self._taken[kind] = torch.stack([n.reshape(()) if n.ndim else n for n in numbers])

    def _make_room(self, tensors: list[torch.Tensor]) -> None:
        known = {
            id(source): copy
            for sources, copies in self._large.values()
            for source, copy in zip(sources, copies)
        }
        self._tensors, self._large, self._numbers, self._taken = tensors, {}, {}, {}
        missing: dict[torch.device, int] = {}
        for tensor in tensors:
            if tensor.numel() > 1 and id(tensor) not in known:
                missing[tensor.device] = missing.get(tensor.device, 0) + tensor.nbytes
        for device, count in missing.items():
            if count > SHARE * _free_memory(device):
                raise NoRoom
        for tensor in tensors:
            kind = tensor.device, tensor.dtype
            if tensor.numel() == 1:
                self._numbers.setdefault(kind, []).append(tensor)
                continue
            copy = known.get(id(tensor))
            if copy is None or copy.shape != tensor.shape:
                copy = torch.empty_like(tensor, requires_grad=False)
            sources, copies = self._large.setdefault(kind, ([], []))
            sources.append(tensor)
            copies.append(copy)

    def restore(self, unnoticed: bool) -> None:
        """Undo all changes since `take`; `unnoticed` by graphs that saved the tensors."""
        with torch.no_grad():
            for sources, copies in self._large.values():
                private.copy_all([t.data for t in sources] if unnoticed else sources, copies)
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


def _free_memory(device: torch.device) -> float:
    """The bytes that can still be allocated on a device; infinite if unknown."""
    module: Any = None if device.type == "cpu" else torch.get_device_module(device)
    if not hasattr(module, "mem_get_info"):
        return math.inf
    free, _ = module.mem_get_info(device)
    return float(free + module.memory_reserved(device) - module.memory_allocated(device))
