"""One cycle of the learning rate over a training run."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.schedule_base import LRScheduler, per_group


class OneCycleLR(LRScheduler):
    """Up to max_lr and down to almost zero, once, with the momentum inverted. Step it every batch.

    >>> import gradwalk as gw
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> scheduler = gw.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> round(scheduler.get_last_lr()[0], 3)
    0.04
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        total = total_steps if total_steps is not None else (epochs or 0) * (steps_per_epoch or 0)
        if total <= 0:
            raise ValueError("give total_steps, or epochs and steps_per_epoch, above 0")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be from 0 to 1, not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        momenta = {"momentum", "betas"} & set(optimizer.defaults)
        if cycle_momentum and not momenta:
            raise ValueError("cycle_momentum needs an optimizer with momentum or betas")
        self.total_steps = total
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in momenta
        self._anneal_func_type = anneal_strategy
        # Each phase: where it ends, and the names of the rates and momenta at its two ends.
        top = float(pct_start * total) - 1
        phases: list[tuple[float, str, str, str, str]] = [
            (top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        ]
        if three_phase:
            down = float(2 * pct_start * total) - 2
            phases += [
                (down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases += [(total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(keys, p)) for p in phases]
        if last_epoch == -1:
            ends = {"max_lr": max_lr}
            if cycle_momentum:
                ends |= {"max_momentum": max_momentum, "base_momentum": base_momentum}
            for name, value in ends.items():
                listed = per_group(value, optimizer, f"values of {name}")
                for group, own in zip(optimizer.param_groups, listed):
                    group[name] = own
            for group in optimizer.param_groups:
                group["initial_lr"] = group["max_lr"] / div_factor
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at this step; also sets the momentum."""
        step, rates = self.last_epoch, []
        if step > self.total_steps:
            raise ValueError(f"step {step} of a schedule with {self.total_steps} steps")
        for group in self.optimizer.param_groups:
            start = 0.0
            for phase in self._schedule_phases:
                end = phase["end_step"]
                if step <= end or phase is self._schedule_phases[-1]:
                    break
                start = end
            done = (step - start) / (end - start)
            first, last = group[phase["start_lr"]], group[phase["end_lr"]]
            rates.append(self._between(first, last, done))
            if self.cycle_momentum:
                slow, fast = group[phase["start_momentum"]], group[phase["end_momentum"]]
                momentum = self._between(slow, fast, done)
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return rates

    def _between(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
