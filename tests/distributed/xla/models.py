"""Models whose runs are compared: an MLP, a CNN with batch norm, a GPT with dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F

WIDTH, HEADS, WORDS, TIME = 16, 4, 24, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.project = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Any) -> Any:
        batch, time, _ = x.shape
        h = self.norm1(x)
        query, key, value = (
            part(h).view(batch, time, HEADS, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1, is_causal=True)
        x = x + self.dropout(self.project(out.transpose(1, 2).reshape(batch, time, WIDTH)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(TIME, WIDTH)
        self.blocks = nn.Sequential(Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Any) -> Any:
        places = gw.arange(words.shape[1], device=words.device)
        x = self.word(words) + self.place(places)
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(32, 3),
    )  # fmt: skip


def batches(name: str, dtype: Any, count: int) -> Any:
    """Batches of 16 samples; their tensors on the CPU."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, 16 * count)
    if name == "gpt":
        text = draw.integers(0, WORDS, (16 * count, TIME + 1))
        return gw.data.TensorDataset(gw.tensor(text[:, :-1]), gw.tensor(text[:, 1:].copy()))
    shape = (8,) if name == "mlp" else (2, 8, 8)
    inputs = draw.standard_normal((16 * count, *shape)) + labels.reshape(-1, *[1] * len(shape))
    return gw.data.TensorDataset(gw.tensor(inputs.astype(dtype)), gw.tensor(labels))


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": GPT}
# What tensor parallelism divides, by its names; in pairs, so that one sum is needed for each
COLUMNS, ROWS = ("model",), (None, "model")
TENSOR = {
    "mlp": {"0.*": COLUMNS, "2.weight": ROWS},
    "cnn": {"0.*": COLUMNS, "1.*": COLUMNS, "4.weight": ROWS},
    "gpt": {
        "*.query.*": COLUMNS, "*.key.*": COLUMNS, "*.value.*": COLUMNS, "*.project.weight": ROWS,
        "*.mlp.0.*": COLUMNS, "*.mlp.2.weight": ROWS, "word.weight": COLUMNS,
    },
}  # fmt: skip
SHARDED = {
    "mlp": {"2.*": (), "*": ("data",)},
    "cnn": {"8.bias": (), "8.weight": (None, "data"), "*": ("data",)},
    "gpt": {"*": ("data",)},
}
