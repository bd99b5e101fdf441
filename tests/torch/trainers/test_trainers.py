"""`watch` inside HF Trainer, Lightning and Accelerate: silent while healthy, the row of a NaN, and
numbers of the layers in the loggers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradwalk.torch
from gradwalk.torch.trainers import AccelerateWatch, HuggingFaceWatch, LightningWatch

transformers = pytest.importorskip("transformers")
lightning = pytest.importorskip("pytorch_lightning")
accelerate = pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")

BATCH, STEPS, BAD = 8, 12, 83  # the bad row is row 3 of step 10


class Standardize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)  # HERE


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Standardize(), nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def data(planted: bool) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    x, y = torch.randn(BATCH * STEPS, 4), torch.randint(0, 3, (BATCH * STEPS,))
    if planted:
        x[BAD] = 0.25
    return x, y


class WithLoss(nn.Module):
    """As the HF Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.cross_entropy(self.net(x), labels)}


class Lit(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Seen:
    """What a logger was given."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []


def hugging_face(planted: bool, folder: Path, seen: Seen) -> Any:
    class Logger(transformers.integrations.TensorBoardCallback):
        def __init__(self) -> None:
            transformers.TrainerCallback.__init__(self)

        def on_train_begin(self, *args: Any, **given: Any) -> None:
            """Needs no TensorBoard."""

        def on_log(self, *args: Any, logs: Any = None, **given: Any) -> None:
            seen.rows.append(logs)

        def on_train_end(self, *args: Any, **given: Any) -> None:
            """Needs no TensorBoard."""

    x, y = data(planted)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        logging_steps=5,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=1e-3,
    )
    rows = [{"x": a, "labels": b} for a, b in zip(x, y)]

    class Ordered(transformers.Trainer):
        def _get_train_sampler(self, *args: Any) -> Any:
            return None

    trainer = Ordered(WithLoss(), arguments, train_dataset=rows, callbacks=[Logger()])
    callback = HuggingFaceWatch(trainer, folder=folder)
    trainer.add_callback(callback)
    return callback, trainer.train


def in_lightning(planted: bool, folder: Path, seen: Seen) -> Any:
    class Logger(lightning.loggers.logger.DummyLogger):
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            seen.rows.append(metrics)

    callback = LightningWatch(folder=folder)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=Logger(),
        log_every_n_steps=5,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    )
    loader = DataLoader(TensorDataset(*data(planted)), batch_size=BATCH)
    return callback, lambda: trainer.fit(Lit(), loader)


def with_accelerate(planted: bool, folder: Path, seen: Seen) -> Any:
    class Tracker(accelerate.tracking.GeneralTracker):
        name = "rows"
        requires_logging_directory = False
        tracker: Any = None

        def store_init_configuration(self, values: Any) -> None:
            """Nothing."""

        def log(self, values: dict[str, float], step: int | None = None, **_: Any) -> None:
            seen.rows.append(values)

    accelerator = accelerate.Accelerator(cpu=True, log_with=[Tracker()])
    accelerator.init_trackers("rows")
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(*data(planted)), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    watch = AccelerateWatch(accelerator, every=5, folder=folder)

    def train() -> None:
        with watch:
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                optimizer.step()
                watch.log(step)

    return watch, train


TRAINERS = [hugging_face, in_lightning, with_accelerate]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_healthy_training_is_silent_and_logged(trainer: Any, tmp_path: Path) -> None:
    seen = Seen()
    callback, train = trainer(False, tmp_path, seen)
    train()
    assert callback.watched.steps == STEPS and callback.watched.reports == []
    numbers = [row for row in seen.rows if any(key.startswith("gradwalk/") for key in row)]
    assert len(numbers) == 3  # steps 0, 5 and 10
    last = callback.numbers.history[-1]
    prefix = "" if trainer is with_accelerate else "net."
    for layer in (f"{prefix}1", f"{prefix}3", "all"):
        for what in ("grad_norm", "weight_norm", "update_ratio", "first_moment", "second_moment"):
            assert last[f"{layer}/{what}"] > 0
            assert numbers[-1][f"gradwalk/{layer}/{what}"] == last[f"{layer}/{what}"]
    assert all(isinstance(x, float) for x in last.values())
    assert not callback.watched._hooks._exit_callbacks  # everything was removed


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_nan_is_stopped_and_named(trainer: Any, tmp_path: Path) -> None:
    _, train = trainer(True, tmp_path, Seen())
    with pytest.raises(gradwalk.torch.StepStopped) as stopped:
        train()
    report = stopped.value.report
    assert (report.kind, report.step, report.op, report.row) == ("NaN", 10, "div", BAD % BATCH)
    assert report.line is not None and "# HERE" in report.line.text
    assert report.rerun == "statements"


def test_three_lines_each() -> None:
    """The examples in the docstrings show what a program adds."""
    for watch in (HuggingFaceWatch, LightningWatch, AccelerateWatch):
        assert f"from gradwalk.torch.trainers import {watch.__name__}" in watch.__doc__
        assert watch.__doc__.count("Watch(") == 1


def test_no_package_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, gradwalk.torch, gradwalk.torch.trainers\n"
        "heavy = {'transformers', 'accelerate', 'pytorch_lightning', 'lightning'}\n"
        "assert not heavy & set(sys.modules)\n"
        "sys.modules['transformers'] = None\n"
        "try:\n"
        "    gradwalk.torch.trainers.HuggingFaceWatch\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gradwalk[trainers]" in done.stdout


def test_accelerate_must_have_prepared() -> None:
    with pytest.raises(ValueError, match="prepare"):
        AccelerateWatch(accelerate.Accelerator(cpu=True))
