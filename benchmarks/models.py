"""The four networks of `networks.py`, as a user of gradwalk or of PyTorch writes them.

Each is written once; `library` is one or the other module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]  # inputs and labels

VOCABULARY, TIME, WIDTH, HEADS, LAYERS = 65, 64, 128, 4, 4


@dataclass(frozen=True)
class Network:
    """A model, the batch it learns, and its optimizer."""

    title: str
    model: Callable[[Any], Any]  # library -> module
    batch: Callable[[np.random.Generator], Batch]
    optimizer: Callable[[Any, Any, float], Any]  # library, parameters, learning rate -> optimizer


def mlp(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def digits_cnn(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def sequence_lstm(library: Any) -> Any:
    nn = library.nn

    class SequenceLstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(32, 64, batch_first=True)
            self.head = nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            _, (hidden, _) = self.lstm(x)
            return self.head(hidden[-1])

    return SequenceLstm()


def character_gpt(library: Any) -> Any:
    nn = library.nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.project = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            q, k, v = (
                part.view(batch, time, HEADS, width // HEADS).transpose(1, 2)
                for part in self.qkv(x).split(width, dim=2)
            )  # (batch, heads, time, width / heads)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.project(mixed.transpose(1, 2).reshape(batch, time, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first_norm = nn.LayerNorm(WIDTH)
            self.attention = Attention()
            self.second_norm = nn.LayerNorm(WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first_norm(x))
            return x + self.mlp(self.second_norm(x))

    class CharacterGpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Embedding(TIME, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions(library.arange(tokens.shape[1]))
            logits = self.head(self.norm(self.blocks(x)))  # (batch, time, vocabulary)
            return logits.view(-1, VOCABULARY)  # as cross_entropy expects them

    return CharacterGpt()


def momentum(library: Any, parameters: Any, rate: float) -> Any:
    return library.optim.SGD(parameters, lr=rate, momentum=0.9)


def adam(library: Any, parameters: Any, rate: float) -> Any:
    return library.optim.Adam(parameters, lr=rate)


def adamw(library: Any, parameters: Any, rate: float) -> Any:
    return library.optim.AdamW(parameters, lr=rate)


def images(source: np.random.Generator) -> Batch:
    """Seventeen greys, as in the digits data set."""
    grey = source.integers(0, 17, (64, 1, 8, 8)) / 16
    grey[0] = 0  # gives pooling windows with several largest pixels
    return grey, source.integers(0, 10, 64)


NETWORKS = {
    "cnn": Network("CNN on 8 × 8 digits, batch 64, AdamW", digits_cnn, images, adamw),
    "gpt": Network(
        "GPT, 4 layers, 4 heads, 128 wide, 64 long, batch 12, AdamW",
        character_gpt,
        lambda source: (
            source.integers(0, VOCABULARY, (12, TIME)),
            source.integers(0, VOCABULARY, 12 * TIME),
        ),
        adamw,
    ),
    "lstm": Network(
        "LSTM 32-64, 40 steps, batch 32, Adam",
        sequence_lstm,
        lambda source: (source.standard_normal((32, 40, 32)), source.integers(0, 10, 32)),
        adam,
    ),
    "mlp": Network(
        "MLP 784-512-512-10, batch 128, SGD with momentum",
        mlp,
        lambda source: (source.standard_normal((128, 784)), source.integers(0, 10, 128)),
        momentum,
    ),
}


def drawn_weight(
    source: np.random.Generator, name: str, shape: tuple[int, ...], dtype: str
) -> Array:
    """The initial value of a parameter with this name."""
    fan_in = int(np.prod(shape[1:])) or 1
    drawn = source.uniform(-1, 1, shape) / np.sqrt(fan_in)
    if "norm" in name:
        drawn = 0.1 * drawn + name.endswith("weight")
    return drawn.astype(dtype)


def start(library: Any, network: Network, dtype: str) -> tuple[Any, Array, Array]:
    """The model with the weights every contestant starts from, and the batch, as arrays."""
    source = np.random.default_rng(7)
    model = network.model(library).to(getattr(library, dtype))
    with library.no_grad():
        for name, parameter in model.named_parameters():
            drawn = drawn_weight(source, name, tuple(parameter.shape), dtype)
            parameter.copy_(library.tensor(drawn))
    inputs, labels = network.batch(source)
    if inputs.dtype.kind == "f":
        inputs = inputs.astype(dtype)
    return model, inputs, labels


def training_step(
    library: Any, network: Network, rate: float, dtype: str = "float32"
) -> tuple[Any, Callable[[], float]]:
    """The model and its training step (forward, loss, backward, update), which returns the loss."""
    model, inputs, labels = start(library, network, dtype)
    x, y = library.tensor(inputs), library.tensor(labels)
    optimizer = network.optimizer(library, model.parameters(), rate)

    def step() -> float:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return model, step
