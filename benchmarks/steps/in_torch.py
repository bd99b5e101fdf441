"""The programs of `problems.py` in PyTorch, eager and under `torch.compile`."""

from __future__ import annotations

import os
from typing import Any

import torch
from models import start

from . import Begin, Step
from .problems import PROBLEMS


def equation_by_func(library: Any, model: Any, times: Any, force: Any) -> Any:
    """`problems.equation` by torch.func: the compiler cannot differentiate its own output again."""

    def speed(times: Any) -> Any:
        return torch.func.grad(lambda times: model(times).sum())(times)

    acceleration = torch.func.grad(lambda times: speed(times).sum())(times)
    return ((acceleration + model(times) - force) ** 2).mean()


def prepare(name: str, rate: float, *, compiled: bool = False, fused: bool = False) -> Begin:
    """Prepare a problem with the default or the fused optimizer.

    The compiler gets the whole step, or only the loss, since it does not compile a fused optimizer.
    """
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    problem = PROBLEMS[name]
    model, inputs, labels = start(torch, problem.network, "float32")
    x, y = torch.tensor(inputs), torch.tensor(labels)
    optimizer = problem.network.optimizer(torch, model.parameters(), rate)
    if fused:
        settings = optimizer.param_groups[0] | {"fused": True, "foreach": None}
        optimizer = type(optimizer)([settings])
    write_loss = equation_by_func if compiled and name == "pinn" else problem.loss

    def loss_of(x: Any, y: Any) -> Any:
        return write_loss(torch, model, x, y)

    def begin() -> Step:
        loss_now = torch.compile(loss_of) if compiled and fused else loss_of

        def train(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_now(x, y)
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(train) if compiled and not fused else train
        return lambda: step(x, y).item

    return begin
