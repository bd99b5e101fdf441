"""Snapshots of everything that a model call depends on besides its parameters.

Arguments are referenced, not copied; their version counters tell whether the program wrote to them
since. Small buffers are copied at every call, larger ones only after a change.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from gradwalk.torch import private
from gradwalk.torch.ranks.notes import is_one_of_many
from gradwalk.torch.record.operations import tensors_in, version_of
from gradwalk.torch.rerun.call_stack import FrameSnapshot
from gradwalk.torch.rerun.python_state import State
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.watch.gradient_checks import all_finite

_numbers = itertools.count()
LARGEST_BUFFER = 1 << 20  # bytes: larger ones are not copied
SMALL_BUFFER = 1 << 14  # bytes: smaller ones are copied at every call
_STATISTICS = ("running_mean", "running_var")
LARGEST_GRADIENT = 16 << 20  # bytes: larger gradients of outputs are not kept
FEW = 16  # elements: longer lists of variables are not searched for tensors
LARGEST_BATCH = 16 << 20  # bytes: a larger batch is not copied


@dataclass(slots=True)
class BufferSnapshot:
    """A snapshot of a buffer."""

    owner: dict[str, Any]  # the `_buffers` of its module
    name: str
    tensor: torch.Tensor
    version: int
    copy: torch.Tensor | None  # None if it is too large

    @property
    def is_small(self) -> bool:
        """Whether to copy it always: batch norm and `.data` write without a new version."""
        return self.name in _STATISTICS or self.tensor.nbytes <= SMALL_BUFFER

    def restore(self) -> None:
        """Put the tensor back, with its elements if they were copied."""
        self.owner[self.name] = self.tensor
        if self.copy is not None and (self.is_small or version_of(self.tensor) != self.version):
            self.tensor.data.copy_(self.copy)  # by .data: a graph may rely on its version


class BatchCopy:
    """Copies of a batch, for programs that write the next one to the same tensors."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        several = {id(t): t for t in tensors if not t.requires_grad and t.layout == torch.strided}
        few = sum(tensor.nbytes for tensor in several.values()) <= LARGEST_BATCH
        self._kept = [(t, version_of(t), t.clone()) for t in several.values()] if few else []

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was copied."""
        return any(tensor is kept for kept, _, _ in self._kept)

    def restore(self) -> BatchCopy:
        """Put back what was written to since; return copies of what stood there."""
        written = [entry for entry in self._kept if version_of(entry[0]) != entry[1]]
        now = BatchCopy(tensor for tensor, _, _ in written)
        for tensor, _, copy in written:
            tensor.data.copy_(copy)
        return now

    def restore_all(self) -> None:
        """Put back everything: a restored batch has no new version."""
        for tensor, _, copy in self._kept:
            tensor.data.copy_(copy)


NO_COPY = BatchCopy(())


class WatchedModel:
    """A module that the program itself calls, not another watched module."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        # The dictionaries, not the tensors: the program may replace a buffer.
        self.buffers = [(m._buffers, name) for m in module.modules() for name in m._buffers]
        tensors = [*module.parameters(), *module.buffers()]
        self.first = tensors[0] if tensors else None
        self.device = None if self.first is None else self.first.device
        self.devices = {t.device for t in tensors if private.has_rng(t.device)}
        self.kinds = {"cpu", *(device.type for device in self.devices)}
        replicas = (isinstance(m, DistributedDataParallel) for m in module.modules())
        self.is_replica = any(replicas) and is_one_of_many()
        self._last: dict[tuple[int, str], BufferSnapshot] = {}

    @property
    def was_moved(self) -> bool:
        """Whether it is on another device than before."""
        return self.first is not None and self.first.device != self.device

    def buffers_now(self, largest: float = LARGEST_BUFFER) -> list[BufferSnapshot]:
        """Snapshots of the buffers. Unchanged ones share the copy of the last snapshot."""
        snapshots = []
        small: dict[tuple[torch.device, torch.dtype], list[BufferSnapshot]] = {}
        for owner, name in self.buffers:
            tensor = owner.get(name)
            if tensor is None:
                continue
            buffer = BufferSnapshot(owner, name, tensor, version_of(tensor), None)
            last = self._last.get((id(owner), name))
            if buffer.is_small and not tensor.is_sparse:
                small.setdefault((tensor.device, tensor.dtype), []).append(buffer)
            elif last is not None and last.tensor is tensor and last.version == buffer.version:
                buffer.copy = last.copy
            if buffer.copy is None and not buffer.is_small and tensor.nbytes <= largest:
                buffer.copy = tensor.detach().clone()
            self._last[id(owner), name] = buffer
            snapshots.append(buffer)
        for several in small.values():
            _copy_together(several)
        return snapshots


def _copy_together(buffers: list[BufferSnapshot]) -> None:
    """Copy buffers of one kind in one operation: a device is slow at many small ones."""
    with torch.no_grad():
        copied = torch.cat([buffer.tensor.detach().reshape(-1) for buffer in buffers])
        parts = torch.split(copied, [buffer.tensor.numel() for buffer in buffers])
    for buffer, part in zip(buffers, parts):
        buffer.copy = part.reshape(buffer.tensor.shape)


class ModelCall:
    """One call of a model, with everything that running it again takes.

    It is made before the model runs.
    """

    def __init__(
        self,
        model: WatchedModel,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frames: list[FrameSnapshot],  # innermost first
        state: State,  # Python state: attributes of modules, globals, ...
        copies: bool = False,  # whether to copy the batch
    ) -> None:
        self.model, self.args, self.kwargs = model, args, kwargs
        self.frames = frames
        self.state = state
        tensors = self.tensors
        given = {t.device for t in tensors if not t.is_cpu and private.has_rng(t.device)}
        self.randomness = Randomness.now(model.devices | given)
        self.buffers = model.buffers_now() if model.buffers else []
        self.autocast = [  # device types for which it is enabled
            (kind, torch.get_autocast_dtype(kind))
            for kind in model.kinds
            if torch.is_autocast_enabled(kind)
        ]
        self.number = next(_numbers)  # in the order of calls
        self.versions = [version_of(tensor) for tensor in tensors]
        self.batch = BatchCopy(self._batch()) if copies else NO_COPY
        self.output_gradients: dict[int, torch.Tensor] = {}  # by position
        self.outputs: list[weakref.ref[torch.Tensor]] = []
        # The hooks on the outputs refer to this list, not to the call; emptying it releases the
        # batch although the program keeps its losses.
        self.box = [self]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors in the arguments."""
        return list(tensors_in((self.args, self.kwargs)))

    def _batch(self) -> Iterator[torch.Tensor]:
        """The tensors in the arguments and in the copied variables, except parts of the model."""
        yield from self.tensors
        for snapshot in self.frames:
            for value in (snapshot.variables or {}).values():
                if isinstance(value, torch.Tensor):
                    yield value
                elif isinstance(value, list | tuple) and len(value) <= FEW:
                    yield from (item for item in value if isinstance(item, torch.Tensor))

    @property
    def bytes(self) -> int:
        """Bytes of the arguments that the snapshot keeps alive."""
        return sum(tensor.nbytes for tensor in self.tensors if not tensor.is_sparse)

    def gave_finite(self) -> bool | None:
        """Whether the outputs were finite; None if the program has released them."""
        alive = [output() for output in self.outputs]
        known = [all_finite(output) for output in alive if output is not None]
        if not all(known):
            return False
        return True if known and len(known) == len(alive) else None

    def changed_since(self) -> list[str]:
        """Describe the arguments and buffers that cannot be restored."""
        notes = []
        for tensor, version in zip(self.tensors, self.versions):
            if version_of(tensor) != version and not self.batch.holds(tensor):
                notes.append(
                    f"an argument of the model, of shape {tuple(tensor.shape)}, was written to in "
                    "place afterwards: the re-run uses its new values"
                )
        for buffer in self.buffers:
            if buffer.copy is None and version_of(buffer.tensor) != buffer.version:
                notes.append(f"the buffer {buffer.name} is too large to keep, and was changed")
        return notes

    def restore(self) -> None:
        """Restore random states, buffers and Python state to those of the call."""
        self.state.restore()
        self.randomness.restore()
        for buffer in self.buffers:
            buffer.restore()

    @property
    def given(self) -> list[Any]:
        """Objects besides modules and globals that may hold Python state."""
        return given_to(self.frames, self.args, self.kwargs)

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Restore everything, with the autocast settings of the call."""
        self.restore()
        with ExitStack() as stack:
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield


def given_to(
    frames: list[FrameSnapshot], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """The copied variables of the frames, and the arguments."""
    return [*(snapshot.variables for snapshot in frames if snapshot.variables), args, kwargs]


def outputs_in(output: Any) -> list[torch.Tensor]:
    """The tensors in the output of a model; of an object, those in its attributes."""
    return list(tensors_in(output)) or list(tensors_in(getattr(output, "__dict__", None)))
