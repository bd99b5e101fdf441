"""The six tensor programs of `compiled.py`: model, batch, loss, optimizer, and the work in a step.

Model and loss are written once, for gradwalk and PyTorch alike, as a user writes them; three of
the networks are those of `networks.py`. `in_jax.py` has the same programs in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from harness import Bar
from models import HEADS, LAYERS, NETWORKS, TIME, VOCABULARY, WIDTH, Batch, Network, adam, adamw

Loss = Callable[[Any, Any, Any, Any], Any]  # library, model, inputs, labels

NO_BAR = Bar()


@dataclass(frozen=True)
class Problem:
    """A training step, the required ratio to the fastest peer, and its work."""

    network: Network
    loss: Loss
    flops: float = 0.0  # multiplications and additions of its matrix products and convolutions
    must_reach: Bar = NO_BAR
    aim: float = 1.0

    @property
    def title(self) -> str:
        return self.network.title


def moons_mlp(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)
    )


def two_moons(source: np.random.Generator) -> Batch:
    labels = source.integers(0, 2, 100)
    angles = np.pi * (source.random(100) + labels)
    points = np.stack([np.cos(angles) + labels - 0.5, np.sin(angles) + 0.5 * labels], 1)
    return points + 0.1 * source.standard_normal((100, 2)), labels


def tanh_field(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )


def driven_oscillator(source: np.random.Generator) -> Batch:
    """Points in time, and the force at each."""
    times = source.uniform(-1, 1, (1024, 1))
    return times, np.sin(3 * times).astype(np.float32)


def lenet(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def cross_entropy(library: Any, model: Any, inputs: Any, labels: Any) -> Any:
    return library.nn.functional.cross_entropy(model(inputs), labels)


def equation(library: Any, model: Any, times: Any, force: Any) -> Any:
    """The residual of u'' + u = force at every point."""
    times = times.detach().requires_grad_()
    u = model(times)  # (points, 1)
    # Each u depends only on its own time, so the gradient of the sum holds all the derivatives.
    (speed,) = library.autograd.grad(u.sum(), times, create_graph=True)
    (acceleration,) = library.autograd.grad(speed.sum(), times, create_graph=True)
    return ((acceleration + u - force) ** 2).mean()


def dense_flops(batch: int, *widths: int) -> float:
    """Forward, and backward by weights and inputs, without the gradient of the batch."""
    products = [2.0 * batch * inputs * outputs for inputs, outputs in pairwise(widths)]
    return 3 * sum(products) - products[0]


def lstm_flops() -> float:
    gates, steps, batch = 4 * 64, 40, 32
    by_input = 2.0 * steps * batch * 32 * gates
    by_hidden = 2.0 * steps * batch * 64 * gates
    return 2 * by_input + 3 * by_hidden + 3 * 2.0 * batch * 64 * 10


def lenet_flops() -> float:
    batch, window = 64, 5 * 5
    first = 2.0 * batch * 24 * 24 * 16 * window
    second = 2.0 * batch * 8 * 8 * 32 * window * 16
    return 2 * first + 3 * second + 3 * 2.0 * batch * 512 * 10


def gpt_flops() -> float:
    batch = 12
    rows = batch * TIME
    block = 2.0 * rows * WIDTH * (3 + 1 + 4 + 4) * WIDTH  # qkv, project, and the two of the MLP
    pairs = TIME * (TIME + 1) / 2  # of a query and a key it may attend to
    attention = 2 * 2.0 * batch * HEADS * pairs * (WIDTH // HEADS)  # scores, and their mixture
    return 3 * (LAYERS * (block + attention) + 2.0 * rows * WIDTH * VOCABULARY)


PROBLEMS = {
    "moons": Problem(
        Network("moons 2-16-16-2, batch 100, AdamW", moons_mlp, two_moons, adamw),
        cross_entropy,
        flops=dense_flops(100, 2, 16, 16, 2),
        must_reach=Bar(lowest=5),
        aim=8,
    ),
    "pinn": Problem(
        Network("PINN 1-32-32-1, 1024 points, Adam", tanh_field, driven_oscillator, adam),
        equation,
        # Value, first and second derivative pass through the layers, forward and backward.
        flops=3 * dense_flops(1024, 1, 32, 32, 1),
        must_reach=Bar(lowest=1.5),
        aim=3,
    ),
    "lstm": Problem(
        NETWORKS["lstm"],
        cross_entropy,
        flops=lstm_flops(),
        must_reach=Bar(lowest=1.2),
        aim=2,
    ),
    "cnn": Problem(
        Network(
            "CNN 1-16-32, 5 × 5, on 28 × 28, batch 64, AdamW",
            lenet,
            lambda source: (source.random((64, 1, 28, 28)), source.integers(0, 10, 64)),
            adamw,
        ),
        cross_entropy,
        flops=lenet_flops(),
        must_reach=Bar(lowest=1.0),
        aim=1.5,
    ),
    "gpt": Problem(
        NETWORKS["gpt"],
        cross_entropy,
        flops=gpt_flops(),
        must_reach=Bar(lowest=1.1),
        aim=1.4,
    ),
    "mlp": Problem(
        NETWORKS["mlp"],
        cross_entropy,
        flops=dense_flops(128, 784, 512, 512, 10),
        must_reach=Bar(lowest=1.0),
        aim=1.2,
    ),
}
