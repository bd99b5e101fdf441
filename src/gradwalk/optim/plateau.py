"""A schedule that depends on the loss instead of the epoch."""

from __future__ import annotations

import math
from dataclasses import InitVar as Option
from typing import Any, SupportsFloat

from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.schedule_base import LRScheduler, per_group, warn_of_epoch


@declared
class ReduceLROnPlateau(LRScheduler):
    """lr × factor when a quantity has not improved for `patience` epochs.

    >>> import gradwalk as gw
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = gw.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _by_epoch = False  # it cannot be part of other schedules
    _unsaved = (*LRScheduler._unsaved, "verbose")

    optimizer: Optimizer
    mode: str = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: str = "rel"
    cooldown: int = 0
    min_lr: Option[float | list[float]] = 0
    eps: float = 1e-8
    verbose: bool = False  # gone from PyTorch, but programs pass it: prints a line when it lowers

    def _construct(  # type: ignore[override]
        self, *, optimizer: Optimizer, min_lr: float | list[float], **options: Any
    ) -> None:
        self._check_optimizer(optimizer)
        vars(self).update(options, optimizer=optimizer)
        if self.factor >= 1:
            raise ValueError(f"factor must be below 1, not {self.factor}")
        if self.mode not in ("min", "max") or self.threshold_mode not in ("rel", "abs"):
            raise ValueError("mode is 'min' or 'max', threshold_mode is 'rel' or 'abs'")
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group(min_lr, optimizer, "values of min_lr")
        self.last_epoch = 0
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def step(  # type: ignore[override]
        self, metrics: SupportsFloat, epoch: int | None = None
    ) -> None:
        """Note this epoch's loss, or another quantity; lower the rates if it stagnates."""
        current = float(metrics)
        warn_of_epoch(epoch)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            groups = zip(self.optimizer.param_groups, self._lowest_rates())
            for number, (group, lowest) in enumerate(groups):
                lr = max(group["lr"] * self.factor, lowest)
                if group["lr"] - lr > self.eps:
                    group["lr"] = lr
                    if self.verbose is True:  # PyTorch's default was a word
                        print(f"epoch {self.last_epoch}: lr of group {number} is now {lr:.4g}")
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _lowest_rates(self) -> list[float]:
        """One for every group, those included that were added after the schedule was made."""
        added = len(self.optimizer.param_groups) - len(self.min_lrs)
        if added and self.default_min_lr is None:
            raise RuntimeError(
                f"the optimizer has {added} parameter group(s) more than the schedule's min_lr has "
                "values.\nFix: add the groups before ReduceLROnPlateau, or give one min_lr for all"
            )
        self.min_lrs += [self.default_min_lr] * added
        return self.min_lrs

    def _is_better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * value > sign * (self.best * (1 + sign * self.threshold))
        return sign * value > sign * (self.best + sign * self.threshold)
