"""The base class of learning-rate schedules."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from gradwalk.engine.modes import state as modes
from gradwalk.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` is deprecated: the rate is computed for that epoch "
    "alone. Fix: call `scheduler.step()` once per epoch."
)
Step = TypeVar("Step", bound=Callable[..., Any])


def untraced(step: Step) -> Step:
    """Reject `step` of a schedule in a compiled function: it counts in Python."""

    @wraps(step)
    def stepped(self: Any, *args: Any, **keywords: Any) -> Any:
        if modes.here.tracer is not None:
            modes.here.tracer.refuse(
                f"{type(self).__name__}.step()",
                "call it outside, after the compiled step: the new rate is used in the next call.",
            )
        return step(self, *args, **keywords)

    return stepped  # type: ignore[return-value]


def warn_of_epoch(epoch: int | None) -> None:
    """Warn, as PyTorch does, the caller of a schedule's `step` that is given an epoch."""
    if epoch is not None:
        warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=4)


class LRScheduler:
    """Sets the `lr` of every group at each `step()`; subclasses write `get_lr`.

    >>> import gradwalk as gw
    >>> class Halving(gw.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _unsaved: tuple[str, ...] = ("optimizer",)
    _by_epoch = True  # whether `step` needs no argument
    _is_initial = False
    _get_lr_called_within_step = False  # PyTorch's; a `get_lr` written for it may read it

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "step" in vars(cls):
            cls.step = untraced(cls.step)  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self._check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"parameter group {i} has no initial_lr: to continue with last_epoch="
                    f"{last_epoch}, load the optimizer's state first"
                )
        self.base_lrs: list[float] = [_own(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._initial_step()

    def _construct(self, *, optimizer: Optimizer, last_epoch: int, **options: Any) -> None:
        vars(self).update(options)
        self._check()
        LRScheduler.__init__(self, optimizer, last_epoch)

    def _check(self) -> None:
        """Reject options that make no sense; called by the constructor."""

    @staticmethod
    def _check_optimizer(optimizer: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule needs an Optimizer, not {type(optimizer).__name__}")

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rate of each group at `self.last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return self._last_lr

    @untraced
    def step(self, epoch: int | None = None) -> None:
        """Set the next rate, or that of a given epoch. Step the optimizer first."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value "
                "of the schedule is never used. Fix: call `optimizer.step()` first.",
                UserWarning,
                stacklevel=3,
            )
        warn_of_epoch(epoch)
        self._step_count += 1
        self._advance(epoch)

    def _advance(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr if epoch is None else self._closed_form)

    def _set(self, compute: Callable[[], list[float]]) -> None:
        """Give every group its rate."""
        self._get_lr_called_within_step = True
        try:
            rates = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = self._rates()

    def _closed_form(self) -> list[float]:
        """The rates at `self.last_epoch`, independent of the previous rates."""
        return self.get_lr()

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[float]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _from_base(self, factor: float) -> list[float]:
        return [lr * factor for lr in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as plain numbers and lists."""
        return {k: v for k, v in vars(self).items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, ours or PyTorch's."""
        own = self.state_dict()
        if "last_epoch" not in state_dict:
            raise ValueError("this is not the state of a schedule: it has no last_epoch")
        vars(self).update({k: _as_before(own[k], v) for k, v in state_dict.items() if k in own})


def per_group(value: Any, optimizer: Optimizer, what: str) -> list[Any]:
    """One value for every parameter group, from one for all of them or a list."""
    groups = len(optimizer.param_groups)
    listed = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(listed) != groups:
        raise ValueError(f"{len(listed)} {what} for {groups} parameter groups")
    return [_own(entry) for entry in listed]


def _own(value: Any) -> Any:
    """A number itself; of a rate that is a tensor a copy, which stays when the rate changes."""
    return value.clone() if hasattr(value, "clone") else value


def _as_before(own: Any, saved: Any) -> Any:
    """Convert a saved entry to the type of ours; JSON has only lists and text keys."""
    if isinstance(own, Counter):
        return Counter({int(k): count for k, count in saved.items()})
    return list(saved) if isinstance(own, list) else saved
