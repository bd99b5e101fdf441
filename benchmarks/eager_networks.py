"""Eager training steps of six common shapes of network against PyTorch; two threads each.

Users write eager code first. Here a convolution, a normalization or a softmax is a call of its own,
and kernels that the eager calls borrow from the compiler must pay one call at a time.

`--check` compares the losses of a few steps instead; a row's name runs only that row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Bar,
    Contestant,
    Measurement,
    Round,
    agreement,
    duration,
    play,
    race,
    ratio_cells,
    seconds_per_step,
    table,
)
from models import adam, drawn_weight, momentum

THREADS = 2
ROUNDS = 9
REST = 0.05  # seconds, until the threads of the previous contestant stop spinning
WARM_UP = 2
ROUND_SECONDS = 0.2
BAR = Bar(highest=1.0)
RATE = 1e-9  # too small to change the work or the answer over the rounds
CHECK_STEPS, CHECK_RATE = 5, 1e-3
CLASSES = 10

Step = Callable[[], float]


class Task(NamedTuple):
    """A training step: what it is called, and how a library makes it."""

    title: str
    step: Callable[[Any, float], Step]


# -- models --------------------------------------------------------------------------------------


def normalized(nn: Any, inputs: int, outputs: int, size: int = 3, **options: int) -> list[Any]:
    """A convolution without bias that keeps the size, then batch normalization."""
    conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **options)
    return [conv, nn.BatchNorm2d(outputs)]


def resnet(library: Any) -> Any:
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *normalized(nn, inputs, outputs, stride=stride),
                nn.ReLU(),
                *normalized(nn, outputs, outputs),
            )
            self.skip = nn.Sequential()
            if stride != 1:
                self.skip = nn.Sequential(*normalized(nn, inputs, outputs, 1, stride=stride))

        def forward(self, x: Any) -> Any:
            return library.relu(self.body(x) + self.skip(x))

    return nn.Sequential(
        *normalized(nn, 3, 16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def mobilenet(library: Any) -> Any:
    nn = library.nn

    class Inverted(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            wide = 4 * inputs
            self.adds = stride == 1 and inputs == outputs
            self.body = nn.Sequential(
                *normalized(nn, inputs, wide, 1),
                nn.ReLU6(),
                *normalized(nn, wide, wide, stride=stride, groups=wide),
                nn.ReLU6(),
                *normalized(nn, wide, outputs, 1),
            )

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.adds else self.body(x)

    return nn.Sequential(
        *normalized(nn, 3, 16),
        nn.ReLU6(),
        Inverted(16, 24, 2),
        Inverted(24, 24, 1),
        Inverted(24, 32, 2),
        Inverted(32, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


def unet(library: Any) -> Any:
    nn = library.nn

    def double(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.ReLU(),
        )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.bottom = double(1, 16), double(16, 32), double(32, 64)
            self.up2, self.up1 = double(64, 32), double(32, 16)
            self.lift2 = nn.ConvTranspose2d(64, 32, 2, stride=2)
            self.lift1 = nn.ConvTranspose2d(32, 16, 2, stride=2)
            self.pool = nn.MaxPool2d(2)
            self.head = nn.Conv2d(16, CLASSES, 1)

        def forward(self, x: Any) -> Any:
            first = self.down1(x)
            second = self.down2(self.pool(first))
            x = self.lift2(self.bottom(self.pool(second)))
            x = self.lift1(self.up2(library.cat([x, second], 1)))
            return self.head(self.up1(library.cat([x, first], 1)))

    return UNet()


def vit(library: Any) -> Any:
    nn = library.nn
    width, heads, patches = 128, 4, 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.project = nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            qkv = self.qkv(self.first_norm(x)).reshape(batch, time, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (batch, heads, time, width / heads) each
            weights = ((q @ k.transpose(-2, -1)) * (width // heads) ** -0.5).softmax(-1)
            x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, time, width))
            return x + self.mlp(self.second_norm(x))

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, stride=4)
            self.positions = nn.Parameter(library.zeros(1, patches, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(4)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
            return self.head(self.norm(self.blocks(x)).mean(1))

    return ViT()


def gru(library: Any) -> Any:
    nn = library.nn

    class Gru(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(64, 64)
            self.gru = nn.GRU(64, 128, num_layers=2, batch_first=True)
            self.head = nn.Linear(128, CLASSES)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.gru(self.tokens(tokens))[0][:, -1])

    return Gru()


def generator(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.ConvTranspose2d(64, 64, 4, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 4),
        nn.Flatten(0),
    )


# -- steps ---------------------------------------------------------------------------------------


def with_weights(library: Any, model: Any, source: np.random.Generator) -> Any:
    """The model with weights that are the same in both libraries."""
    with library.no_grad():
        for name, parameter in model.named_parameters():
            drawn = drawn_weight(source, name, tuple(parameter.shape), "float32")
            if parameter.ndim == 1 and name.endswith("weight"):
                drawn = 1 + 0.1 * drawn  # of a normalization
            parameter.copy_(library.tensor(drawn))
    return model


def classifying(
    network: Callable[[Any], Any], shape: tuple[int, ...], optimizer: Callable[..., Any]
) -> Callable[[Any, float], Step]:
    """A step that learns one class for each image, sequence or pixel."""

    def make(library: Any, rate: float) -> Step:
        source = np.random.default_rng(7)
        model = with_weights(library, network(library), source)
        if network is gru:
            x = library.tensor(source.integers(0, 64, shape))
        else:
            x = library.tensor(source.standard_normal(shape).astype(np.float32))
        pixels = shape[2:] if network is unet else ()
        labels = library.tensor(source.integers(0, CLASSES, (shape[0], *pixels)))
        rule = optimizer(library, model.parameters(), rate)

        def step() -> float:
            rule.zero_grad()
            loss = library.nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            rule.step()
            return float(loss.item())

        return step

    return make


def adversarial(library: Any, rate: float) -> Step:
    """A step of the discriminator, then one of the generator."""
    source = np.random.default_rng(7)
    makes = with_weights(library, generator(library), source)
    judges = with_weights(library, discriminator(library), source)
    batch = 32
    real = library.tensor(source.standard_normal((batch, 3, 32, 32)).astype(np.float32))
    noise = library.tensor(source.standard_normal((batch, 64, 1, 1)).astype(np.float32))
    yes, no = library.ones(batch), library.zeros(batch)
    making, judging = (adam(library, each.parameters(), rate) for each in (makes, judges))
    loss_of = library.nn.BCEWithLogitsLoss()

    def step() -> float:
        judging.zero_grad()
        made = makes(noise)
        judged = loss_of(judges(real), yes) + loss_of(judges(made.detach()), no)
        judged.backward()
        judging.step()
        making.zero_grad()
        fooled = loss_of(judges(made), yes)
        fooled.backward()
        making.step()
        return float(judged.item() + fooled.item())

    return step


TASKS = {
    "resnet": Task(
        "ResNet, 3 blocks, 16-64 channels, 32 × 32, batch 32, momentum",
        classifying(resnet, (32, 3, 32, 32), momentum),
    ),
    "unet": Task(
        "U-Net, 2 levels, 16-64 channels, 64 × 64, batch 8, Adam",
        classifying(unet, (8, 1, 64, 64), adam),
    ),
    "mobilenet": Task(
        "MobileNet, 4 blocks, depthwise, 32 × 32, batch 32, momentum",
        classifying(mobilenet, (32, 3, 32, 32), momentum),
    ),
    "vit": Task(
        "ViT, 4 layers, 128 wide, 64 patches, batch 16, Adam",
        classifying(vit, (16, 3, 32, 32), adam),
    ),
    "gru": Task(
        "GRU, 2 layers, 128 wide, 32 steps, batch 32, Adam", classifying(gru, (32, 32), adam)
    ),
    "gan": Task("DCGAN, 16-64 channels, 32 × 32, batch 32, Adam", adversarial),
}


# -- the race ------------------------------------------------------------------------------------


def made(library: str, name: str, rate: float) -> Step:
    module = import_module(library)
    if library == "torch":
        module.set_num_threads(THREADS)
    return TASKS[name].step(module, rate)


def contestant(library: str, name: str) -> Round:
    step = made(library, name, RATE)
    for _ in range(10 * WARM_UP):
        step()
    repeats = max(2, int(ROUND_SECONDS / seconds_per_step(step, WARM_UP)["seconds"]))

    def one_round() -> Measurement:
        time.sleep(REST)
        for _ in range(WARM_UP):
            step()
        return seconds_per_step(step, repeats)

    return one_round


CONTESTANTS: dict[str, Contestant] = {
    f"{name} {library}": partial(contestant, library, name)
    for name in TASKS
    for library in ("gradwalk", "torch")
}


def report(names: Sequence[str]) -> None:
    rows, agreements = [], []
    for name in names:
        both = [f"{name} {library}" for library in ("gradwalk", "torch")]
        ours, theirs = race(both, ROUNDS, threads=THREADS).values()
        times = [duration(each["seconds"]) for each in (ours, theirs)]
        ratio = ours["seconds"] / theirs["seconds"]
        rows.append([TASKS[name].title, *times, *ratio_cells(ratio, BAR)])
        agreements.append(agreement(ours, theirs))
    table(
        f"Eager: one training step in float32, {THREADS} threads",
        ["", "gradwalk", "PyTorch", "ratio", "bar", ""],
        rows,
    )
    print("\n".join(agreements))


def check(names: Sequence[str]) -> None:
    """Print the losses of a few real training steps."""
    for name in names:
        rows = []
        for library in ("gradwalk", "torch"):
            step = made(library, name, CHECK_RATE)
            rows.append([library, ", ".join(f"{step():.6f}" for _ in range(CHECK_STEPS))])
        table(TASKS[name].title, ["", "losses"], rows)


if __name__ == "__main__":
    play(CONTESTANTS, report, check, list(TASKS))
