"""A GPT-2 of `transformers` in training, well or with a NaN planted at step 500, in four ways.

As a program: `python tests/torch/gpt2.py data`, or `... data 60` for another step than the 500th.
`HERE` marks the line to be named.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

BAD_STEP, BAD_ROW = 500, 1
WORDS, WIDTH = 40, 8
Watching = Callable[[nn.Module, torch.optim.Optimizer], Any]


def nobody(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Watch nothing."""


def gpt2(layers: int = 1, **settings: Any) -> GPT2LMHeadModel:
    """Random weights, always the same."""
    # Imported here because it takes seconds: every process that collects tests imports this file.
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.set_verbosity_error()  # it warns about such a small vocabulary
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=WORDS,
        n_positions=16,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        **settings,
    )
    return GPT2LMHeadModel(config)


def sentences(count: int = 1) -> torch.Tensor:
    """Batches of two sentences."""
    torch.manual_seed(1)
    return torch.randint(0, WORDS, (count, 2, 8))


def data(plant: bool, watching: Watching = nobody) -> list[float]:
    """Embedded sentences, one of which contains a NaN."""
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    words = sentences(BAD_STEP + 2)
    embedded = torch.randn(WORDS, WIDTH)[words]
    if plant:
        embedded[BAD_STEP, BAD_ROW, 3] = math.nan
    losses = []
    watching(model, optimizer)
    for x, labels in zip(embedded, words):
        optimizer.zero_grad()
        loss = model(inputs_embeds=x, labels=labels).loss  # HERE
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class RootMeanSquare(nn.Module):
    """A custom normalization in place of a LayerNorm; it counts its calls."""

    def __init__(self, plant: bool) -> None:
        super().__init__()
        self.plant = plant
        self.calls = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.plant and self.calls == BAD_STEP:
            hidden = hidden * (torch.arange(2) != BAD_ROW)[:, None, None]
        self.calls += 1
        return hidden / hidden.square().mean(-1, keepdim=True).sqrt()  # HERE


def module(plant: bool, watching: Watching = nobody) -> list[float]:
    """0 / 0 in a custom module, deep inside the model."""
    model = gpt2()
    model.transformer.h[0].ln_2 = RootMeanSquare(plant)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    watching(model, optimizer)
    for words in sentences(BAD_STEP + 2):
        optimizer.zero_grad()
        loss = model(words, labels=words).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def weight(plant: bool, watching: Watching = nobody) -> list[float]:
    """A weight that something overwrote."""
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    watching(model, optimizer)
    for step, words in enumerate(sentences(BAD_STEP + 2)):
        if plant and step == BAD_STEP:
            model.transformer.h[0].mlp.c_fc.weight.data[3, 4] = math.nan
        optimizer.zero_grad()
        loss = model(words, labels=words).loss  # HERE
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def log_likelihood(plant: bool, watching: Watching = nobody) -> list[float]:
    """log(0) in the user's own loss."""
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    watching(model, optimizer)
    for step, words in enumerate(sentences(BAD_STEP + 2)):
        optimizer.zero_grad()
        chances = model(words).logits[:, :-1].softmax(-1)
        right = chances.gather(-1, words[:, 1:, None])[..., 0]
        if plant and step == BAD_STEP:
            right = right * (torch.arange(2) != BAD_ROW)[:, None]
        loss = -right.log().mean()  # HERE
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


WAYS = {way.__name__: way for way in (data, module, weight, log_likelihood)}

if __name__ == "__main__":
    BAD_STEP = int(sys.argv[2]) if len(sys.argv) > 2 else BAD_STEP
    print("loss", WAYS[sys.argv[1]](plant=True)[-1])
