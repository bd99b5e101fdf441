"""Typical training loops, each faulty (`planted`) or healthy; `HERE` marks the line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

BAD_STEP, BAD_ROW, STEPS = 40, 5, 44
Watching = Callable[[Any, Any], Any]


@dataclass
class Trained:
    """The results of training: the same bit for bit, watched or not."""

    losses: list[float] = field(default_factory=list)
    weights: list[torch.Tensor] = field(default_factory=list)

    def done(self, *models: nn.Module) -> Trained:
        self.weights = [v.clone() for m in models for v in m.state_dict().values()]
        return self


def network() -> nn.Module:
    """With a dropout and a batch norm, so that random numbers and buffers matter."""
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )


def batches(planted: bool, steps: int = STEPS) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(steps, 16, 4), torch.randn(steps, 16, 1)
    if planted:
        x[BAD_STEP, BAD_ROW, 2] = math.nan
    return x, y


def in_a_function(planted: bool, watching: Watching) -> Trained:
    inputs, targets = batches(planted)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    trained = Trained()
    watching(model, optimizer)
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        prediction = model(x)  # HERE
        loss = (prediction - y).square().mean()
        if loss.item() > 1e9:
            break
        trained.losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return trained.done(model)


class Trainer:
    """A loop in a class, with a name that Python mangles."""

    def __init__(self, watching: Watching) -> None:
        self.model = network()
        self.__optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.trained = Trained()
        watching(self.model, self.__optimizer)

    def fit(self, inputs: torch.Tensor, targets: torch.Tensor) -> Trained:
        for x, y in zip(inputs, targets):
            self.training_step(x, y)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.__optimizer.step()
        return self.trained.done(self.model)

    def training_step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        try:
            prediction = self.model(x)  # HERE
        except ValueError:
            return
        self.__optimizer.zero_grad()
        loss = functional.mse_loss(prediction, y)
        if not self.model.training:
            return
        loss.backward()
        self.trained.losses.append(loss.item())


def in_a_method(planted: bool, watching: Watching) -> Trained:
    inputs, targets = batches(planted)
    return Trainer(watching).fit(inputs, targets)


def with_a_helper(planted: bool, watching: Watching) -> Trained:
    inputs, targets = batches(planted)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trained = Trained()
    watching(model, optimizer)

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(model(x), y)  # HERE

    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


def mixed_precision(planted: bool, watching: Watching) -> Trained:
    inputs, targets = batches(planted)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trained = Trained()
    watching(model, optimizer)
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            noise = torch.randn(16, 1) * 0.01
            prediction = model(x)  # HERE
            loss = functional.mse_loss(prediction.float(), y + noise)
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


def scaled(planted: bool, watching: Watching) -> Trained:
    """The scale starts so high that the scaler skips the first steps, and any NaN: no faults.

    In the faulty variant the loss is NaN from one step on, so the scaler skips every step.
    """
    inputs, targets = batches(False, 60)
    if planted:
        inputs[BAD_STEP:, BAD_ROW, 2] = math.nan
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=10**6)
    trained = Trained()
    watching(model, optimizer)
    for step, (x, y) in enumerate(zip(inputs, targets)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.mse_loss(model(x).float(), y)  # HERE
        scaler.scale(loss if step % 7 else loss * 1e30).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        trained.losses.append(loss.item())
    return trained.done(model)


def accumulated(planted: bool, watching: Watching) -> Trained:
    """Four backward passes per step; the second of the tenth step is faulty."""
    inputs, targets = batches(False)
    if planted:
        inputs[37, BAD_ROW] = math.inf
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trained = Trained()
    watching(model, optimizer)
    for index, (x, y) in enumerate(zip(inputs, targets)):
        with torch.random.fork_rng(devices=[]):
            loss = functional.mse_loss(model(x), y) / 4  # HERE
        loss.backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        trained.losses.append(loss.item())
    return trained.done(model)


def adversarial(planted: bool, watching: Watching) -> Trained:
    """Two models and two optimizers; the generator's loss is faulty."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    trained = Trained()
    watching([generator, critic], [generator_optimizer, critic_optimizer])
    for step in range(STEPS):
        real = torch.randn(16, 2)
        fake = generator(torch.randn(16, 3))
        critic_loss = functional.softplus(-critic(real)).mean()
        critic_loss = critic_loss + functional.softplus(critic(fake.detach())).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        score = critic(fake)
        if planted and step == BAD_STEP:
            score = score - 200  # sigmoid of it is 0
        generator_loss = -torch.log(torch.sigmoid(score)).mean()  # HERE
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        trained.losses.append(generator_loss.item())
    return trained.done(generator, critic)


def log_of_zero(planted: bool, watching: Watching) -> Trained:
    """The fault is in the loss, outside the model."""
    inputs, _ = batches(False)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trained = Trained()
    watching(model, optimizer)
    for step, x in enumerate(inputs):
        optimizer.zero_grad()
        probability = model(x).sigmoid().squeeze(1)
        keep = torch.ones(16)
        if planted and step == BAD_STEP:
            keep[BAD_ROW] = 0
        loss = -(probability * keep).log().mean()  # HERE
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


class Distance(nn.Module):
    """A distance whose gradient, but not its value, is infinite where both are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Linear(4, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        apart = (self.place(a) - self.place(b)).square().sum(1)
        return apart.sqrt()  # HERE


def root_at_zero(planted: bool, watching: Watching) -> Trained:
    inputs, _ = batches(False)
    model = Distance()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trained = Trained()
    watching(model, optimizer)
    for step, x in enumerate(inputs):
        other = x.flip(0).clone()
        if planted and step == BAD_STEP:
            other[BAD_ROW] = x[BAD_ROW]
        optimizer.zero_grad()
        loss = (model(x, b=other) - 1).square().mean()
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


def exploding(planted: bool, watching: Watching) -> Trained:
    """One row of the data in other units."""
    inputs, targets = batches(False)
    if planted:
        inputs[BAD_STEP, BAD_ROW] *= 1e6
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trained = Trained()
    watching(model, optimizer)
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


def bad_update(planted: bool, watching: Watching) -> Trained:
    """The gradients are finite; the update is not."""
    inputs, targets = batches(False)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trained = Trained()
    watching(model, optimizer)
    for step, (x, y) in enumerate(zip(inputs, targets)):
        if planted and step == BAD_STEP - 1:
            optimizer.param_groups[0]["lr"] = math.inf
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        trained.losses.append(loss.item())
    return trained.done(model)


def with_closure(planted: bool, watching: Watching) -> Trained:
    """LBFGS computes its gradients itself, several times per step."""
    inputs, targets = batches(False)
    if planted:
        inputs[BAD_STEP, BAD_ROW, 0] = math.nan
    torch.manual_seed(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    trained = Trained()
    watching(model, optimizer)
    for x, y in zip(inputs, targets):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), y)  # HERE
            loss.backward()
            return loss

        trained.losses.append(optimizer.step(closure).item())
    return trained.done(model)
