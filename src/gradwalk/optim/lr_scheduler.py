"""Learning-rate schedules: how `lr` changes as training goes on.

Each follows PyTorch's recursive form, so that several may act on one optimizer together.

>>> import gradwalk as gw
>>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
>>> scheduler = gw.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
>>> for _ in range(4):
...     optimizer.step()
...     scheduler.step()
...     print(scheduler.get_last_lr())
[1.0]
[0.5]
[0.5]
[0.25]
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from gradwalk.nn.constructors import declared
from gradwalk.optim.cyclic import CyclicLR, OneCycleLR
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.plateau import ReduceLROnPlateau
from gradwalk.optim.schedule_base import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
)
from gradwalk.optim.schedule_base import LRScheduler, per_group

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

_LRScheduler = LRScheduler  # PyTorch's deprecated name


class LambdaLR(LRScheduler):
    """lr × a function of the epoch, or one function per group.

    Functions are not saved; the attributes of callable objects are.

    >>> import gradwalk as gw
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = gw.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = per_group(lr_lambda, optimizer, "functions")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The initial rates times the functions' values."""
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self.base_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        kept = [None if isinstance(f, FunctionType) else dict(vars(f)) for f in self.lr_lambdas]
        return super().state_dict() | {"lr_lambdas": kept}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        functions = self.lr_lambdas
        super().load_state_dict(state_dict)
        self.lr_lambdas = functions
        for function, kept in zip(functions, state_dict.get("lr_lambdas", ())):
            if kept is not None:
                vars(function).update(kept)


class MultiplicativeLR(LambdaLR):
    """The previous rate × a function of the epoch."""

    def get_lr(self) -> list[float]:
        """The previous rates times the functions' values."""
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates())]


@declared
class StepLR(LRScheduler):
    """lr × gamma every `step_size` epochs."""

    optimizer: Optimizer
    step_size: int
    gamma: float = 0.1
    last_epoch: int = -1

    def get_lr(self) -> list[float]:
        """× gamma at every multiple of step_size."""
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if due else self._rates()

    def _closed_form(self) -> list[float]:
        return self._from_base(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """lr × gamma at each milestone; a milestone listed twice counts twice."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """× gamma if this epoch is a milestone."""
        count = self.milestones[self.last_epoch]
        return self._scaled(self.gamma**count) if count else self._rates()

    def _closed_form(self) -> list[float]:
        passed = sum(n for epoch, n in self.milestones.items() if epoch <= self.last_epoch)
        return self._from_base(self.gamma**passed)


@declared
class ConstantLR(LRScheduler):
    """lr × factor for the first `total_iters` epochs, then lr."""

    optimizer: Optimizer
    factor: float = 1 / 3
    total_iters: int = 5
    last_epoch: int = -1

    def _check(self) -> None:
        if not 0 <= self.factor <= 1:
            raise ValueError(f"factor must be from 0 to 1, not {self.factor}")

    def get_lr(self) -> list[float]:
        """× factor at the start, and back at the end."""
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch != self.total_iters:
            return self._rates()
        return self._scaled(1.0 / self.factor)

    def _closed_form(self) -> list[float]:
        return self._from_base(1 if self.last_epoch >= self.total_iters else self.factor)


@declared
class LinearLR(LRScheduler):
    """From lr × start_factor to lr × end_factor in a straight line: a warm-up."""

    optimizer: Optimizer
    start_factor: float = 1 / 3
    end_factor: float = 1.0
    total_iters: int = 5
    last_epoch: int = -1

    def _check(self) -> None:
        if not 0 < self.start_factor <= 1 or not 0 <= self.end_factor <= 1:
            raise ValueError("start_factor must be above 0 and at most 1, end_factor from 0 to 1")

    def get_lr(self) -> list[float]:
        """The next rate from the previous one."""
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return self._scaled(1.0 + slope / before)

    def _closed_form(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self._from_base(self.start_factor + (self.end_factor - self.start_factor) * done)


@declared
class ExponentialLR(LRScheduler):
    """lr × gamma every epoch."""

    optimizer: Optimizer
    gamma: float
    last_epoch: int = -1

    def get_lr(self) -> list[float]:
        """× gamma."""
        return self._rates() if self._is_initial else self._scaled(self.gamma)

    def _closed_form(self) -> list[float]:
        return self._from_base(self.gamma**self.last_epoch)


@declared
class PolynomialLR(LRScheduler):
    """lr × (1 − epoch / total_iters) ** power: down to 0."""

    optimizer: Optimizer
    total_iters: int = 5
    power: float = 1.0
    last_epoch: int = -1

    def get_lr(self) -> list[float]:
        """The next rate from the previous one."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((left / before) ** self.power)

    def _closed_form(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self._from_base((1.0 - done) ** self.power)


@declared
class CosineAnnealingLR(LRScheduler):
    """From lr down to eta_min along half a cosine of `T_max` epochs, and up again after it."""

    optimizer: Optimizer
    T_max: int
    eta_min: float = 0.0
    last_epoch: int = -1

    def get_lr(self) -> list[float]:
        """The next point of the cosine from the one before."""
        if self._is_initial:
            return self._rates()
        epoch, half = self.last_epoch, self.T_max
        if self._step_count == 1 and epoch > 0:
            return self._closed_form()
        if (epoch - 1 - half) % (2 * half) == 0:  # at the bottom, where the ratio below is 0 / 0
            rise = (1 - math.cos(math.pi / half)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise
                for base, group in zip(self.base_lrs, self.optimizer.param_groups)
            ]
        ratio = 1 + math.cos(math.pi * epoch / half)
        ratio /= 1 + math.cos(math.pi * (epoch - 1) / half)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Repeated half cosines from lr to eta_min, each `T_mult` times as long as the last."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or not isinstance(T_mult, int) or T_0 < 1 or T_mult < 1:
            raise ValueError(f"T_0 and T_mult must be positive integers, not {T_0} and {T_mult}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The value of the present cosine at `T_cur`."""
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to a given one, which may be a fraction."""
        self._advance(epoch)  # PyTorch counts no steps here either, so its state has none

    def _advance(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"the epoch must be at least 0, not {epoch}")
            start, length = 0, self.T_0
            while epoch >= start + length:
                start, length = start + length, length * self.T_mult
            self.T_cur, self.T_i = epoch - start, length
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)


class _Several(LRScheduler):
    """The base of schedules that combine others."""

    _unsaved = ("optimizer", "_schedulers")

    def _take(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        """Keep schedules that all belong to one optimizer."""
        if not schedulers:
            raise ValueError(f"{type(self).__name__} needs at least one schedule")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for scheduler in schedulers:
            by_epoch = isinstance(scheduler, LRScheduler) and scheduler._by_epoch
            if not by_epoch or scheduler.optimizer is not self.optimizer:
                raise ValueError("every schedule must be an LRScheduler of this optimizer")
        self._schedulers = list(schedulers)

    def _undo(self) -> None:
        """Take back the first step of every schedule inside."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, _Several):
                scheduler._undo()
            else:
                scheduler.last_epoch -= 1

    def state_dict(self) -> dict[str, Any]:
        """Its own state, and that of every schedule."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        saved = state_dict["_schedulers"]
        if len(saved) != len(self._schedulers):
            raise ValueError(
                f"the saved state has {len(saved)} schedules, not {len(self._schedulers)}"
            )
        own = {k: v for k, v in state_dict.items() if k in vars(self) and k not in self._unsaved}
        vars(self).update(own)
        for scheduler, one in zip(self._schedulers, saved):
            scheduler.load_state_dict(one)


class ChainedScheduler(_Several):
    """Several schedules at once, each applied to the rate that the previous one set."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._take(optimizer, schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Step every schedule."""
        if epoch is not None:
            raise NotImplementedError("ChainedScheduler advances one step at a time")
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()


class SequentialLR(_Several):
    """One schedule after the other: the next begins at each milestone.

    >>> import gradwalk as gw
    >>> from gradwalk.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> then = CosineAnnealingLR(optimizer, T_max=10)
    >>> SequentialLR(optimizer, [warm_up, then], milestones=[2]).get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, "
                f"not {len(milestones)}"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._undo()  # each schedule made its first step; only one should have
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Step the schedule whose turn it is."""
        if epoch is not None:
            raise NotImplementedError("SequentialLR advances one step at a time")
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._advance(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()
