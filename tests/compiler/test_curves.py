"""Models train to the same curve compiled and eager: those of examples/, of the benchmarks, and
those that tests/nn proves equal to PyTorch's.

Every step is written once and run twice from the same seed, as it is and compiled. Losses agree at
every step to LOSS, relative. Parameters agree at the end to a part of the largest change that
training made: to WEIGHTS, or to LOOSE with Adam and attention. There some gradients are rounding
and nothing else (a bias of the keys changes no score), and Adam divides them by their own size.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from tests.nn.test_proof import bidirectional_lstm, encoder_layer, gpt2, residual_block
from tests.project.checkout import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from models import NETWORKS, start  # a folder of scripts, and no package
from steps.problems import PROBLEMS

F = nn.functional
Batch = tuple[Any, ...]
LOSS, WEIGHTS, LOOSE = 1e-5, 1e-3, 5e-2  # found: 2e-7, 2e-4 and 7e-3


@dataclass
class Training:
    """A model, one step of its training, what each step is given, and what follows it."""

    model: nn.Module
    step: Callable[..., Any]  # returns the loss
    batches: list[Batch]
    after: Callable[[], Any] = lambda: None  # outside of what is compiled, such as a schedule


Make = Callable[[], Training]


def train(make: Make, compiled: bool) -> tuple[list[float], list[np.ndarray], list[np.ndarray]]:
    """The losses, and the parameters before and after."""
    gw.manual_seed(0)
    training = make()
    before = [p.detach().numpy().copy() for p in training.model.parameters()]
    step = gw.compile(training.step) if compiled else training.step
    losses = []
    for batch in training.batches:
        losses.append(float(step(*batch).item()))
        training.after()
    assert not compiled or step.newest.count > 0, "it was not compiled"
    return losses, before, [p.detach().numpy() for p in training.model.parameters()]


def assert_same_curve(make: Make, tolerance: float = WEIGHTS) -> None:
    expected, before, weights = train(make, compiled=False)
    found, _, others = train(make, compiled=True)
    assert expected[0] != pytest.approx(expected[-1], rel=1e-3), "nothing was learnt"
    double = all(w.dtype == np.float64 for w in weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if double else LOSS)
    moved = max(float(np.abs(w - b).max()) for w, b in zip(weights, before, strict=True))
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(
            other, one, rtol=0, atol=(1e-12 if double else tolerance) * moved
        )


# -- examples/ -----------------------------------------------------------------------------------


def example(name: str) -> Any:
    """An example as a module; its `main` is not run."""
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_loader(dataset: Any, size: int, count: int) -> list[Batch]:
    """The first batches of as many epochs as it takes; all of one size."""
    loader = gw.data.DataLoader(dataset, batch_size=size, shuffle=True, drop_last=True)

    def endless() -> Iterator[Batch]:
        while True:
            yield from loader

    batches = endless()
    return [tuple(next(batches)) for _ in range(count)]


def updates(loss_of: Callable[..., Any], optimizer: Any, model: Any = None) -> Any:
    """A training step; of a model that is given, gradients are clipped."""

    def step(*batch: Any) -> Any:
        loss = loss_of(*batch)
        optimizer.zero_grad()
        loss.backward()
        if model is not None:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def moons() -> Training:
    model = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
    )
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
    step = updates(lambda x, y: F.cross_entropy(model(x), y), optimizer)
    return Training(model, step, from_loader(gw.data.moons(500, noise=0.2, seed=0), 50, 40))


def digits() -> Training:
    """Batch norm, dropout, and a learning rate that a schedule moves."""
    model = example("digits").convolutional_network()
    optimizer = gw.optim.AdamW(model.parameters())
    count = 12
    schedule = gw.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.005, total_steps=count + 1)
    data = gw.data.TensorDataset(*gw.data.digits("train")[:128])
    step = updates(lambda x, y: F.cross_entropy(model(x), y), optimizer)
    return Training(model, step, from_loader(data, 32, count), schedule.step)


def digits_vae() -> Training:
    """Noise is drawn in the step."""
    module = example("digits_vae")
    model = module.VAE(2, hidden=64)
    optimizer = gw.optim.Adam(model.parameters(), lr=2e-3)
    data = gw.data.digits("train")
    batches = [(images,) for images, _ in from_loader(data, 64, 20)]
    return Training(
        model, updates(lambda x: sum(module.losses_of(model, x, 1.0)), optimizer), batches
    )


def sequence() -> Training:
    """An LSTM and a network without memory, one optimizer, gradients of one of them clipped."""
    module = example("sequence")
    model = nn.ModuleDict({"lstm": module.Memory(8), "none": module.NoMemory(8)})
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)

    def loss_of(noisy: Any) -> Any:
        return sum(F.mse_loss(m(noisy[:, :-1])[0], noisy[:, 1:]) for m in model.values())

    waves = [module.waves(8, 25) for _ in range(15)]
    batches = [(clean + 0.1 * gw.randn_like(clean),) for clean in waves]
    return Training(model, updates(loss_of, optimizer, model["lstm"]), batches)


def characters() -> Training:
    module = example("characters")
    text = (ROOT / "examples" / "alice.txt").read_text(encoding="utf-8")[:4000]
    data = gw.data.characters(text, 16)
    model = module.GPT(len(set(text)))
    optimizer = gw.optim.AdamW(model.parameters(), lr=0.006, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = gw.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 10))

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    batches = from_loader(data, 4, 12)
    return Training(model, updates(loss_of, optimizer, model), batches, schedule.step)


def oscillator() -> Training:
    """Second derivatives in the loss, in float64 as the example has it."""
    derivative = example("oscillator").derivative
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    net.to(gw.float64)
    times = gw.linspace(0, 2 * math.pi, 32, dtype=gw.float64).reshape(-1, 1).requires_grad_()
    zero = gw.zeros(1, 1, dtype=gw.float64, requires_grad=True)
    optimizer = gw.optim.Adam(net.parameters(), lr=5e-3)

    def loss_of() -> Any:
        u = net(times / math.pi - 1)
        acceleration = derivative(derivative(u, times), times)
        u_start = net(zero / math.pi - 1)
        start = u_start**2 + (derivative(u_start, zero) - 1) ** 2
        return ((acceleration + u) ** 2).sum() + 100 * start.sum()

    return Training(net, updates(loss_of, optimizer), [()] * 25)


EXAMPLES: dict[str, Make] = {
    make.__name__: make for make in (moons, digits, digits_vae, sequence, characters, oscillator)
}


def test_every_example_is_here() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    assert_same_curve(EXAMPLES[name], LOOSE if name == "characters" else WEIGHTS)


# -- the models that tests/nn compares with PyTorch ------------------------------------------------


def drawn(model: nn.Module, inputs: Any, labels: Any, rate: float = 0.05) -> Training:
    """Ten steps on one batch."""
    optimizer = gw.optim.SGD(model.parameters(), lr=rate, momentum=0.9)

    def loss_of(x: Any, y: Any) -> Any:
        out = model(x)
        if y.dtype.kind == "f":
            return F.mse_loss(out, y)
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))

    return Training(model, updates(loss_of, optimizer), [(inputs, labels)] * 10)


PROVED: dict[str, Make] = {
    "gpt-2": lambda: drawn(gpt2(nn), gw.randint(0, 61, (2, 16)), gw.randint(0, 61, (2, 16)), 0.01),
    "encoder layer": lambda: drawn(encoder_layer(nn), gw.randn(3, 7, 32), gw.randn(3, 7, 32)),
    "encoder layer, norm first, gelu": lambda: drawn(
        encoder_layer(nn, norm_first=True, activation="gelu"),
        gw.randn(3, 7, 32),
        gw.randn(3, 7, 32),
    ),
    "residual block": lambda: drawn(
        residual_block(nn), gw.randn(4, 3, 12, 12), gw.randint(0, 5, (4,))
    ),
    "bidirectional lstm": lambda: drawn(
        bidirectional_lstm(nn), gw.randint(0, 61, (3, 9)), gw.randint(0, 5, (3, 9))
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_models_that_equal_pytorchs(name: str) -> None:
    assert_same_curve(PROVED[name])


# -- benchmarks/ -----------------------------------------------------------------------------------


def problem(name: str) -> Make:
    """A row of `python -m benchmarks compiled`, or of `networks`."""

    def cross_entropy(library: Any, model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    known = PROBLEMS.get(name)
    network = NETWORKS[name.partition(" ")[0]] if known is None else known.network
    loss = cross_entropy if known is None else known.loss

    def make() -> Training:
        model, inputs, labels = start(gw, network, "float32")
        x, y = gw.tensor(inputs), gw.tensor(labels)
        optimizer = network.optimizer(gw, model.parameters(), 1e-3)
        step = updates(lambda x, y: loss(gw, model, x, y), optimizer)
        return Training(model, step, [(x, y)] * 6)

    return make


BENCHMARKS = [*PROBLEMS, "cnn on digits"]


def test_every_benchmark_is_here() -> None:
    assert {name.partition(" ")[0] for name in BENCHMARKS} >= NETWORKS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks(name: str) -> None:
    assert_same_curve(problem(name), LOOSE if name == "gpt" else WEIGHTS)
