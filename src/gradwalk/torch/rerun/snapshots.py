"""What a call of a model depends on besides its parameters, kept so that it can be made again.

Arguments are referred to, not copied; a version that has changed tells that one was written to
since. Small buffers are copied, larger ones only if they changed since the last call.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from gradwalk.torch import private
from gradwalk.torch.record.operations import tensors_in
from gradwalk.torch.record.recorder import version_of
from gradwalk.torch.rerun.call_stack import Place
from gradwalk.torch.rerun.python_state import State
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.watch.gradient_checks import all_finite

_numbers = itertools.count()
LARGEST_BUFFER = 1 << 20  # bytes: larger ones are not copied
SMALL_BUFFER = 1 << 14  # bytes: smaller ones are copied at every call
_STATISTICS = ("running_mean", "running_var")
LARGEST_GRADIENT = 16 << 20  # bytes: larger gradients of outputs are not kept


@dataclass(slots=True)
class Buffer:
    """A buffer at one moment."""

    owner: dict[str, Any]  # of the module it belongs to
    name: str
    tensor: torch.Tensor
    version: int
    copy: torch.Tensor | None  # None of one that is large

    @property
    def is_small(self) -> bool:
        """Whether it is copied always: a batch norm, and `.data`, write without a new version."""
        return self.name in _STATISTICS or self.tensor.nbytes <= SMALL_BUFFER

    def restore(self) -> None:
        """The same tensor with the same elements, as far as they were kept."""
        self.owner[self.name] = self.tensor
        if self.copy is not None and (self.is_small or version_of(self.tensor) != self.version):
            self.tensor.data.copy_(self.copy)  # by .data: a graph may count on its version


class Model:
    """A module that the program calls itself, not from within another that is watched."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        # The dictionaries, not the tensors: a buffer may be replaced by another.
        self.buffers = [(m._buffers, name) for m in module.modules() for name in m._buffers]
        tensors = [*module.parameters(), *module.buffers()]
        self.first = tensors[0] if tensors else None
        self.device = None if self.first is None else self.first.device
        self.devices = {t.device for t in tensors if private.has_rng(t.device)}
        self._last: dict[tuple[int, str], Buffer] = {}

    @property
    def was_moved(self) -> bool:
        """Whether it is on another device than it was."""
        return self.first is not None and self.first.device != self.device

    def buffers_now(self, largest: float = LARGEST_BUFFER) -> list[Buffer]:
        """The buffers, with copies of those that are not large; unchanged ones are not copied."""
        found = []
        small: dict[tuple[torch.device, torch.dtype], list[Buffer]] = {}
        for owner, name in self.buffers:
            tensor = owner.get(name)
            if tensor is None:
                continue
            buffer = Buffer(owner, name, tensor, version_of(tensor), None)
            last = self._last.get((id(owner), name))
            if buffer.is_small and not tensor.is_sparse:
                small.setdefault((tensor.device, tensor.dtype), []).append(buffer)
            elif last is not None and last.tensor is tensor and last.version == buffer.version:
                buffer.copy = last.copy
            if buffer.copy is None and not buffer.is_small and tensor.nbytes <= largest:
                buffer.copy = tensor.detach().clone()
            self._last[id(owner), name] = buffer
            found.append(buffer)
        for several in small.values():
            _copy_together(several)
        return found


def _copy_together(buffers: list[Buffer]) -> None:
    """One operation for all of one kind: a device is slow at many small ones."""
    with torch.no_grad():
        copied = torch.cat([buffer.tensor.detach().reshape(-1) for buffer in buffers])
        parts = torch.split(copied, [buffer.tensor.numel() for buffer in buffers])
    for buffer, part in zip(buffers, parts):
        buffer.copy = part.reshape(buffer.tensor.shape)


@dataclass(eq=False)
class Call:
    """One call of a model, with all it takes to make it again."""

    model: Model
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: list[Place]  # from the caller outwards
    randomness: Randomness
    buffers: list[Buffer]
    state: State  # counters and the like: of modules, globals, ...
    autocast: list[tuple[str, torch.dtype]]  # kinds of device for which it is on
    number: int  # calls are counted
    versions: list[int] = field(default_factory=list)  # of the tensors in the arguments
    output_gradients: dict[int, torch.Tensor] = field(default_factory=dict)  # by position
    outputs: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    # What the graph behind the outputs refers to; emptied when the call is of no more use. A
    # program that keeps its losses would else keep its batches, too.
    box: list[Call] = field(default_factory=list)

    @classmethod
    def now(
        cls,
        model: Model,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        places: list[Place],
        state: State,
    ) -> Call:
        """Before the model runs."""
        tensors = list(tensors_in((args, kwargs)))
        given = {t.device for t in tensors if not t.is_cpu and private.has_rng(t.device)}
        call = cls(
            model,
            args,
            kwargs,
            places,
            Randomness.now(model.devices | given),
            model.buffers_now(),
            state,
            [
                (kind, torch.get_autocast_dtype(kind))
                for kind in {"cpu", *(device.type for device in model.devices)}
                if torch.is_autocast_enabled(kind)
            ],
            next(_numbers),
        )
        call.versions = [version_of(tensor) for tensor in tensors]
        call.box.append(call)
        return call

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors in the arguments."""
        return list(tensors_in((self.args, self.kwargs)))

    @property
    def bytes(self) -> int:
        """What is kept alive of the arguments."""
        return sum(tensor.nbytes for tensor in self.tensors if not tensor.is_sparse)

    def gave_finite(self) -> bool | None:
        """Whether what the model returned was finite; None if the program has let go of it."""
        alive = [output() for output in self.outputs]
        known = [all_finite(output) for output in alive if output is not None]
        if not all(known):
            return False
        return True if known and len(known) == len(alive) else None

    def changed_since(self) -> list[str]:
        """Arguments and buffers that cannot be had as they were, in words."""
        found = []
        for tensor, version in zip(self.tensors, self.versions):
            if version_of(tensor) != version:
                found.append(
                    f"a tensor of shape {tuple(tensor.shape)} that the model was called with was "
                    "written to in place since: its numbers are the later ones"
                )
        for buffer in self.buffers:
            if buffer.copy is None and version_of(buffer.tensor) != buffer.version:
                found.append(f"the buffer {buffer.name} is too large to be kept, and was changed")
        return found

    def restore(self) -> None:
        """Random numbers, buffers, and all that is kept outside of tensors, as at the call."""
        self.state.restore()
        self.randomness.restore()
        for buffer in self.buffers:
            buffer.restore()

    @property
    def given(self) -> list[Any]:
        """Where, besides modules and globals, there may be what a program counts with."""
        return given_to(self.places, self.args, self.kwargs)

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Everything restored, and mixed precision as at the call."""
        self.restore()
        with ExitStack() as stack:
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield


def given_to(places: list[Place], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The variables that were kept of frames, and arguments."""
    return [*(place.variables for place in places if place.variables), args, kwargs]


def outputs_in(output: Any) -> list[torch.Tensor]:
    """The tensors in what a model returned; of an object its attributes."""
    found = list(tensors_in(output))
    return found or list(tensors_in(getattr(output, "__dict__", None)))
