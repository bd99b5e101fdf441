"""Traces for the tests of the page: a transformer of any size, recorded with gradwalk itself."""

from __future__ import annotations

from typing import Any

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect.trace.trace import Trace

OPERATIONS = 28  # of one block


class Block(nn.Module):
    """Attention and a perceptron, written out in the usual way."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, time, width = x.shape
        n = self.norm1(x)
        size = width // self.heads

        def head(layer: Any) -> Any:
            return layer(n).reshape(batch, time, self.heads, size).transpose(1, 2)

        q, k, v = head(self.q), head(self.k), head(self.v)
        weights = gw.softmax(q @ k.transpose(-1, -2) / size**0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, time, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Embeddings, blocks, a head."""

    def __init__(self, blocks: int, width: int = 16, vocabulary: int = 160, time: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(time, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens) + self.place(gw.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def transformer(blocks: int, keep: str = "stats") -> Trace:
    """A step of training: forward, loss, backward."""
    gw.manual_seed(0)
    model = GPT(blocks)
    tokens = gw.randint(0, 160, (2, 8))
    with gw.record(keep=keep) as trace:
        logits = model(tokens).reshape(-1, 160)
        nn.functional.cross_entropy(logits, tokens.reshape(-1)).backward()
    return trace


class Deep(nn.Module):
    """Many layers, each of which enlarges its input."""

    def __init__(self, layers: int, factor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))
        self.factor = factor

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x) * self.factor
        return x


def exploding() -> Trace:
    """Gradients of 10¹⁵ and more: wide numbers."""
    gw.manual_seed(0)
    model = Deep(24, 12.0)
    with gw.record() as trace:
        model(gw.randn(8, 16)).mean().backward()
    return trace


def made_inside() -> Trace:
    """A model created in the recording, so its initialization is recorded too."""
    with gw.record() as trace:
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        model(gw.ones(16, 4)).square().mean().backward()
    return trace


def not_a_number() -> Trace:
    """The square root of a layer's negative output: NaN."""
    gw.manual_seed(0)
    layer = nn.Linear(4, 4)
    with gw.record() as trace:
        (layer(gw.randn(8, 4)) - 10).sqrt().mean().backward()
    return trace
