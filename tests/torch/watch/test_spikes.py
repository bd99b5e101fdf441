"""Spikes, each beside its healthy twin one line apart: a stale second moment, a learning rate, a
row, a token; and trainings that are noisy, restart or change their data, which are silent."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gradwalk.torch
from gradwalk.inspect.health.update_history import LossHistory, UpdateHistory
from gradwalk.torch.watch.update_sample import UpdateSample

FACTOR = torch.randn(16, 1, generator=torch.Generator().manual_seed(5))
Change = Callable[[int, torch.Tensor, torch.Tensor, torch.optim.Optimizer], None]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))


def trained(
    folder: Path, make: Any, change: Change, steps: int = 260, noise: float = 0.1, **options: Any
) -> Any:
    """Train with a change of the batch or the optimizer at a step; the watch."""
    model = network()
    optimizer = make(model.parameters())
    with gradwalk.torch.watch(model, optimizer, folder=folder, **options) as watched:
        for step in range(steps):
            x = torch.randn(16, 16)
            y = torch.tanh(0.3 * x @ FACTOR) + noise * torch.randn(16, 1)
            change(step, x, y, optimizer)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    return watched


def stopped(folder: Path, *args: Any, **options: Any) -> Any:
    with pytest.raises(gradwalk.torch.StepStopped) as stop:
        trained(folder, *args, **options)
    return stop.value.report


def adam(beta2: float = 0.999, lr: float = 1e-2) -> Any:
    return lambda parameters: torch.optim.Adam(parameters, lr=lr, betas=(0.9, beta2))


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def nothing(step: int, x: Any, y: Any, optimizer: Any) -> None:
    """No change."""


def new_data(step: int, x: torch.Tensor, y: torch.Tensor, optimizer: Any) -> None:
    if step >= 500:
        y *= 10


def test_a_stale_second_moment(tmp_path: Path) -> None:
    """The data changes after 500 quiet steps. beta2 decides whether v follows in time."""
    report = stopped(tmp_path, adam(0.999), new_data, steps=560, noise=0.0)
    assert (report.kind, report.mechanism) == ("spike", "moment") and report.step in (500, 501)
    assert "beta2=0.999" in report.why and "smaller beta2" in report.fix
    assert report.layers and "× √v" in report.layers[0]
    assert trained(tmp_path, adam(0.95), new_data, steps=560, noise=0.0).reports == []


def test_a_learning_rate_that_jumps(tmp_path: Path) -> None:
    def jump(step: int, x: Any, y: Any, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] = 1e-2 if step < 150 else 3.0

    report = stopped(tmp_path, adam(), jump)
    assert (report.kind, report.step, report.mechanism) == ("spike", 150, "rate")
    assert "from 0.01 to 3" in report.why and "schedule" in report.fix
    assert "mse_loss" in report.line.text


@pytest.mark.parametrize("make", [adam(lr=1e-3), momentum])
def test_the_row_that_made_the_loss_jump(make: Any, tmp_path: Path) -> None:
    def bad_row(step: int, x: torch.Tensor, y: torch.Tensor, optimizer: Any) -> None:
        if step == 150:
            y[5] = 60.0

    report = stopped(tmp_path, make, bad_row)
    assert (report.kind, report.step, report.row) == ("spike", 150, 5)
    assert "row 5" in report.fix and "of the loss" in str(report)
    assert trained(tmp_path, make, nothing).reports == []


def test_clipping_makes_the_row_harmless(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradwalk.torch.watch(model, optimizer, folder=tmp_path) as watched:
        for step in range(150):
            x = torch.randn(16, 16)
            y = torch.tanh(0.3 * x @ FACTOR) + 0.1 * torch.randn(16, 1)
            if step == 120:
                y[5] = 60.0
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            optimizer.step()
    assert watched.reports == []


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 24)
        self.cells = nn.GRU(24, 24, batch_first=True)
        self.head = nn.Linear(24, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.embedding(tokens))[0])


def test_the_token_that_made_the_loss_jump(tmp_path: Path) -> None:
    """Below the loss of the start it stops nothing: a row that is only new does the same."""
    torch.manual_seed(0)
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    with gradwalk.torch.watch(model, optimizer, folder=tmp_path) as watched:
        for step in range(210):
            tokens = (torch.randint(0, 16, (8, 1)) + torch.arange(9)) % 16
            if step == 200:
                tokens[3, 7] = (tokens[3, 7] + 5) % 16
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.reshape(-1, 16), tokens[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
    assert watched.reports == []
    assert [(jump.step, jump.row, jump.token) for jump in watched.jumps] == [(200, 3, 6)]


def restarts(step: int, x: Any, y: Any, optimizer: Any) -> None:
    rate = 0.5 * (1 + math.cos(math.pi * (step % 60) / 60))
    optimizer.param_groups[0]["lr"] = 1e-6 + 1e-2 * rate


def warm_up(step: int, x: Any, y: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] = 1e-2 * min(1.0, (step + 1) / 100)


def heavy_noise(step: int, x: torch.Tensor, y: torch.Tensor, optimizer: Any) -> None:
    y += 0.3 * torch.exp(torch.randn(16, 1))


def other_data(step: int, x: torch.Tensor, y: torch.Tensor, optimizer: Any) -> None:
    if step >= 150:
        y += 2


@pytest.mark.parametrize("change", [nothing, restarts, warm_up, heavy_noise, other_data])
@pytest.mark.parametrize("make", [adam(), momentum])
def test_healthy_training_is_silent(change: Change, make: Any, tmp_path: Path) -> None:
    watched = trained(tmp_path, make, change)
    assert watched.reports == [] and watched.jumps == []


def test_gradients_that_grow_while_the_loss_falls_are_no_spike(tmp_path: Path) -> None:
    """A vision transformer at the start of a training with SGD."""
    pytest.importorskip("transformers")
    from tests.torch.test_healthy_transformers import made

    model, batch = made("ViTForImageClassification")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradwalk.torch.watch(model, optimizer, folder=tmp_path) as watched:
        for _ in range(60):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    assert watched.reports == []


def test_a_prediction_is_what_the_step_does() -> None:
    """For every optimizer that updates each element by itself; none for LBFGS."""
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adamax"):
        model = network()
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-2)
        sample = UpdateSample(optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            predicted = sample.predicted()
            sample.take()
            optimizer.step()
            moved = sample.moved()
            assert predicted is not None and moved is not None
            assert predicted.ratios == pytest.approx(moved.tolist(), rel=1e-4), name
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(8, 16)).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert UpdateSample(optimizer).predicted() is None


def test_a_sample_of_a_large_weight_measures_it() -> None:
    weight = nn.Parameter(torch.randn(300, 500))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    sample = UpdateSample(optimizer)
    weight.grad = torch.randn(300, 500)
    before = weight.detach().clone()
    sample.take()
    optimizer.step()
    moved = sample.moved()
    assert moved is not None
    whole = (weight.detach() - before).norm() / before.norm()
    assert moved.item() == pytest.approx(whole.item(), rel=0.2)


def test_what_is_usual_is_the_most_that_was_usual() -> None:
    history = UpdateHistory()
    for ratio in [0.01] * 9 + [0.0001] * 30:
        history.add([ratio])
    assert history.standing_out([0.05]) == [] and history.standing_out([0.2]) == [0]
    assert history.recent is not None and history.recent[0] == pytest.approx(0.0001)


def test_a_loss_jumps_only_beyond_its_noise() -> None:
    random = np.random.default_rng(0)
    for noise in (random.normal(1, 0.1, 2000), np.exp(random.normal(0, 1, 2000))):
        history = LossHistory()
        assert not any(history.jumps(float(loss)) for loss in noise)
        assert history.jumps(1e4)
