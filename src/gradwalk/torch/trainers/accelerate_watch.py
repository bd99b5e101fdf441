"""AccelerateWatch: watch what an Accelerator has prepared."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.torch.trainers.trainer_watch import LastTraining, TrainerWatch


class AccelerateWatch(LastTraining):
    """Watch a training loop with Accelerate, and log numbers of its layers.

    It watches the model and the optimizers that the accelerator has prepared. `log()` sends new
    numbers to the accelerator's trackers; the numbers are measured every `every` steps. Other
    options are those of `gradwalk.torch.watch`.

        from gradwalk.torch.trainers import AccelerateWatch

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        with AccelerateWatch(accelerator) as watch:
            ...  # the loop; watch.log(step) where it logs
    """

    def __init__(self, accelerator: Any, *, every: int = 10, **options: Any) -> None:
        if not accelerator._models or not accelerator._optimizers:
            raise ValueError(
                "this accelerator has no model or no optimizer yet. Fix: make AccelerateWatch "
                "after `model, optimizer = accelerator.prepare(model, optimizer)`"
            )
        self._accelerator = accelerator
        self._both = TrainerWatch(every, options)
        self._both.begin(accelerator._models, accelerator._optimizers, every)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self._both.finish()
        else:
            self._both.end()

    def log(self, step: int | None = None) -> None:
        """Send new numbers, if there are any, to the accelerator's trackers."""
        numbers = self._both.new_numbers()
        if numbers:
            self._accelerator.log(numbers, step=step)
