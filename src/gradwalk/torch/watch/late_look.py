"""Judge a step one step late, so that the program never waits for its device.

Before a step we only start the measurement and copy what the step changes (rewind.py), both on the
device. Its numbers are read as soon as they have arrived, at the latest before the next step. If
they are bad, the step is undone: the program stands where it stood before it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from gradwalk.torch import private
from gradwalk.torch.ranks.notes import is_one_of_many
from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.rerun.rewind import NoRoom, Rewind, are_same
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.rerun.snapshots import ModelCall, WatchedModel
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.gradient_checks import norm_of, parameters_of, unrecorded
from gradwalk.torch.watch.sent_numbers import Sent

_ACCELERATORS = ("cuda", "xpu")  # devices that run ahead of the host


@dataclass(eq=False)
class LateLook:
    """A step that the optimizer makes before it is judged."""

    checked: Checked
    runs: list[Run]  # the backward passes of the step
    passes: int  # backward passes that the program had begun by then
    rewind: Rewind
    parameters: list[torch.Tensor]  # those with a gradient
    names: list[str]  # of the numbers that are sent behind the losses
    sent: Sent
    harmless: float  # the norm up to which the device did not copy what a rewind needs
    step: int = 0
    norm: float = 0.0  # of all gradients, known once it is judged
    is_skipped: bool = False  # a GradScaler told the optimizer to skip the step

    def __post_init__(self) -> None:
        self.step = self.checked.steps

    def read(self) -> bool:
        """Read the numbers; return whether the step was healthy or skipped."""
        norm, *losses = self.sent.numbers()
        others = {name: losses.pop() for name in reversed(self.names)}
        if not norm <= self.harmless or not all(map(math.isfinite, losses)):
            self.rewind.is_written()
        self.norm = norm / others.get("scale", 1.0)
        self.is_skipped = bool(others.get("found_inf"))
        if "start" in others:
            self.checked.started(others["start"])
        return self.is_skipped or self.checked.is_healthy(self.norm, losses)

    def fault(self) -> StepFault | None:
        """Name the fault of a step that was not healthy. The step must be undone."""
        norms = self.checked.total.of_each()  # of the same gradients still
        bad = [p for p, norm in zip(self.parameters, norms) if not math.isfinite(norm)]
        return self.checked.fault(self.runs, self.norm, bad, any(map(math.isnan, norms)))


class LateLooks:
    """The steps that are not judged yet, at most one of each optimizer."""

    def __init__(self, wanted: bool | None, optimizers: Mapping[int, Checked]) -> None:
        self._wanted = wanted  # None: where the device runs ahead of the host
        self._optimizers = optimizers  # that are watched
        self.pending: dict[int, LateLook] = {}  # by optimizer
        self._sent: dict[int, Sent] = {}  # the last numbers of each optimizer
        self._plain: list[torch.Tensor] = []  # parameters with plain gradients

    def _is_for(self, device: torch.device | None) -> bool:
        ahead = device is not None and device.type in _ACCELERATORS
        return ahead if self._wanted is None else self._wanted

    def is_meant_for(self, model: WatchedModel) -> bool:
        """Whether steps of a model are judged late: then its next batch may overwrite this one."""
        return self._is_for(model.device)

    def begin(self, checked: Checked, runs: list[Run], passes: int) -> bool:
        """Start to look at a step; return False if it must be judged at once."""
        first = next(parameters_of(checked.optimizer), None)
        if first is None or checked.no_room or not self._is_for(first.device):
            return False
        parameters = [p for p in parameters_of(checked.optimizer) if p.grad is not None]
        if not parameters:
            return False
        gradients = [p.grad for p in parameters if p.grad is not None]
        losses = [run.loss for run in runs if run.loss is not None]
        others = self._others(checked)
        if not self._are_plain(parameters, gradients, [*losses, *others.values()]):
            return False
        rewind = checked.rewind = checked.rewind or Rewind(checked.optimizer)
        key = id(checked.optimizer)
        harmless = checked.harmless
        with unrecorded(), torch.no_grad():
            norm = checked.total.of(gradients, torch.float64)
            # With several optimizers, a harmless step may have to be undone with a harmful one.
            may_skip = len(self._optimizers) == 1 and "scale" not in others
            may_skip &= key not in self.pending  # its copies may be needed, or written to
            fine = self._fine(norm, losses, harmless) if may_skip else None
            numbers = [norm, *losses, *others.values()]
            vector = torch.stack([n.reshape(()) if n.ndim else n for n in numbers])
            try:
                rewind.take(fine)
            except (NoRoom, torch.OutOfMemoryError):
                checked.rewind, checked.no_room = None, True
                return False
            sent = self._sent[key] = Sent(vector, self._sent.get(key))
        rewind.randomness = Randomness.now(set(filter(private.has_rng, [vector.device])))
        names = list(others)
        look = LateLook(checked, list(runs), passes, rewind, parameters, names, sent, harmless)
        self.pending[key] = look
        return True

    def _are_plain(
        self,
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        numbers: list[torch.Tensor],
    ) -> bool:
        """Whether all are dense numbers of one device; gradients are if they were in the last step.

        There may be hundreds of those.
        """
        if not _are_plain(numbers or gradients[:1], parameters[0].device):
            return False
        if not are_same(parameters, self._plain):
            if not _are_plain(gradients, parameters[0].device):
                return False
            self._plain = parameters
        return set(map(type, gradients)) == {torch.Tensor}

    @staticmethod
    def _others(checked: Checked) -> dict[str, torch.Tensor]:
        """Further numbers of a step."""
        found_inf = getattr(checked.optimizer, "found_inf", None)
        scale = getattr(checked.optimizer, "grad_scale", None)
        others = {"found_inf": found_inf, "scale": scale}
        if checked.is_first:
            norm = norm_of([p.detach() for p in checked.parameters])
            others["start"] = torch.as_tensor(norm)
        return {name: number for name, number in others.items() if number is not None}

    @staticmethod
    def _fine(norm: torch.Tensor, losses: list[torch.Tensor], harmless: float) -> torch.Tensor:
        """1 on the device if the norm is harmless and all losses are finite."""
        for loss in losses:
            norm = torch.add(norm, loss.reshape(()), alpha=0)  # NaN if the loss is not finite
        return torch.le(norm, harmless).to(torch.float32)

    def due(self, passes: int, at_a_step: bool, at_the_end: bool) -> Iterator[LateLook]:
        """The steps to judge now: those whose numbers have arrived.

        Before a step, also all steps before the last backward pass: their numbers were sent long
        ago. At the end, all. Ranks must stop at the same place: they do not judge earlier.
        """
        together = is_one_of_many()
        for key, look in list(self.pending.items()):
            awaited = at_the_end or (at_a_step and look.passes < passes)
            if awaited or (not together and look.sent.has_arrived):
                del self.pending[key]
                yield look

    def __iter__(self) -> Iterator[LateLook]:
        return iter(list(self.pending.values()))

    def calls(self, call: ModelCall) -> None:
        """Note the first model call after the steps: its snapshot has the buffers after them."""
        for look in self.pending.values():
            look.rewind.buffers = look.rewind.buffers or call.buffers

    @contextmanager
    def undone(self, look: LateLook, for_good: bool) -> Iterator[None]:
        """Undo a step, and those that other optimizers made with it."""
        with ExitStack() as stack:
            for step in (*self, look):
                if step is look or step.rewind.is_certain:
                    stack.enter_context(step.rewind.undone(for_good))
            if for_good:
                self.pending.clear()
            yield


_kind_of = operator.attrgetter("layout", "device", "dtype")


def _are_plain(tensors: list[torch.Tensor], device: torch.device) -> bool:
    """Whether all are dense numbers of this device."""
    return set(map(type, tensors)) == {torch.Tensor} and all(
        layout == torch.strided and place == device and dtype.is_floating_point
        for layout, place, dtype in set(map(_kind_of, tensors))
    )
