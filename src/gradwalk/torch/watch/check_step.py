"""Check the gradients of an optimizer before it steps: what is wrong, and which pass made it so."""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradwalk.inspect.report import short
from gradwalk.inspect.trace.routes import listed
from gradwalk.torch.private_foreach import TotalNorm
from gradwalk.torch.ranks.agreement import Agreement
from gradwalk.torch.ranks.notes import is_one_of_many
from gradwalk.torch.ranks.unused import UNUSED_FIX, unused_in_words
from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.rerun.rewind import Rewind
from gradwalk.torch.watch.gradient_checks import (
    all_finite,
    elements,
    exact_norm,
    gradients_of,
    is_distributed,
    norm_of,
    numbers_in,
    parameters_of,
    scale_of,
    unrecorded,
)
from gradwalk.torch.watch.loop_notes import LoopNotes
from gradwalk.torch.watch.spikes import Spike, SpikeDetector
from gradwalk.torch.watch.step_report import GROWN, StepReport

WINDOW = 64  # steps whose norms define the usual norm
FEWEST = 3  # steps to see before judging any
SAME = 0.5  # a re-run shows an explosion if it reaches this part of the norm


class GradientHistory:
    """The gradient norms of one optimizer, step after step.

    A gradient has exploded if its norm exceeds `factor` times the usual norm and `floor`. The
    usual norm is the median of the last steps, or of the first steps if that is larger: a gradient
    that returns to its first size has not exploded. During `warmup` the square of the factor
    applies.
    """

    def __init__(self, factor: float, warmup: int, floor: float | None) -> None:
        self.factor = factor
        self.warmup = max(warmup, FEWEST)
        self.floor = floor  # None: the norm of the parameters at the first step
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._first: list[float] = []

    @property
    def usual(self) -> float:
        """The norm that gradients are compared with; 0 before the first step."""
        if not self._first:
            return 0.0
        return max(statistics.median(self._recent), statistics.median(self._first))

    def has_exploded(self, norm: float) -> bool:
        """Whether a gradient of this norm has exploded."""
        # Almost always this decides, without computing a median.
        if len(self._first) < FEWEST or norm <= (self.floor or 0.0):
            return False
        return math.isfinite(self._times) and norm > self._times * self.usual

    @property
    def harmless(self) -> float:
        """A norm up to which no gradient has exploded; most often the floor."""
        if len(self._first) < FEWEST:
            return sys.float_info.max
        floor = self.floor or 0.0
        if self._recent[-1] <= floor / 2:  # the next one will hardly be above
            return floor
        limit = self._times * self.usual if math.isfinite(self._times) else math.inf
        return min(max(floor, limit), sys.float_info.max)

    @property
    def _times(self) -> float:
        return self.factor if len(self._first) >= self.warmup else self.factor**2

    def add(self, norm: float) -> None:
        """Note the norm of a gradient that the optimizer stepped with."""
        self._recent.append(norm)
        if len(self._first) < self.warmup:
            self._first.append(norm)


class Checked:
    """An optimizer with its number of steps and the history of its gradient norms."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        explosion: float,
        warmup: int,
        floor: float | None,
        agreement: Agreement | None = None,
    ) -> None:
        self.optimizer = optimizer
        self._agreement = agreement or Agreement()
        self.steps = 0
        self.rewind: Rewind | None = None  # if its steps are judged late
        self.no_room = False  # for a rewind, on its device
        self.total = TotalNorm()  # of its gradients
        self._start: float | None = None  # norm of all parameters at the first step
        self._history = GradientHistory(explosion, warmup, floor)
        self.loop = LoopNotes(optimizer)
        # Ranks would have to agree on a spike: without that, one stops and the others wait for it.
        wanted = math.isfinite(explosion) and not is_one_of_many()
        self._spikes = SpikeDetector(optimizer) if wanted else None
        self.is_suspicious = False  # whether the last step stood out: judge the next one at once

    @property
    def kind(self) -> str:
        """The class name of the optimizer."""
        return type(self.optimizer).__name__

    @property
    def parameters(self) -> list[torch.Tensor]:
        """The parameters that the optimizer updates."""
        return list(parameters_of(self.optimizer))

    @property
    def growth(self) -> float:
        """The norm of the parameters relative to the first step; 1 if unknown."""
        growth = exact_norm(self.parameters) / self._start if self._start else 1.0
        return growth if math.isfinite(growth) else 1.0

    def check(
        self, runs: list[Run], explodes: bool = True, waits_for: Sequence[torch.Tensor] = ()
    ) -> StepFault | None:
        """Return what is wrong with the gradients or their losses; None if they are healthy.

        A healthy step costs one norm over all gradients and a look at the losses. DDP `waits_for`
        parameters that the last backward pass did not reach.
        """
        if waits_for:
            return StepFault("unused", bad_gradients=list(waits_for))
        gradients = gradients_of(self.optimizer)
        if not gradients:
            return None
        losses = [run.loss for run in runs if run.loss is not None]
        measured = norm_of(gradients, self.total)
        norm, *values = numbers_in([measured, *losses])
        norm /= scale_of(self.optimizer)
        if not isinstance(measured, float):  # other ranks may hold parts of the gradients
            norm = self._agreement.norm(gradients, norm, values)
        if self.is_first:
            parameters = [p.detach() for p in self.parameters]
            self.started(self._agreement.norm(parameters, float(norm_of(parameters)), []))
        if self.is_healthy(norm, values, explodes):
            return self._spike(runs, norm, values) if explodes and self.is_suspicious else None
        return self._examine(runs, norm)

    @property
    def _is_divided(self) -> bool:
        """Whether other ranks hold parts of the parameters."""
        return any(map(is_distributed, self.parameters))

    @property
    def harmless(self) -> float:
        """A norm up to which no gradient has exploded."""
        return self._history.harmless

    @property
    def is_first(self) -> bool:
        """Whether no step has been checked yet."""
        return self._start is None

    def started(self, norm: float) -> None:
        """Note the norm of all parameters at the first step."""
        self._start = norm
        if self._history.floor is None:
            self._history.floor = norm

    def is_healthy(self, norm: float, losses: Sequence[float], explodes: bool = True) -> bool:
        """Whether gradients of this norm, and these losses, are healthy; then note the norm."""
        healthy = math.isfinite(norm) and all(map(math.isfinite, losses))
        if not healthy or (explodes and self._history.has_exploded(norm)):
            return False
        self._history.add(norm)
        if explodes and self._spikes is not None:
            self.is_suspicious = self._spikes.suspects(norm, losses)
        return True

    def _spike(self, runs: list[Run], norm: float, losses: list[float]) -> StepFault | None:
        """Predict the update of a step that stands out; return None if it is harmless."""
        assert self._spikes is not None
        with unrecorded():
            spike = self._spikes.examine(norm, losses)
        runs = _since_gradients_were_zero(runs)
        if spike is None or not runs:
            return None
        values = [-math.inf if run.loss is None else run.loss.item() for run in runs]
        at = values.index(max(values)) if spike.mechanism == "loss" else _largest(runs, norm)
        loss = None if runs[at].loss is None else values[at]
        usual = self._history.usual
        fault = StepFault("spike", runs[at], loss, norm, usual, passes=len(runs), position=at)
        fault.spike = spike
        return fault

    def let_through(self, fault: StepFault) -> None:
        """Note that a step with a spike is made: it is harmless, or the program was only warned."""
        if self._spikes is not None and fault.spike is not None:
            self._spikes.let_through(fault.spike)

    def _examine(self, runs: list[Run], norm: float) -> StepFault | None:
        """Examine a step that the quick check found suspicious; return None if it is healthy.

        The quick check adds squares, which can overflow although the norm is finite.
        """
        parameters = self.parameters
        bad = [p for p in parameters if p.grad is not None and not all_finite(p.grad)]
        is_nan = any(elements(p.grad).isnan().any() for p in bad if p.grad is not None)
        if not math.isfinite(norm) and not bad and not self._is_divided:
            norm = exact_norm([p.grad for p in parameters if p.grad is not None])
        found = self.fault(runs, norm, bad, is_nan)
        if found is None:
            self._history.add(norm)
        return found

    def fault(
        self, runs: list[Run], norm: float, bad: list[torch.Tensor], is_nan: bool
    ) -> StepFault | None:
        """Name the fault of a step; None if there is none.

        `norm` is that of its gradients, and `bad` are the parameters whose gradients are not
        finite; `is_nan` says that some are NaN.
        """
        runs = _since_gradients_were_zero(runs)
        bad_parameters = [p for p in self.parameters if not all_finite(p)]
        losses = [None if run.loss is None else run.loss.item() for run in runs]
        bad_loss = next((x for x in losses if x is not None and not math.isfinite(x)), None)

        def at(position: int, kind: str) -> StepFault:
            run, loss = (runs[position], losses[position]) if runs else (None, None)
            usual, passes = self._history.usual, len(runs)
            return StepFault(kind, run, loss, norm, usual, bad, bad_parameters, passes, position)

        if bad_parameters:
            return at(_first_bad(runs, losses), "update")
        if bad or bad_loss is not None:
            is_nan = is_nan or math.isnan(bad_loss or 0.0)
            return at(_first_bad(runs, losses), "NaN" if is_nan else "Inf")
        if not math.isfinite(norm) and self._is_divided:
            return at(len(runs) - 1, "NaN")  # in the part of another rank
        if self._history.has_exploded(norm):
            return at(_largest(runs, norm), "explosion")
        return None

    def report(self, fault: StepFault, names: dict[int, str], step: int) -> StepReport:
        """Report a fault; `names` are those of parameters, by `id`."""
        report = StepReport(fault.kind, step, self.kind, loss=fault.loss, growth=self.growth)
        report.gradient_norm, report.usual_norm = fault.norm, fault.usual
        report.seen = fault.in_words(self.optimizer, names, step)
        report.fix = UNUSED_FIX if fault.kind == "unused" else ""
        report.gradients = [names.get(id(p), "a parameter") for p in fault.bad_gradients]
        report.rates = str(self.loop.rates)
        report.notes += self.loop.notes()
        if fault.spike is not None:
            report._spike, report.mechanism = fault.spike, fault.spike.mechanism
            report.why = fault.spike.because()
            report.fix = fault.spike.change(None)
            report.layers = fault.spike.layers(names)
        if report.growth > GROWN:
            times = f"{short(report.growth)} times the norm of the first step"
            report.notes.append(f"the norm of all parameters is {times}: the steps are too large")
        return report

    def left_behind(self, names: dict[int, str]) -> StepReport | None:
        """Report the parameters that the last step left non-finite; None if there are none."""
        bad = [p for p in self.parameters if not all_finite(p)]
        if not bad:
            return None
        seen = StepFault("update", bad_parameters=bad).in_words(self.optimizer, names, self.steps)
        return StepReport("update", max(self.steps - 1, 0), self.kind, seen, is_over=True)


# -- a fault ---------------------------------------------------------------------------------------


@dataclass
class StepFault:
    """Why the optimizer should not make a step."""

    kind: str  # "NaN", "Inf", "explosion", "update", "unused" or "spike"
    run: Run | None = None  # the first backward pass concerned
    loss: float | None = None
    norm: float | None = None
    usual: float | None = None
    bad_gradients: list[torch.Tensor] = field(default_factory=list)  # parameters
    bad_parameters: list[torch.Tensor] = field(default_factory=list)
    passes: int = 1  # backward passes summed in this step's gradient
    position: int = 0  # of `run` among them
    skipped: int = 0  # steps skipped because of it
    scale: tuple[float, float] | None = None  # of a GradScaler: at first, and now
    spike: Spike | None = None

    def shows(self, parameters: Iterable[torch.Tensor], losses: Sequence[torch.Tensor]) -> bool:
        """Whether the current gradients have the same fault."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.kind in ("explosion", "spike"):
            return exact_norm(gradients) >= SAME * (self.norm or 0.0)
        return not all(map(all_finite, (*gradients, *losses)))

    def in_words(self, optimizer: torch.optim.Optimizer, names: dict[int, str], step: int) -> str:
        """Describe what the check saw."""

        def named(tensors: Sequence[torch.Tensor]) -> str:
            return listed([names.get(id(t), "a parameter without a name") for t in tensors], 3)

        if self.kind == "update":
            holds = f"{named(self.bad_parameters)} " + (
                "holds" if len(self.bad_parameters) == 1 else "hold"
            )
            if step == 0:
                return f"{holds} NaN or inf from before the first step"
            return (
                f"{holds} NaN or inf: the update of step {step - 1} wrote it, from finite "
                f"gradients ({_settings(optimizer, self.bad_parameters[0])}), or the program wrote "
                "it afterwards"
            )
        if self.kind == "unused":
            return unused_in_words([names.get(id(p), "a parameter") for p in self.bad_gradients])
        if self.skipped:
            what = "loss was NaN" if self.kind == "NaN" else "model's output was not finite"
            return (
                f"the {what} {self.skipped} times in a row, and each time the step was "
                "skipped (as a GradScaler does): no scale will fix it"
            )
        if self.scale is not None:
            return (
                f"the GradScaler skips this step too: its scale has fallen from "
                f"{short(self.scale[0])} to {short(self.scale[1])}, and the gradient of "
                f"{named(self.bad_gradients)} still overflows"
            )
        if self.spike is not None:
            return self.spike.in_words(names)
        loss = "" if self.loss is None else f"; the loss is {short(self.loss)}"
        if self.passes > 1:
            loss += f"; it arose in backward pass {self.position + 1} of {self.passes}"
        if self.kind == "explosion":
            return (
                f"the gradient has exploded: its norm is {short(self.norm)}, the usual norm "
                f"{short(self.usual)}{loss}"
            )
        if not self.bad_gradients and (self.loss is None or math.isfinite(self.loss)):
            return f"the part of the gradient that another rank holds is not finite{loss}"
        if not self.bad_gradients:
            return f"the loss is {short(self.loss)}, its gradients are finite"
        return f"the gradient of {named(self.bad_gradients)} is not finite{loss}"


def _since_gradients_were_zero(runs: list[Run]) -> list[Run]:
    """Drop passes before the last `zero_grad`: they belong to a skipped step."""
    for position in range(len(runs) - 1, 0, -1):
        before = runs[position].before
        if before is not None and float(before) == 0:
            return runs[position:]
    return runs


def _first_bad(runs: Sequence[Run], losses: Sequence[float | None]) -> int:
    """The first pass after which the loss or the gradients are not finite; else the last."""
    for position, loss in enumerate(losses):
        after = runs[position + 1].before if position + 1 < len(runs) else None
        if loss is not None and not math.isfinite(loss):
            return position
        if after is not None and not math.isfinite(float(after)):
            return position
    return max(len(runs) - 1, 0)


def _largest(runs: Sequence[Run], norm: float) -> int:
    """The pass that made the gradients grow most."""
    lengths = [0.0 if run.before is None else float(run.before) for run in runs] + [norm]
    growth = [after - before for before, after in itertools.pairwise(lengths)]
    return growth.index(max(growth)) if growth else 0


def _settings(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> str:
    """The settings and state of an optimizer that can make an update non-finite."""
    group = next(g for g in optimizer.param_groups if any(p is parameter for p in g["params"]))
    told = [type(optimizer).__name__]
    told += [f"{name}={_plain(group[name])}" for name in ("lr", "eps", "betas") if name in group]
    if group.get("eps") and not torch.tensor(group["eps"], dtype=parameter.dtype):
        told.append(f"and that eps is 0 in {str(parameter.dtype).removeprefix('torch.')}")
    for name, value in optimizer.state.get(parameter, {}).items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            if not all_finite(value):
                told.append(f"its {name} is not finite")
            elif "sq" in name and group.get("eps") == 0 and bool((value == 0).any()):
                told.append(f"its {name} has zeros, and with eps=0 it divides by them")
    return ", ".join(told)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value
