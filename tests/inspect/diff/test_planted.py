"""Ten planted differences in GPT-2 ported by hand: the first differing operation is named."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
import gradwalk.torch
from gradwalk.inspect.diff.answer import TraceDifference
from tests.inspect.diff.ports import PortedGPT2

ENGINES = ("torch", "gradwalk")
# What is planted -> the ops that may be named, the text of the line, a word of the reason.
PLANTED = {
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


@functools.cache
def reference() -> tuple[gw.Trace, dict[str, Any], Any]:
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
    with gradwalk.torch.record(keep="all") as trace:
        model(words, labels=words).loss.backward()
    weights = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    return trace, weights, words


def ported(engine: str, plan: str) -> gw.Trace:
    """The port, recorded."""
    _, weights, words = reference()
    if plan == "tied weights":
        noise = np.random.default_rng(0).standard_normal(weights["lm_head.weight"].shape)
        weights = weights | {"lm_head.weight": (weights["lm_head.weight"] + noise).astype("f")}
    torch.manual_seed(0)
    gw.manual_seed(0)
    if engine == "torch":
        model = PortedGPT2(torch, torch.nn.functional, weights, plan)
        with gradwalk.torch.record(keep="all") as trace:
            model(words).backward()
    else:
        model = PortedGPT2(gw, gw.nn.functional, weights, plan)
        with gw.record(keep="all") as trace:
            model(gw.tensor(words.numpy())).backward()
    return trace


def difference(engine: str, plan: str) -> TraceDifference:
    """The port beside the reference."""
    found: TraceDifference = gw.diff(reference()[0], ported(engine, plan))
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_faithful_port_differs_nowhere(engine: str) -> None:
    answer = difference(engine, "")
    assert answer.equal and not answer.first and not answer.findings
    assert "No operation differs by more than rounding" in str(answer)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", PLANTED)
def test_the_first_differing_operation_is_named(engine: str, plan: str) -> None:
    answer = difference(engine, plan)
    ops, line, reason = PLANTED[plan]
    first = answer.first
    assert first is not None and first.b is not None and first.b.line is not None
    assert first.b.op in ops
    assert line in first.b.line.text
    assert reason in first.why
    assert all(len(row) <= 80 for row in str(answer).splitlines())
