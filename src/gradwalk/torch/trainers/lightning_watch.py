"""LightningWatch: a callback of Lightning's Trainer."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gradwalk.torch.trainers.trainer_watch import LastTraining, TrainerWatch


def _package() -> str:
    """Lightning's name: it is published under two, and a program uses one of them."""
    imported = "pytorch_lightning" in sys.modules and "lightning" not in sys.modules
    return (
        "pytorch_lightning" if imported or find_spec("lightning") is None else "lightning.pytorch"
    )


if TYPE_CHECKING:
    Callback: Any = object
else:
    Callback = import_module(_package()).Callback


class LightningWatch(LastTraining, Callback):  # type: ignore[misc]
    """Watch the training of a Lightning `Trainer`, and log numbers of its layers.

    The numbers go to the trainer's loggers, as often as the trainer logs or every `every` steps.
    Other options are those of `gradwalk.torch.watch`.

        from gradwalk.torch.trainers import LightningWatch

        trainer = Trainer(callbacks=[LightningWatch()])
        trainer.fit(model, loader)
    """

    def __init__(self, *, every: int | None = None, **options: Any) -> None:
        super().__init__()
        self._both = TrainerWatch(every, options)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Watch the module and its optimizers."""
        if trainer.optimizers:
            self._both.begin(pl_module, trainer.optimizers, max(trainer.log_every_n_steps, 1))

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Send new numbers to the loggers, rather than through `log`, which aggregates them."""
        numbers = self._both.new_numbers()
        if numbers and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop watching; report parameters that the last update left non-finite."""
        self._both.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop watching."""
        self._both.end()
