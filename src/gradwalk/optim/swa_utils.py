"""Averages of a model's weights over training: stochastic (SWA) and exponential (EMA)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from gradwalk.engine.modes import no_grad
from gradwalk.nn.layers.normalization import _BatchNorm
from gradwalk.nn.module import Module
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.schedule_base import LRScheduler, per_group
from gradwalk.tensors.creation import tensor
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """The mean of all models so far."""
    return lambda average, new, n: average + (new - average) / (n + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """`decay` of the average and the rest of the new model."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must be from 0 to 1, not {decay}")
    return lambda average, new, n: decay * average + (1 - decay) * new


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` of all parameters at once."""
    return _of_all(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` of all parameters at once."""
    return _of_all(get_ema_avg_fn(decay))


def _of_all(average: Average) -> Averages:
    def averages(kept: list[Tensor], new: list[Tensor], n: Any) -> None:
        with no_grad():
            for p, q in zip(kept, new, strict=True):
                p.copy_(average(p, q, n))

    return averages


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those it is updated with.

    >>> import gradwalk as gw
    >>> model = gw.nn.Linear(1, 1, bias=False)
    >>> average = gw.optim.swa_utils.AveragedModel(model)
    >>> for weight in (1.0, 2.0, 6.0):
    ...     _ = gw.nn.init.constant_(model.weight, weight)
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """The averaged model's."""
        return self.module(*args, **keywords)

    def update_parameters(self, model: Module) -> None:
        """Take the model into the average; its buffers are copied, or averaged, too."""
        kept: list[Tensor] = list(self.module.parameters())
        new: list[Tensor] = list(model.parameters())
        copied: list[tuple[Tensor, Tensor]] = []
        if self.use_buffers:
            kept += self.module.buffers()
            new += model.buffers()
        else:
            copied += zip(self.module.buffers(), model.buffers(), strict=True)
        with no_grad():
            new = [q.detach().to(p.device) for p, q in zip(kept, new, strict=True)]
            if int(self.n_averaged) == 0:
                copied += zip(kept, new)
            elif self.avg_fn is None:
                averages = self.multi_avg_fn or get_swa_multi_avg_fn()
                averages([p.detach() for p in kept], new, self.n_averaged)
            else:
                copied += (
                    (p, self.avg_fn(p.detach(), q, self.n_averaged)) for p, q in zip(kept, new)
                )
            for p, q in copied:
                p.copy_(q)
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Measure the running statistics of batch norm again, over all batches of the loader.

    An averaged model needs it: its own activations were never seen in training.
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for layer in momenta:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
    with no_grad():
        for batch in loader:
            first = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(first if device is None else first.to(device))
    for layer, momentum in momenta.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From each group's rate to `swa_lr` in `anneal_epochs` steps, and there it stays.

    >>> import gradwalk as gw
    >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = gw.optim.swa_utils.SWALR(optimizer, 0.1, 2, "linear")
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be a whole number from 0, not {anneal_epochs!r}")
        for rate, group in zip(
            per_group(swa_lr, optimizer, "values of swa_lr"), optimizer.param_groups
        ):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _way(self, step: int) -> float:
        """The share of the way to swa_lr after this many steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        """The rates after this step; where they began follows from the present ones."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
