"""Steps that a GradScaler skips: it handles an overflow, unless no scale is small enough."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.gradient_checks import all_finite, parameters_of

MOST_LOST = 10  # consecutive steps that may be skipped because the loss or the output is not finite
SMALLEST = 1.0  # a gradient that overflows at this scale overflows without one
FALL = 16.0  # how far a scale must have fallen from its first value

Listener = Callable[[Any, torch.optim.Optimizer, bool], None]
_listeners: list[tuple[dict[int, Checked], Listener]] = []
_original: Any = None


@contextmanager
def told_of_scaled_steps(known: dict[int, Checked], listener: Listener) -> Iterator[None]:
    """Call `listener(scaler, optimizer, stepped)` after every step of a GradScaler.

    `known` has the optimizers by `id`, with the numbers of their steps.
    """
    global _original
    if not _listeners:
        _original = torch.amp.GradScaler.step
        torch.amp.GradScaler.step = _step  # type: ignore[method-assign, assignment]
    told = known, listener
    _listeners.append(told)
    try:
        yield
    finally:
        _listeners.remove(told)
        if not _listeners:
            torch.amp.GradScaler.step = _original  # type: ignore[method-assign]


def _step(scaler: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
    def begun(known: dict[int, Checked]) -> int:
        return known[id(optimizer)].steps if id(optimizer) in known else 0

    before = [(begun(known), known, listener) for known, listener in _listeners]
    result = _original(scaler, optimizer, *args, **kwargs)
    for steps, known, listener in before:
        listener(scaler, optimizer, begun(known) > steps)
    return result


def _is_lost(run: Run) -> bool:
    """Whether no scale can help: the loss is NaN, or the model's output is not finite.

    A loss of inf alone may be the scale's work.
    """
    if run.loss is not None and bool(run.loss.isnan().any()):
        return True
    return any(call.gave_finite() is False for call in run.calls)


class ScaledSteps:
    """The steps that gradient scalers skipped."""

    def __init__(self) -> None:
        self.lost = 0  # consecutive steps skipped although no scale could help
        self._first: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()

    def made(self, scaler: Any) -> None:
        """Note the scale that a scaler began with."""
        if scaler not in self._first:
            self._first[scaler] = scaler.get_scale()

    def skipped(
        self, runs: list[Run], optimizer: torch.optim.Optimizer, scaler: Any = None
    ) -> StepFault | None:
        """Count a skipped step; return a fault if no smaller scale can make the next one succeed.

        The forward pass overflows many times in a row, or gradients overflow at a scale of 1.
        """
        if scaler is not None:
            self.made(scaler)
        scale = None if scaler is None else (self._first[scaler], scaler.get_scale())
        lost = next(filter(_is_lost, runs), None)
        self.lost = 0 if lost is None else self.lost + 1
        if lost is not None:
            if self.lost < MOST_LOST:
                return None
            loss = math.nan if lost.loss is None else float(lost.loss.sum().item())
            kind = "NaN" if math.isnan(loss) else "Inf"
            return StepFault(kind, lost, loss, skipped=self.lost, scale=scale)
        if scale is None or not runs:
            return None
        first, now = scale
        if now > SMALLEST or now > first / FALL:
            return None
        last = runs[-1]
        value = None if last.loss is None else float(last.loss.item()) / now
        found = StepFault("Inf", last, value, passes=len(runs), position=len(runs) - 1)
        found.scale = scale
        found.bad_gradients = [
            p for p in parameters_of(optimizer) if p.grad is not None and not all_finite(p.grad)
        ]
        return found
