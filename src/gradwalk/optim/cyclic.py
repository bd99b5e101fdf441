"""The learning rate up and down between two bounds: again and again, or once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.schedule_base import LRScheduler, per_group

_MODES: dict[str, str] = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr and down again, with the momentum inverted. Step it every batch.

    "triangular2" halves the height of every cycle, "exp_range" scales it by gamma^step.

    >>> import gradwalk as gw
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> scheduler = gw.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.3, step_size_up=2)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.3]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self._check_optimizer(optimizer)
        if mode not in _MODES and scale_fn is None:
            raise ValueError(f"mode is one of {', '.join(_MODES)}, not {mode!r}")
        momenta = {"momentum", "betas"} & set(optimizer.defaults)
        if cycle_momentum and not momenta:
            raise ValueError("cycle_momentum needs an optimizer with momentum or betas")
        lows = per_group(base_lr, optimizer, "values of base_lr")
        self.max_lrs = per_group(max_lr, optimizer, "values of max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _MODES[mode]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in momenta
            self.base_momentums = per_group(base_momentum, optimizer, "values of base_momentum")
            self.max_momentums = per_group(max_momentum, optimizer, "values of max_momentum")
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                group["lr"] = lows[i]
                if cycle_momentum:
                    group["max_momentum"] = self.max_momentums[i]
                    group["base_momentum"] = self.base_momentums[i]
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else 1.0

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a function of one's own, which is None."""
        return super().state_dict() | {"_scale_fn_custom": None}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, ours or PyTorch's; a function of one's own stays."""
        own = self._scale_fn_custom
        super().load_state_dict(state_dict)
        self._scale_fn_custom = own

    def get_lr(self) -> list[float]:
        """The rates at this step; also sets the momentum."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = self.step_ratio
        height = x / up if x <= up else (x - 1) / (up - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in ends:
                momentum: Any = high - (high - low) * height * scale
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        ends_of_rates = zip(self.base_lrs, self.max_lrs)
        return [low + (high - low) * height * scale for low, high in ends_of_rates]


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
