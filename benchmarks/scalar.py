"""One training step of a 2-16-16-1 network of scalars on 50 points: gradwalk against micrograd."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from harness import (
    Bar,
    Contestant,
    Round,
    agreement,
    duration,
    play,
    race,
    ratio_cells,
    seconds_per_step,
    table,
)

POINTS = 50
ROUNDS = 15
REPEATS = 4
BAR = Bar(lowest=7)


def two_moons() -> tuple[list[list[float]], list[int]]:
    """The data of micrograd's demo: two interleaving half circles, with labels ±1."""
    source = random.Random(1337)
    points, labels = [], []
    for index in range(POINTS):
        angle = math.pi * source.random()
        x, y, label = math.cos(angle), math.sin(angle), -1
        if index % 2:
            x, y, label = 1 - x, 0.5 - y, 1
        points.append([x + source.gauss(0, 0.1), y + source.gauss(0, 0.1)])
        labels.append(label)
    return points, labels


def hinge_loss(value: Any, model: Any, points: list[list[float]], labels: list[int]) -> Any:
    """The loss of micrograd's demo; the same lines serve both libraries."""
    inputs = [[value(coordinate) for coordinate in point] for point in points]
    scores = [model(row) for row in inputs]
    losses = [(1 + -label * score).relu() for label, score in zip(labels, scores, strict=True)]
    return sum(losses) * (1.0 / len(losses))


def start(network_module: str) -> Any:
    """The network, with the weights that every contestant starts from."""
    model = import_module(network_module).MLP(2, [16, 16, 1])
    source = random.Random(7)
    for parameter in model.parameters():
        parameter.data = source.uniform(-1, 1)
    return model


def training_step(value_module: str, network_module: str) -> Callable[[], float]:
    value = import_module(value_module).Value
    model = start(network_module)
    points, labels = two_moons()

    def step() -> float:
        loss = hinge_loss(value, model, points, labels)
        model.zero_grad()
        loss.backward()
        # The gradients are the answer: a loss alone would not show a wrong backward.
        return float(sum(abs(parameter.grad) for parameter in model.parameters()))

    return step


def contestant(value_module: str, network_module: str) -> Round:
    step = training_step(value_module, network_module)
    for _ in range(REPEATS):
        step()
    return partial(seconds_per_step, step, REPEATS)


CONTESTANTS: dict[str, Contestant] = {
    "gradwalk": partial(contestant, "gradwalk", "gradwalk.scalar"),
    "micrograd": partial(contestant, "micrograd.engine", "micrograd.nn"),
}


def report() -> None:
    rows = []
    for collector, bar in ((True, BAR), (False, None)):
        result = race(list(CONTESTANTS), ROUNDS, garbage_collector=collector)
        ours, theirs = result["gradwalk"], result["micrograd"]
        rows.append(
            [
                f"garbage collector {'on' if collector else 'off'}",
                duration(ours["seconds"]),
                duration(theirs["seconds"]),
                *ratio_cells(theirs["seconds"] / ours["seconds"], bar),
            ]
        )
    table(
        f"Scalar: one training step, 2-16-16-1 network, {POINTS} points (times faster)",
        ["", "gradwalk", "micrograd", "ratio", "bar", ""],
        rows,
    )
    print(agreement(ours, theirs))


if __name__ == "__main__":
    play(CONTESTANTS, report)
