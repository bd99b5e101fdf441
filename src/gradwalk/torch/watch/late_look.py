"""Judge a step one step late, so that the program never waits for its device.

Before a step we only start the measurement and copy what the step changes (rewind.py), both on the
device. Its numbers are read as soon as they have arrived, at the latest before the next step. If
they are bad, the step is undone: the program stands where it stood before it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch

from gradwalk.torch import private
from gradwalk.torch.ranks.notes import is_one_of_many
from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.rerun.rewind import NoRoom, Rewind
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.rerun.snapshots import ModelCall, WatchedModel
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.gradient_checks import parameters_of, unrecorded
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
    sent: Sent
    step: int = 0
    norm: float = 0.0  # of all gradients, known once it is judged
    norms: list[float] = field(default_factory=list)  # of each gradient
    losses: list[float] = field(default_factory=list)
    is_skipped: bool = False  # a GradScaler told the optimizer to skip the step

    def __post_init__(self) -> None:
        self.step = self.checked.steps

    def read(self) -> bool:
        """Read the numbers; return whether the step was healthy or skipped."""
        *self.norms, found_inf, scale, start = self.sent.numbers()
        self.losses = self.norms[len(self.parameters) :]
        del self.norms[len(self.parameters) :]
        self.norm = math.hypot(*self.norms) / scale
        self.is_skipped = bool(found_inf)
        if self.checked.is_first:
            self.checked.started(start)
        return self.is_skipped or self.checked.is_healthy(self.norm, self.losses)

    def fault(self) -> StepFault | None:
        """Name the fault of a step that was not healthy. The step must be undone."""
        bad = [p for p, norm in zip(self.parameters, self.norms) if not math.isfinite(norm)]
        return self.checked.fault(self.runs, self.norm, bad, any(map(math.isnan, self.norms)))


class LateLooks:
    """The steps that are not judged yet, at most one of each optimizer."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = wanted  # None: where the device runs ahead of the host
        self._pending: dict[int, LateLook] = {}  # by optimizer
        self._constants: dict[torch.device, torch.Tensor] = {}  # 0 and 1

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
        parameters = [p for p in checked.parameters if p.grad is not None]
        if not parameters:
            return False
        if is_one_of_many():  # ranks judge a step together, before they make it
            return False
        rewind = checked.rewind = checked.rewind or Rewind(checked.optimizer)
        with unrecorded(), torch.no_grad():
            vector = self._measured(checked, parameters, runs)
            if vector is None:
                return False
            try:
                rewind.take()
            except (NoRoom, torch.OutOfMemoryError):
                checked.rewind, checked.no_room = None, True
                return False
            sent = Sent(vector)
        rewind.randomness = Randomness.now(set(filter(private.has_rng, [vector.device])))
        look = LateLook(checked, list(runs), passes, rewind, parameters, sent)
        self._pending[id(checked.optimizer)] = look
        return True

    def _measured(
        self, checked: Checked, parameters: list[torch.Tensor], runs: list[Run]
    ) -> torch.Tensor | None:
        """All numbers of a step in one vector on its device: `LateLook.read` takes it apart.

        None if they cannot be gathered without waiting.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        device = gradients[0].device
        found_inf = getattr(checked.optimizer, "found_inf", None)
        scale = getattr(checked.optimizer, "grad_scale", None)
        losses = [run.loss for run in runs if run.loss is not None]
        tensors = [*gradients, *losses, *(t for t in (found_inf, scale) if t is not None)]
        if not self._is_for(device) or not _are_plain(tensors, device):
            return None
        if device not in self._constants:
            self._constants[device] = torch.tensor([0, 1], dtype=torch.float64, device=device)
        zero, one = self._constants[device].unbind()
        start = [p.detach() for p in checked.parameters] if checked.is_first else []
        others = [
            *losses,
            zero if found_inf is None else found_inf,
            one if scale is None else scale,
            private.total_norm(start) if start else one,
        ]
        wide = [number.reshape(()).to(torch.float64) for number in others]
        return torch.stack([*private.each_norm(gradients, torch.float64), *wide])

    def due(self, passes: int, at_a_step: bool, at_the_end: bool) -> Iterator[LateLook]:
        """The steps to judge now: those whose numbers have arrived.

        Before a step, also all steps before the last backward pass: their numbers were sent long
        ago. At the end, all.
        """
        for key, look in list(self._pending.items()):
            awaited = at_the_end or (at_a_step and look.passes < passes)
            if awaited or look.sent.has_arrived:
                del self._pending[key]
                yield look

    def __iter__(self) -> Iterator[LateLook]:
        return iter(list(self._pending.values()))

    def calls(self, call: ModelCall) -> None:
        """Note the first model call after the steps: its snapshot has the buffers after them."""
        for look in self._pending.values():
            look.rewind.buffers = look.rewind.buffers or call.buffers

    @contextmanager
    def undone(self, look: LateLook, for_good: bool) -> Iterator[None]:
        """Undo a step, and those that other optimizers made with it."""
        with ExitStack() as stack:
            for step in (*self, look):
                stack.enter_context(step.rewind.undone(for_good))
            if for_good:
                self._pending.clear()
            yield


_kind_of = operator.attrgetter("layout", "device", "dtype")


def _are_plain(tensors: list[torch.Tensor], device: torch.device) -> bool:
    """Whether all are dense numbers of one device. There may be hundreds, so Python sees each kind
    only once."""
    return set(map(type, tensors)) == {torch.Tensor} and all(
        layout == torch.strided and place == device and dtype.is_floating_point
        for layout, place, dtype in set(map(_kind_of, tensors))
    )
