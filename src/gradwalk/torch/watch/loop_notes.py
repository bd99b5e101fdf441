"""What a watch notes about the training loop itself: learning rates, gradients that are left over.

It reads no number from the device: a gradient is left over if backward adds to the same tensor, not
written since, that the last step used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import torch

from gradwalk.graph.source import source_line
from gradwalk.inspect.doctor.rates import RateHistory
from gradwalk.inspect.trace.routes import listed

_NOTHING = (0, 0)
FEWEST = 3  # steps that show it, and most of them


class LoopNotes:
    """Notes about the steps of one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.rates = RateHistory()
        self._looked_at: torch.Tensor | None = None  # a parameter with a gradient
        self._last = _NOTHING  # its gradient after the last step or pass
        self._reached = self._cleared = False  # since the last step
        self._left = self._steps = 0
        self._place: tuple[CodeType, int] | None = None  # of the backward that added to it

    def before_step(self, number: int) -> None:
        """Note a step that is about to be made."""
        groups = self.optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if isinstance(rate, int | float):
            self.rates.note(number, float(rate))
        if self._reached:
            self._steps += 1
            self._left += not self._cleared
        parameters = (p for group in groups for p in group["params"])
        self._looked_at = next((p for p in parameters if p.grad is not None), None)
        self._last = self._gradient()
        self._reached = self._cleared = False

    def before_backward(self) -> None:
        """Note a backward pass that begins: was the gradient cleared, or written, before it?"""
        if self._gradient() != self._last:
            self._cleared = True

    def after_backward(self, place: tuple[CodeType, int] | None) -> None:
        """Note one that has ended: did it add to the gradient?"""
        now = self._gradient()
        if now != self._last and self._looked_at is not None:
            self._reached, self._last = True, now
            self._place = self._place or place

    def _gradient(self) -> tuple[int, int]:
        grad = None if self._looked_at is None else self._looked_at.grad
        return _NOTHING if grad is None else (id(grad), grad._version)

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
    left = [checked.loop.left_over for checked in known]
    return [*filter(None, left), *not_held(names, models, known, surely=True)]
