"""Planted differences in networks ported by hand: the first differing operation is named."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
import gradwalk.torch
from gradwalk.inspect.diff.answer import TraceDifference
from tests.inspect.diff.ports import PortedGPT2, PortedResNet

ENGINES = ("torch", "gradwalk")
# What is planted -> the ops that may be named, the text of the line, a word of the reason.
IN_GPT2 = {
    "transposed weight": (("matmul",), "c_proj.weight", "transposed"),
    "another epsilon": (("add",), "spread + eps", "1e-05 in A and 1e-06 in B"),
    "gelu": (("gelu",), "gelu(h", "B gelu"),
    "attention scale": (("div",), "math.sqrt(size)", "div"),
    "dropout left on": (("div", "mul"), "dropout(h", "dropout is on"),
    "another reduction": (("nll_loss", "cross_entropy"), "reduction=reduction", "14 × A's"),
    "layer order": (("mul",), 'weights[at + ".weight"]', "which is transformer.h.1.ln_1.weight"),
    "dtype": (("cast",), "float16", "B has float16 from here on, and A float32"),
    "tied weights": (("matmul",), "HERE tied weights", "tied"),
}
IN_RESNET = {
    "transposed weight": (("conv",), "functional.conv2d", "transposed"),
    "another epsilon": (("add",), "spread + eps", "1e-05 in A and 0.001 in B"),
    "relu before the sum": (("relu",), "h.relu() + x", "relu"),
    "another pooling": (("amax",), "x.amax", "amax"),
    "dropout left on": (("div", "mul"), "dropout(h", "dropout is on"),
    "another reduction": (("nll_loss", "cross_entropy"), "reduction=reduction", "4 × A's"),
    "layer order": (("conv",), "functional.conv2d", "which is blocks.1.conv1.weight"),
    "dtype": (("cast",), "float16", "B has float16 from here on, and A float32"),
}


@functools.cache
def gpt2() -> tuple[gw.Trace, dict[str, Any], Any]:
    """The GPT-2 of `transformers`, recorded, with its weights and its input."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
        eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    words = torch.randint(0, 40, (2, 8))
    trace = torch_trace(lambda: model(words, labels=words).loss)
    return trace, {name: t.numpy().copy() for name, t in model.state_dict().items()}, words


class ResNet(torch.nn.Module):
    """The network that `PortedResNet` is a port of."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), norm(8)
        self.blocks = torch.nn.ModuleList(Block(8) for _ in range(2))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


class Block(torch.nn.Module):
    """Two convolutions and a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = norm(width), norm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(h)) + x)


def norm(width: int) -> torch.nn.BatchNorm2d:
    """A batch norm that has seen data."""
    layer = torch.nn.BatchNorm2d(width)
    for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
        assert tensor is not None
        torch.nn.init.uniform_(tensor, 0.5, 1.5)
    return layer


@functools.cache
def resnet() -> tuple[gw.Trace, dict[str, Any], tuple[Any, Any]]:
    """The network, recorded, with its weights and its input."""
    model = ResNet().eval()
    images, labels = torch.randn(4, 3, 6, 6), torch.randint(0, 5, (4,))
    trace = torch_trace(lambda: torch.nn.functional.cross_entropy(model(images), labels))
    weights = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    return trace, weights, (images, labels)


def torch_trace(run: Callable[[], Any]) -> gw.Trace:
    """A PyTorch loss and its backward pass."""
    with gradwalk.torch.record(keep="all") as trace:
        run().backward()
    return trace


def own_trace(run: Callable[[], Any]) -> gw.Trace:
    """The same of gradwalk."""
    with gw.record(keep="all") as trace:
        run().backward()
    return trace


def ported_gpt2(engine: str, plan: str, rope: bool = False) -> gw.Trace:
    """The port, recorded."""
    _, weights, words = gpt2()
    if plan == "tied weights":
        noise = np.random.default_rng(0).standard_normal(weights["lm_head.weight"].shape)
        weights = weights | {"lm_head.weight": (weights["lm_head.weight"] + noise).astype("f")}
    torch.manual_seed(0)
    gw.manual_seed(0)
    if engine == "torch":
        model = PortedGPT2(torch, torch.nn.functional, weights, plan, rope)
        return torch_trace(lambda: model(words))
    model = PortedGPT2(gw, gw.nn.functional, weights, plan, rope)
    return own_trace(lambda: model(gw.tensor(words.numpy())))


def ported_resnet(engine: str, plan: str) -> gw.Trace:
    """The port, recorded."""
    _, weights, given = resnet()
    torch.manual_seed(0)
    gw.manual_seed(0)
    if engine == "torch":
        model = PortedResNet(torch, torch.nn.functional, weights, plan)
        return torch_trace(lambda: model(*given))
    model = PortedResNet(gw, gw.nn.functional, weights, plan)
    return own_trace(lambda: model(*(gw.tensor(x.numpy()) for x in given)))


def check_equal(answer: TraceDifference) -> None:
    """Nothing is named."""
    assert answer.equal and answer.first is None and not answer.findings, answer
    assert "No operation differs by more than rounding" in str(answer)


def check_named(answer: TraceDifference, ops: tuple[str, ...], line: str, reason: str) -> None:
    """The first difference is this one."""
    first = answer.first
    assert first is not None and first.b is not None and first.b.line is not None
    assert first.b.op in ops, answer
    assert line in first.b.line.text, answer
    assert reason in first.why, answer
    assert all(len(row) <= 80 for row in str(answer).splitlines())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_faithful_gpt2_differs_nowhere(engine: str) -> None:
    check_equal(gw.diff(gpt2()[0], ported_gpt2(engine, "")))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", IN_GPT2)
def test_differences_in_gpt2(engine: str, plan: str) -> None:
    check_named(gw.diff(gpt2()[0], ported_gpt2(engine, plan)), *IN_GPT2[plan])


@pytest.mark.parametrize("engine", ENGINES)
def test_rope_applied_twice(engine: str) -> None:
    reference = ported_gpt2("torch", "", rope=True)
    check_equal(gw.diff(reference, ported_gpt2(engine, "", rope=True)))
    answer = gw.diff(reference, ported_gpt2(engine, "rope twice", rope=True))
    first = answer.first
    assert first is not None and first.kind == "extra" and first.b is not None
    assert "_turned" in str(first.b.line) or "one * cos" in str(first.b.line), answer
    assert "mul" in first.why


@pytest.mark.parametrize("engine", ENGINES)
def test_a_faithful_resnet_differs_nowhere(engine: str) -> None:
    check_equal(gw.diff(resnet()[0], ported_resnet(engine, "")))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", IN_RESNET)
def test_differences_in_resnet(engine: str, plan: str) -> None:
    check_named(gw.diff(resnet()[0], ported_resnet(engine, plan)), *IN_RESNET[plan])


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_are_mapped_by_value(engine: str) -> None:
    answer = gw.diff(gpt2()[0], ported_gpt2(engine, ""))
    mapped = {one.a: one for one in answer.weights}
    assert mapped["transformer.h.0.attn.c_attn.weight"].how == "transposed"
    assert mapped["transformer.h.0.attn.c_proj.weight"].how == "same"
    assert not [one for one in answer.weights if one.how == "missing"]
