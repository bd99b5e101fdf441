"""Check the gradients of an optimizer before it steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.watch.explosions import GradientHistory
from gradwalk.torch.watch.faults import StepFault, examine_step
from gradwalk.torch.watch.gradient_checks import (
    exact_norm,
    gradients_of,
    norm_of,
    numbers_in,
    parameters_of,
    scale_of,
)


@dataclass(frozen=True)
class WatchLimits:
    """The thresholds beyond which a gradient counts as exploded; see `watch`."""

    explosion: float = 1e3
    warmup: int = 10
    floor: float | None = None


class Checked:
    """An optimizer with its number of steps and the history of its gradient norms."""

    def __init__(self, optimizer: torch.optim.Optimizer, limits: WatchLimits) -> None:
        self.optimizer = optimizer
        self.limits = limits
        self.steps = 0
        self._start = 0.0  # norm of all parameters at the first step
        self._history: GradientHistory | None = None

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

    def check(self, runs: list[Run], explodes: bool = True) -> StepFault | None:
        """Return what is wrong with the gradients or their losses; None if they are healthy.

        A healthy step costs one norm over all gradients and a look at the losses.
        """
        gradients = gradients_of(self.optimizer)
        if not gradients:
            return None
        losses = [run.loss for run in runs if run.loss is not None]
        norm, *values = numbers_in([norm_of(gradients), *losses])
        norm /= scale_of(self.optimizer)
        history = self._history or self._begin()
        healthy = math.isfinite(norm) and all(map(math.isfinite, values))
        if healthy and not (explodes and history.has_exploded(norm)):
            history.add(norm)
            return None
        return examine_step(self.parameters, runs, norm, history)

    def _begin(self) -> GradientHistory:
        self._start = norm_of([p.detach() for p in self.parameters]).item()
        floor = self._start if self.limits.floor is None else self.limits.floor
        self._history = GradientHistory(self.limits.explosion, self.limits.warmup, floor)
        return self._history
