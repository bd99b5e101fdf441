"""What a watch notes about the training loop itself: learning rates, gradients left over or erased.

It reads no number from the device but for the first steps: a gradient is left over if backward adds
to the same tensor, not written since, that the last step used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import torch

from gradwalk.graph.source import source_line
from gradwalk.inspect.doctor.rates import DEAD, LOST_STEPS, PART, RateHistory
from gradwalk.inspect.trace.routes import listed

_NOTHING = (0, 0)
FEWEST = 3  # steps that show it, and most of them
FIRST = 8  # steps at which a gradient that was written after backward is compared with 0


class LoopNotes:
    """Notes about the steps of one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.rates = RateHistory()
        self._looked_at: torch.Tensor | None = None  # a parameter with a gradient
        self._last = _NOTHING  # its gradient after the last step or pass
        self._reached = self._cleared = False  # since the last step
        self._left = self._erased = self._steps = 0
        self._idle = self._rated = 0  # steps with a rate that moves nothing, and with any
        self._place: tuple[CodeType, int] | None = None  # of the backward that added to it

    def before_step(self, number: int) -> None:
        """Note a step that is about to be made."""
        groups = self.optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if isinstance(rate, int | float):
            self.rates.note(number, float(rate))
            self._rated += 1
            self._idle += rate == 0 or rate < DEAD * self.rates.high
        if self._reached:
            self._steps += 1
            self._left += not self._cleared
            self._erased += self._is_erased()
        self._looked_at = self._with_gradient()
        self._last = self._gradient()
        self._reached = self._cleared = False

    def before_backward(self) -> None:
        """Note a backward pass that begins: was the gradient cleared, or written, before it?"""
        if self._gradient() != self._last:
            self._cleared = True

    def after_backward(self, place: tuple[CodeType, int] | None) -> None:
        """Note one that has ended: did it add to the gradient?"""
        if self._looked_at is None:  # no step has found a gradient yet
            self._looked_at, self._cleared = self._with_gradient(), True
        now = self._gradient()
        if now != self._last and self._looked_at is not None:
            self._reached, self._last = True, now
            self._place = self._place or place

    def _gradient(self) -> tuple[int, int]:
        grad = None if self._looked_at is None else self._looked_at.grad
        return _NOTHING if grad is None else (id(grad), grad._version)

    def _with_gradient(self) -> torch.Tensor | None:
        if self._looked_at is not None and self._looked_at.grad is not None:
            return self._looked_at
        parameters = (p for group in self.optimizer.param_groups for p in group["params"])
        return next((p for p in parameters if p.grad is not None), None)

    def _is_erased(self) -> bool:
        """Whether the gradient that backward made is gone, or was overwritten with zeros."""
        grad = None if self._looked_at is None else self._looked_at.grad
        if grad is None:
            return True
        written = self._gradient() != self._last and self._steps <= FIRST
        return written and not bool(grad.detach().any())

    @property
    def erased(self) -> str:
        """What to say if `zero_grad` comes between backward and the step; "" if it does not."""
        if self._erased < FEWEST or self._erased < 0.9 * min(self._steps, FIRST):
            return ""
        line = None if self._place is None else source_line(*self._place)
        where = "" if line is None else f" after backward ({line})"
        return (
            f"{type(self.optimizer).__name__}.step() finds no gradient: it is cleared{where} in "
            f"{self._erased} of {self._steps} steps, so no parameter moves. Fix: zero_grad() "
            "before backward() or after step(), not between them"
        )

    @property
    def idle(self) -> str:
        """What to say if most steps have a learning rate that moves nothing; "" otherwise."""
        if self._idle < LOST_STEPS or self._idle < PART * self._rated:
            return ""
        return (
            f"the learning rate of {type(self.optimizer).__name__} is too small to move anything "
            f"in {self._idle} of {self._rated} steps: {self.rates}. Fix: a rate above 0, or a "
            "schedule as long as the training, stepped once per epoch if that is its unit"
        )

    @property
    def left_over(self) -> str:
        """What to say if `zero_grad` is missing; "" if it is not."""
        if self._left < FEWEST or self._left < 0.9 * self._steps:
            return ""
        line = None if self._place is None else source_line(*self._place)
        where = "" if line is None else f" ({line})"
        return (
            f"nothing clears the gradients of {type(self.optimizer).__name__} between two steps: "
            f"in {self._left} of {self._steps} steps backward{where} added to those of the step "
            "before. Fix: optimizer.zero_grad() before backward()"
        )

    def notes(self) -> list[str]:
        """What a report of a harmful step should mention."""
        grown = self.rates.grown
        risen = (
            f"the learning rate has grown {grown}: look at the schedule before the model"
            if grown
            else ""
        )
        return [note for note in (self.left_over, risen) if note]


def before_backward(known: Iterable[Any]) -> None:
    """Tell the notes of all optimizers that a backward pass begins."""
    for checked in known:
        checked.loop.before_backward()


def after_backward(known: Iterable[Any], place: tuple[CodeType, int] | None) -> None:
    """Tell them that it has ended."""
    for checked in known:
        checked.loop.after_backward(place)


def not_held(
    names: dict[int, str],
    models: Sequence[torch.nn.Module],
    known: Iterable[Any],
    surely: bool = False,
) -> list[str]:
    """A note about parameters that have a gradient and are in no optimizer.

    `surely`: only if an optimizer holds parameters that no model has, which a frozen part of a
    model does not explain.
    """
    held = {id(p): p for checked in known for p in checked.parameters}
    parameters: list[Any] = [p for model in models for p in model.parameters()]
    out = [p for p in parameters if p.grad is not None and id(p) not in held]
    own = set(map(id, parameters))
    orphans = [p for key, p in held.items() if key not in own and p.grad is None]
    if not out or not held or (surely and not orphans):
        return []
    told = listed(list(dict.fromkeys(names.get(id(p), "a parameter") for p in out)), 4)
    why = f"; the optimizer holds {len(orphans)} that no model has" if orphans else ""
    return [f"{told} get a gradient and are in no optimizer: they never change{why}"]


def loop_faults(watched: Any) -> list[str]:
    """What is surely wrong with a watched training loop, although no step was harmful."""
    models = [known.module for known in watched.models.values()]
    names = watched._names.of_parameters(models)
    known = list(watched.optimizers.values())
    loops = [checked.loop for checked in known]
    told = [text for loop in loops for text in (loop.left_over, loop.erased, loop.idle)]
    return [*filter(None, told), *not_held(names, models, known, surely=True)]
