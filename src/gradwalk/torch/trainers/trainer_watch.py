"""What the three trainers share: a watch and per-layer numbers, begun and ended together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwalk.torch.watch.layer_numbers import LayerNumbers
from gradwalk.torch.watch.step_report import StepReport, StepStopped
from gradwalk.torch.watch.watch import Watch


class TrainerWatch:
    """A watch and LayerNumbers for one training, with the options of both."""

    def __init__(self, every: int | None, options: dict[str, Any]) -> None:
        self.every = every  # None: as often as the trainer logs
        self.options = options  # of `watch`
        self.watched: _EndingWatch | None = None
        self.numbers: LayerNumbers | None = None
        self._sent = -1.0  # the step whose numbers were logged last

    def begin(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizers: Sequence[Any],
        every: int,
    ) -> None:
        """Begin to watch; stop watching what was watched before."""
        self.end()
        inner = [unwrapped(optimizer) for optimizer in optimizers]
        self.watched = _EndingWatch(model, inner, **self.options)
        self.watched.at_stop = self.end
        self.numbers = LayerNumbers(model, inner, self.every or every)
        self._sent = -1.0

    def end(self) -> None:
        """Remove all hooks. Reports and numbers stay."""
        if self.watched is not None:
            self.watched.remove()
        if self.numbers is not None:
            self.numbers.remove()

    def finish(self) -> None:
        """End after the last step: report parameters that its update left non-finite."""
        self.end()
        if self.watched is not None:
            self.watched.check_parameters()

    def new_numbers(self) -> dict[str, float]:
        """The last numbers, once; empty if they were taken already."""
        if self.numbers is None or not self.numbers.history:
            return {}
        step = self.numbers.history[-1]["step"]
        if step == self._sent:
            return {}
        self._sent = step
        return {f"gradwalk/{name}": x for name, x in self.numbers.last.items()}


class _EndingWatch(Watch):
    """A watch that ends when it stops the training: not every trainer tells of an exception."""

    at_stop: Any = None

    def _tell(self, report: StepReport) -> None:
        try:
            super()._tell(report)
        except StepStopped:
            self.at_stop()
            raise


def unwrapped(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside a trainer's wrapper: only that one calls the hooks of its steps."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


class LastTraining:
    """What every callback shows of the training that it watched last."""

    _both: TrainerWatch

    @property
    def watched(self) -> Watch | None:
        """The watch, with its `steps` and `reports`."""
        return self._both.watched

    @property
    def numbers(self) -> LayerNumbers | None:
        """The numbers of its layers: `last` and `history`."""
        return self._both.numbers
