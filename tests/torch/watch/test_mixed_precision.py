"""autocast and GradScaler under watch: what the scaler handles is no finding."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from gradwalk.torch import StepStopped, watch
from gradwalk.torch.watch.step_report import StepReport


class Attends(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = self.factor * self.q(x), self.factor * self.k(x)
        scores = q @ k.mT  # SCORES
        return torch.softmax(scores, -1) @ x


class Model(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.attends, self.head = Attends(factor), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.attends(x)).mean(1)


def train(
    model: nn.Module,
    folder: Path,
    *,
    steps: int = 30,
    factor: float = 1.0,
    planted: int = -1,
    scaler: Any = None,
    dtype: torch.dtype = torch.float16,
    all_optimizers: bool = False,
) -> list[StepReport]:
    """Train with autocast and a scaler; return the reports."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = scaler or torch.amp.GradScaler("cpu")
    torch.manual_seed(1)
    watched = watch(model, None if all_optimizers else optimizer, folder=folder)
    try:
        for step in range(steps):
            x, y = torch.randn(4, 5, 8), torch.randint(0, 3, (4,))
            if step == planted:
                x = x * 1e5
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                output = model(x)
            loss = functional.cross_entropy(output.float(), y) * factor  # LOSS
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    except StepStopped:
        pass
    finally:
        watched.remove()
    return watched.reports


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_overflows_that_the_scaler_handles_are_no_finding(tmp_path: Path) -> None:
    steep = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=4)
    assert train(Model(), tmp_path, planted=12, scaler=steep) == []
    assert steep.get_scale() < 2.0**24
    # A loss so large that the scale falls for many steps, and then fits.
    assert train(Model(), tmp_path, factor=2e3) == []
    assert train(Model(), tmp_path, dtype=torch.bfloat16) == []
    # Two watches at once, one of them removed first, leave the scaler as it was.
    first, second = watch(None, None), watch(None, None)
    first.remove()
    assert train(Model(), tmp_path, planted=3) == []
    second.remove()
    assert torch.amp.GradScaler.step.__module__ == "torch.amp.grad_scaler"


def test_a_forward_pass_that_overflows_is_named_and_float32_tried(tmp_path: Path) -> None:
    (report,) = train(Model(factor=300.0), tmp_path, all_optimizers=True)
    assert report.line is not None and report.line.text.endswith("# SCORES")
    assert (report.module, report.op) == ("attends", "matmul")
    assert "10 times in a row" in report.seen
    assert len(report.tried) == 1 and "that line in float32: the gradients are" in report.tried[0]
    assert report.fix.startswith("run that line in float32")
    assert "tried:   that line in float32" in str(report)


def test_gradients_that_overflow_at_every_scale_are_named(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    (report,) = train(Model(), tmp_path, factor=1e7, scaler=scaler)
    assert "scale has fallen from 256 to 1" in report.seen
    assert "attends.q.weight" in report.gradients and "head.bias" in report.gradients
    assert report.line is not None
    # Half of the gradient is lost at the cast behind the head, not in one line of it.
    assert report.tried[-1].startswith(("every operation", "all of"))
    assert "finite" in report.tried[-1]


def test_trying_float32_says_when_precision_is_not_the_cause(tmp_path: Path) -> None:
    class Divides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.layer(x)
            return (h / (h - h)).mean(1)

    (report,) = train(Divides(), tmp_path)
    assert report.op == "div" and math.isnan(report.loss or 0.0)
    assert [effect.split(" in float32: ")[1] for effect in report.tried] == [
        "the fault is still there"
    ] * len(report.tried)
    assert report.tried and "tried" not in report.fix


def test_without_a_scaler_the_step_is_stopped_and_float32_tried(tmp_path: Path) -> None:
    model = Model(factor=300.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        x = torch.randn(4, 5, 8)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(x).square().mean()
        loss.backward()
        before = [p.grad for p in model.parameters()]
        optimizer.step()
    assert "that line in float32: the gradients are finite" in stopped.value.report.tried[0]
    assert all(p.grad is g for p, g in zip(model.parameters(), before))


def test_a_model_in_half_precision_is_tried_too(tmp_path: Path) -> None:
    model = Model(factor=300.0).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        model(torch.randn(4, 5, 8).half()).float().square().mean().backward()
        optimizer.step()
    effects = stopped.value.report.tried
    # The scores alone do not fit into float16: the line does not help, the module does.
    assert "still there" in effects[0] and "finite" in effects[-1]
