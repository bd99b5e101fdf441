"""HuggingFaceWatch: a callback of the Trainer in `transformers`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from gradwalk.torch.trainers.trainer_watch import LastTraining, TrainerWatch


class HuggingFaceWatch(LastTraining, TrainerCallback):
    """Watch the training of a `transformers.Trainer`, and log numbers of its layers.

    Given to the trainer as a callback, it watches. Given the trainer too, it sends the numbers to
    the trainer's loggers (wandb, TensorBoard and others), every `logging_steps` steps or every
    `every`. Other options are those of `gradwalk.torch.watch`.

        from gradwalk.torch.trainers import HuggingFaceWatch

        trainer = Trainer(model, arguments, train_dataset=data)
        trainer.add_callback(HuggingFaceWatch(trainer))
        trainer.train()
    """

    def __init__(self, trainer: Any = None, *, every: int | None = None, **options: Any) -> None:
        self._trainer = trainer
        self._both = TrainerWatch(every, options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Watch the model and the optimizer."""
        every = args.logging_steps if args.logging_steps >= 1 else 10
        self._both.begin(given["model"], [given["optimizer"]], int(every))

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Send new numbers to the loggers; the progress bar would print them all."""
        if self._trainer is None:
            return
        numbers = self._both.new_numbers()
        if numbers and state.is_world_process_zero:
            loggers: Any = tuple(INTEGRATION_TO_CALLBACK.values())
            for callback in self._trainer.callback_handler.callbacks:
                if isinstance(callback, loggers):
                    callback.on_log(args, state, control, logs=dict(numbers), **given)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Stop watching; report parameters that the last update left non-finite."""
        self._both.finish()
