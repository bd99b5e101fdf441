"""Whole models, built from `nn` of either library by the same lines, with PyTorch's weights.

PyTorch's random weights come through a safetensors file that its own tools wrote. Outputs, loss
and every parameter's gradient are equal to 1e-9 in float64 and 1e-4 in float32.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import gradwalk as gw
from tests.nn.twins import DOUBLE, SINGLE, assert_equal, compare_parameters, flat, twins

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 61, 16, 32, 4, 3


def library_of(nn: ModuleType) -> ModuleType:
    return torch if nn is torch.nn else gw


def gpt2(nn: ModuleType) -> Any:
    """GPT-2 as its authors drew it: learned positions, norms first, tanh GELU, tied head."""
    lib = library_of(nn)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
            self.c_proj = nn.Linear(WIDTH, WIDTH)
            mask = lib.from_numpy(np.tril(np.ones((CONTEXT, CONTEXT), bool)))
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            q, k, v = (
                part.reshape(batch, time, HEADS, -1).transpose(1, 2)
                for part in self.c_attn(x).split(WIDTH, dim=2)
            )
            scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
            scores = scores.masked_fill(~self.mask[:time, :time], -math.inf)
            out = nn.functional.softmax(scores, dim=-1) @ v
            return self.c_proj(out.transpose(1, 2).reshape(batch, time, WIDTH))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1 = nn.LayerNorm(WIDTH)
            self.attn = Attention()
            self.ln_2 = nn.LayerNorm(WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH)
            )
            self.drop = nn.Dropout(0.0)

        def forward(self, x: Any) -> Any:
            x = x + self.drop(self.attn(self.ln_1(x)))
            return x + self.drop(self.mlp(self.ln_2(x)))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(VOCABULARY, WIDTH),
                    wpe=nn.Embedding(CONTEXT, WIDTH),
                    h=nn.ModuleList([Block() for _ in range(LAYERS)]),
                    ln_f=nn.LayerNorm(WIDTH),
                )
            )
            self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.lm_head.weight = self.transformer["wte"].weight
            self.apply(self._initialise)

        def _initialise(self, module: Any) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0.0, 0.2)

        def forward(self, tokens: Any) -> Any:
            parts = self.transformer
            x = parts["wte"](tokens) + parts["wpe"](lib.arange(tokens.shape[1]))
            for block in parts["h"]:
                x = block(x)
            return self.lm_head(parts["ln_f"](x))

    return GPT()


def encoder_layer(nn: ModuleType, **options: Any) -> Any:
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, **options)


def residual_block(nn: ModuleType) -> Any:
    """A stem and two blocks of a ResNet, one of them with a projection in its shortcut."""

    class Block(nn.Module):
        def __init__(self, channels: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.downsample = None
            if stride != 1 or channels != out:
                self.downsample = nn.Sequential(
                    nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
                )

        def forward(self, x: Any) -> Any:
            same = x if self.downsample is None else self.downsample(x)
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(out + same)

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


def bidirectional_lstm(nn: ModuleType) -> Any:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 12, padding_idx=0)
            self.lstm = nn.LSTM(12, 16, num_layers=2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 5)

        def forward(self, tokens: Any) -> Any:
            out, _ = self.lstm(self.embedding(tokens))
            return self.head(out)

    return Tagger()


def tokens(source: np.random.Generator, high: int, *shape: int) -> np.ndarray:
    return source.integers(0, high, shape)


MODELS = {
    "gpt-2": (
        gpt2,
        lambda s: tokens(s, VOCABULARY, 2, CONTEXT),
        lambda s: tokens(s, VOCABULARY, 2, CONTEXT),
    ),
    "encoder layer": (
        encoder_layer,
        lambda s: s.standard_normal((3, 7, 32)),
        lambda s: tokens(s, 32, 3, 7),
    ),
    "encoder layer, norm first": (
        lambda nn: encoder_layer(nn, activation="gelu", norm_first=True),
        lambda s: s.standard_normal((3, 7, 32)),
        lambda s: tokens(s, 32, 3, 7),
    ),
    "residual block": (
        residual_block,
        lambda s: s.standard_normal((4, 3, 12, 12)),
        lambda s: tokens(s, 5, 4),
    ),
    "bidirectional LSTM": (
        bidirectional_lstm,
        lambda s: tokens(s, VOCABULARY, 3, 9),
        lambda s: tokens(s, 5, 3, 9),
    ),
}


def through_file(theirs: Any, path: Path) -> dict[str, gw.Tensor]:
    """PyTorch's weights as a safetensors file gives them to us."""
    state = theirs.state_dict()
    places = [value.data_ptr() for value in state.values() if value.numel()]
    if len(set(places)) == len(places):
        safetensors.torch.save_file(state, path)
    else:  # save_file refuses tied weights; this writes them once
        safetensors.torch.save_model(theirs, str(path))
    loaded = gw.load(path)
    assert set(loaded) == set(state)
    for name, value in loaded.items():
        assert value.numpy().dtype == state[name].numpy().dtype, name
        np.testing.assert_array_equal(value.numpy(), state[name].numpy(), err_msg=name)
    return loaded


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_model_equals_pytorchs(name: str, dtype: str, train: bool, tmp_path: Path) -> None:
    make, draw_input, draw_target = MODELS[name]
    tolerance = DOUBLE if dtype == "float64" else SINGLE
    file = tmp_path / "weights.safetensors"
    pair = twins(make, dtype, move=lambda theirs: through_file(theirs, file))
    ours, theirs = (model.train(train) for model in pair)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    source = np.random.default_rng(0)
    for _ in range(2):  # the second time with what batch norm remembers of the first
        x, y = draw_input(source), draw_target(source)
        x = x if x.dtype.kind == "i" else x.astype(dtype)
        losses = []
        for lib, model in ((gw, ours), (torch, theirs)):
            model.zero_grad()
            logits = model(lib.from_numpy(x))
            classes = logits.shape[-1]
            rows, target = logits.reshape(-1, classes), lib.from_numpy(y).reshape(-1)
            losses.append((logits, lib.nn.functional.cross_entropy(rows, target)))
            losses[-1][1].backward()
        for mine, other in zip(flat(losses[0]), flat(losses[1])):
            assert_equal(mine, other, "logits and loss", tolerance)
        assert all(p.grad is not None for p in theirs.parameters())
        compare_parameters(ours, theirs, tolerance)


def test_tied_weights_are_still_tied_after_loading(tmp_path: Path) -> None:
    ours, theirs = twins(gpt2, move=lambda theirs: through_file(theirs, tmp_path / "gpt2"))
    with safetensors.safe_open(tmp_path / "gpt2", "np") as file:
        names = set(file.keys())
    assert len(theirs.state_dict().keys() - names) == 1  # the file holds the matrix once
    assert ours.lm_head.weight is ours.transformer["wte"].weight


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_go_back_to_pytorch(name: str, dtype: str, tmp_path: Path) -> None:
    make = MODELS[name][0]
    ours, theirs = make(gw.nn).to(getattr(gw, dtype)), make(torch.nn).to(getattr(torch, dtype))
    gw.save(ours.state_dict(), tmp_path / "weights.safetensors")
    state = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert not any(theirs.load_state_dict(state))
    arrived = theirs.state_dict()
    assert list(arrived) == list(ours.state_dict())
    for key, value in ours.state_dict().items():
        assert arrived[key].numpy().dtype == value.numpy().dtype, key
        assert arrived[key].numpy().tobytes() == value.numpy().tobytes(), key
