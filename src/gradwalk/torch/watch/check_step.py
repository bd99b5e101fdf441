"""The check before a step, and what is known of an optimizer to judge its gradients by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.watch.explosions import GradientHistory
from gradwalk.torch.watch.faults import Fault, examined
from gradwalk.torch.watch.gradient_checks import (
    exact_length,
    gradients_of,
    length_of,
    numbers_in,
    parameters_of,
    scale_of,
)


@dataclass(frozen=True)
class Limits:
    """Where healthy ends; see `watch`."""

    explosion: float = 1e3
    warmup: int = 10
    floor: float | None = None


class Checked:
    """An optimizer: how many steps it has made, and how long its gradients were."""

    def __init__(self, optimizer: torch.optim.Optimizer, limits: Limits) -> None:
        self.optimizer = optimizer
        self.limits = limits
        self.steps = 0
        self._start = 0.0  # how long all parameters together were in the first step
        self._history: GradientHistory | None = None

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.optimizer).__name__

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What it moves."""
        return list(parameters_of(self.optimizer))

    @property
    def growth(self) -> float:
        """How many times as long as in the first step the parameters are; 1 if that is unknown."""
        found = exact_length(self.parameters) / self._start if self._start else 1.0
        return found if math.isfinite(found) else 1.0

    def look(self, runs: list[Run], explodes: bool = True) -> Fault | None:
        """What is wrong with the gradients, or with the losses they came from.

        While all is well this is one number for all gradients together, and the losses.
        """
        gradients = gradients_of(self.optimizer)
        if not gradients:
            return None
        losses = [run.loss for run in runs if run.loss is not None]
        norm, *values = numbers_in([length_of(gradients), *losses])
        norm /= scale_of(self.optimizer)
        history = self._history or self._begin()
        healthy = math.isfinite(norm) and all(map(math.isfinite, values))
        if healthy and not (explodes and history.has_exploded(norm)):
            history.add(norm)
            return None
        return examined(self.parameters, runs, norm, history)

    def _begin(self) -> GradientHistory:
        self._start = length_of([p.detach() for p in self.parameters]).item()
        floor = self._start if self.limits.floor is None else self.limits.floor
        self._history = GradientHistory(self.limits.explosion, self.limits.warmup, floor)
        return self._history
