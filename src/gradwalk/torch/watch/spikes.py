"""Spikes: a step that moves a layer much further than usual, or one row that makes the loss jump.

Every step we note the gradient norm and the loss, which are known anyway, and follow what they do
to the optimizer: Adam's moments of the whole gradient. Now and then we measure how far a sample of
each weight moves. When either stands out, the optimizer's own step on the sample tells before the
step how far it would move each layer.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwalk.inspect.health.update_history import HARM, LossHistory, UpdateHistory
from gradwalk.inspect.report import short
from gradwalk.torch.watch.gradient_checks import unrecorded
from gradwalk.torch.watch.sent_numbers import Sent
from gradwalk.torch.watch.update_sample import UpdateSample

FIRST, OFTEN, SELDOM = 40, 4, 20  # measure every 4th of the first 40 steps, then every 20th
CLOSER = 4.0  # a size this many times the usual one is worth a closer look
WINDOW = 64  # steps whose median is usual
# Adam moves an element by the learning rate at most, on average, as long as its second moment
# remembers gradients like today's: |m| ≤ √v. A larger update shows that v is stale.
STALE = 2.0
WORSE = 2.0  # a loss, by an earlier one
LARGER = 1.2  # the gradient of a jump of the loss, by the largest of the window
SHOWN = 3  # weights to name


@dataclass
class LayerMove:
    """How far a step would move one weight."""

    parameter: torch.Tensor
    ratio: float  # update by weight
    usual: float
    by_rate: float = 0.0  # the update of an element by the learning rate
    gradient_by_v: float | None = None  # Adam: norm of the gradient by that of √v, bias corrected


@dataclass
class Spike:
    """A step that stands out."""

    moves: list[LayerMove]  # the layers that it would move too far; none: the loss has jumped
    rate: float  # learning rate, and the one that was usual
    usual_rate: float
    norm: float  # of the gradient
    usual_norm: float
    betas: tuple[float, float] | None = None
    loss: float = math.nan
    usual_loss: float = math.nan
    first_loss: float = math.nan  # what the loss was at the start
    steps: int = 1  # that stood out in a row, this one included

    @property
    def is_harmless(self) -> bool:
        """Whether only the loss has jumped, and no higher than it was at the start.

        A row that the model has not seen before does that too.
        """
        return not self.moves and not self.loss > self.first_loss

    @property
    def mechanism(self) -> str:
        """What made the update large: "loss", "rate", "moment", "gradient" or "momentum"."""
        if not self.moves:
            return "loss"
        times = self.moves[0].ratio / self.moves[0].usual
        if self.usual_rate and self.rate / self.usual_rate >= math.sqrt(times):
            return "rate"
        if self.moves[0].gradient_by_v is not None and self.moves[0].by_rate > STALE:
            return "moment"
        if self.usual_norm and self.norm / self.usual_norm >= math.sqrt(times):
            return "gradient"
        return "momentum"

    def in_words(self, names: dict[int, str]) -> str:
        """What was seen."""
        if not self.moves:
            return (
                f"the loss has jumped to {short(self.loss)}, the usual loss is "
                f"{short(self.usual_loss)}; the gradient is {short(self.norm)}, usually "
                f"{short(self.usual_norm)}"
            )
        worst = self.moves[0]
        name = names.get(id(worst.parameter), "a parameter without a name")
        several = "" if self.steps == 1 else f", and so did the {self.steps - 1} before it"
        return (
            f"the update would move {name} by {short(worst.ratio)} of its norm, "
            f"{short(worst.ratio / worst.usual)} times the usual update{several}"
        )

    def because(self) -> str:
        """The mechanism in a sentence."""
        grown = self.norm / self.usual_norm if self.usual_norm else math.nan
        gradient = f"the gradient is {short(self.norm)}, usually {short(self.usual_norm)}"
        if self.mechanism == "rate":
            rates = f"from {short(self.usual_rate)} to {short(self.rate)}"
            return f"the learning rate went {rates}; {gradient}"
        if self.mechanism == "moment":
            assert self.betas is not None
            stale = self.moves[0].gradient_by_v
            memory = short(1 / (1 - self.betas[1])) if self.betas[1] < 1 else "all"
            return (
                f"Adam's second moment is stale: the gradient is {short(stale)} times the size "
                f"that √v remembers (beta2={self.betas[1]:g} averages about {memory} steps), so v "
                "does not yet shrink the update"
            )
        if self.mechanism == "gradient":
            return f"{gradient} ({short(grown)} times)"
        if self.mechanism == "momentum":
            return f"past gradients add up in the optimizer's momentum; {gradient}"
        return ""

    def layers(self, names: dict[int, str]) -> list[str]:
        """The weights that would move furthest, a line each."""
        told = []
        for move in self.moves[:SHOWN]:
            name = names.get(id(move.parameter), "a parameter without a name")
            by_v = (
                "" if move.gradient_by_v is None else f", gradient {short(move.gradient_by_v)} × √v"
            )
            told.append(
                f"{name}: {short(move.ratio)} of its norm, usually {short(move.usual)}{by_v}"
            )
        return told

    def change(self, row: int | None) -> str:
        """A change to try."""
        clip = "clip_grad_norm_ before step()"
        if row is not None and self.mechanism in ("loss", "gradient"):
            return f"look at row {row} of this batch; {clip} keeps one row from moving the weights"
        if self.mechanism == "rate":
            return "look at the schedule or the line that set the learning rate"
        if self.mechanism == "moment":
            return f"a smaller beta2 (0.95 remembers 20 steps, 0.99 remembers 100), or {clip}"
        if self.mechanism == "momentum":
            return "a smaller learning rate or less momentum"
        return f"a smaller learning rate, a warm-up, or {clip}"


class SpikeDetector:
    """Find spikes among the steps of one optimizer, before they are made."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self._steps = 0
        self._sample = UpdateSample(optimizer)
        self._sent: Sent | None = None  # how far the last measured step moved the sample
        self._updates = UpdateHistory()
        self._losses = LossHistory()
        self._norms: deque[float] = deque(maxlen=WINDOW)
        self._rates: deque[float] = deque(maxlen=WINDOW)
        self._sizes: deque[float] = deque(maxlen=WINDOW)  # of the update, roughly
        self._first = self._second = self._power1 = self._power2 = 0.0
        self._stood_out = False  # the last measured step
        self._jumped = False  # the loss of this step
        self._moved = 0.0  # by steps in a row that stood out
        self._row = 0  # the number of those steps
        self._loss_before = 0.0  # at the first of them

    def suspects(self, norm: float, losses: Sequence[float]) -> bool:
        """Note a step with a finite gradient; return whether it is worth a closer look.

        This costs no work on the gradients.
        """
        if self._sent is not None or self._sample.is_waiting:
            self._read_sample()
        rate = _rate(self.optimizer)
        size = self._size(norm, rate)
        # Several losses, as of accumulation, are judged by their sum.
        total = math.fsum(losses)
        enough = len(self._norms) >= LossHistory.FEWEST
        jumps = bool(losses) and self._losses.jumps(total)
        self._jumped = jumps and enough and norm > LARGER * max(self._norms)
        suspicious = self._is_large(size) or self._stood_out or self._jumped
        if not suspicious:
            self._moved, self._row = 0.0, 0
            self._pass(norm, rate, size)
        return suspicious

    def _is_large(self, size: float) -> bool:
        if len(self._sizes) < 8 or size <= CLOSER * min(self._sizes):  # then without a median
            return False
        return size > CLOSER * statistics.median(self._sizes)

    def examine(self, norm: float, losses: Sequence[float]) -> Spike | None:
        """Predict the update of a suspicious step; return a spike, or note the step as usual."""
        rate = _rate(self.optimizer)
        spike = Spike(
            [],
            rate,
            statistics.median(self._rates) if self._rates else rate,
            norm,
            statistics.median(self._norms) if self._norms else norm,
            self.optimizer.param_groups[0].get("betas"),
            math.fsum(losses),
            self._losses.usual,
            self._losses.start,
        )
        moves = self._large_moves()
        if not moves:
            self._moved, self._row = 0.0, 0
        else:
            if not self._row:
                self._loss_before = spike.loss
            self._moved += moves[0].ratio
            self._row += 1
            spike.moves, spike.steps = moves, self._row
            if self._is_harmful(spike):
                return spike
            spike.moves = []
        if self._jumped:
            return spike
        self._pass(norm, rate, self._size(norm, rate, note=False))
        return None

    def _is_harmful(self, spike: Spike) -> bool:
        """Whether weights move too far, at once or in several steps, and the loss gets worse.

        A learning rate that jumps is harmful before the loss shows it. Otherwise a falling loss
        wants large updates, as gradients that grow at the start of a training do.
        """
        ratio = spike.moves[0].ratio
        if spike.mechanism == "rate":
            return ratio > HARM
        if not _is_worse(spike.loss, spike.usual_loss):
            return False
        enough = 3 * HARM if spike.mechanism == "moment" else HARM
        return ratio > HARM or (self._moved > enough and _is_worse(spike.loss, self._loss_before))

    def let_through(self, spike: Spike) -> None:
        """Note a step that was found and is made all the same."""
        if self._jumped:
            self._losses.add(spike.loss)
        self._pass(spike.norm, spike.rate, self._size(spike.norm, spike.rate, note=False))

    def _pass(self, norm: float, rate: float, size: float) -> None:
        self._norms.append(norm)
        self._rates.append(rate)
        self._sizes.append(size)
        every = OFTEN if self._steps < FIRST else SELDOM
        if self._steps % every == 0 or self._stood_out:
            with unrecorded():
                self._sample.take()
        self._steps += 1

    def _read_sample(self) -> None:
        """Read how far the last step moved the sample, if that was measured."""
        if self._sample.is_waiting:
            with unrecorded():
                moved = self._sample.moved()
            self._sent = self._sent if moved is None else Sent(moved)
        if self._sent is not None and self._sent.has_arrived:  # else it is read at the next step
            ratios, self._sent = self._sent.numbers(), None
            self._stood_out = bool(self._updates.standing_out(ratios, CLOSER))
            if not self._stood_out:
                self._updates.add(ratios)

    def _size(self, norm: float, rate: float, note: bool = True) -> float:
        """The size of the update, as far as the norm of the gradient tells.

        The squared norm follows the recurrence of Adam's second moments, summed over all elements.
        """
        group = self.optimizer.param_groups[0]
        first, second = group.get("betas") or (group.get("momentum") or 0.0, None)
        if note:
            self._first = first * self._first + (1 - first) * norm
            self._power1 = first * self._power1 + (1 - first)
            if second is not None:
                self._second = second * self._second + (1 - second) * norm * norm
                self._power2 = second * self._power2 + (1 - second)
        mean = self._first / (self._power1 or 1.0)
        if second is None:
            return rate * mean
        root = math.sqrt(self._second / (self._power2 or 1.0))
        return rate * mean / root if root else 0.0

    def _large_moves(self) -> list[LayerMove]:
        """The weights that the step would move much further than usual, furthest first.

        For Adam with a stale second moment, usual is what the last steps did; otherwise the most
        that steps ever did.
        """
        predicted = self._sample.predicted()
        usual, recent = self._updates.usual, self._updates.recent
        if predicted is None or usual is None or recent is None:
            return []
        outlying = set(self._updates.standing_out(predicted.ratios))
        rate = _rate(self.optimizer)
        moves = []
        for k, ratio in enumerate(predicted.ratios):
            by_rate = predicted.sizes[k] / rate if rate else 0.0
            by_v = _gradient_by_v(predicted.twin, k)
            is_stale = by_v is not None and by_rate > STALE and ratio > CLOSER * recent[k] > 0
            if k in outlying or is_stale:
                middle = float(recent[k] if is_stale else usual[k])
                parameter = self._sample.parameters[k]
                moves.append(LayerMove(parameter, ratio, middle, by_rate, by_v))
        return sorted(moves, key=lambda move: -move.ratio)


def _is_worse(loss: float, before: float) -> bool:
    return loss > before + (WORSE - 1) * abs(before)


def _rate(optimizer: torch.optim.Optimizer) -> float:
    """The largest learning rate; 1 if it is on another device, for which we would have to wait."""
    first, *others = optimizer.param_groups
    rate = first.get("lr")
    if not others and type(rate) is float:
        return rate
    rates = [group.get("lr", 1.0) for group in optimizer.param_groups]
    here = [float(r) for r in rates if not isinstance(r, torch.Tensor) or r.is_cpu]
    return max(here, default=1.0)


def _gradient_by_v(twin: Any, position: int) -> float | None:
    """The norm of the gradient by that of √v before this step, for one weight of the sample."""
    members = [(p, group) for group in twin.param_groups for p in group["params"]]
    parameter, group = members[position]
    state = twin.state.get(parameter, {})
    second, betas = state.get("exp_avg_sq"), group.get("betas")
    if second is None or betas is None or parameter.grad is None:
        return None
    step = float(state.get("step", 0)) - 1
    square = float(parameter.grad.float().square().sum())
    before = (float(second.float().sum()) - (1 - betas[1]) * square) / betas[1]
    corrected = before / (1 - betas[1] ** step) if step > 0 and betas[1] < 1 else before
    return math.sqrt(square / corrected) if corrected > 0 else None
