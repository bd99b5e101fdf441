"""The network of `scalar.py`, forward and backward: micrograd records it, gradwalk replays it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from scalar import hinge_loss, start, two_moons

from . import Answer, Begin, Step


def prepare(name: str, rate: float, *, values: str, network: str) -> Begin:
    """There is one such problem, and no optimizer: `name` and `rate` are unused."""
    value = import_module(values).Value
    model = start(network)
    points, labels = two_moons()

    def record() -> Any:
        return hinge_loss(value, model, points, labels)

    def begin_recording() -> Step:
        def step() -> Answer:
            loss = record()
            model.zero_grad()
            loss.backward()
            return lambda: total(parameter.grad for parameter in model.parameters())

        return step

    recorded = record() if values == "gradwalk" else None

    def begin_replaying() -> Step:
        replay = import_module("gradwalk").compile(recorded)
        numbers = np.array([leaf.data for leaf in replay.leaves])

        def step() -> Answer:
            replay(numbers)
            return lambda: total(replay.grad(parameter) for parameter in model.parameters())

        return step

    return begin_replaying if recorded is not None else begin_recording


def total(gradients: Iterable[float]) -> float:
    """A loss alone would not show a wrong backward."""
    return float(sum(abs(gradient) for gradient in gradients))
