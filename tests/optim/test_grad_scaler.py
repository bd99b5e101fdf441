"""GradScaler does what PyTorch's does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def run(library: Any, slopes: list[float], interval: int) -> tuple[list[float], list[float], Any]:
    """Weights and scales of some steps, whose unscaled gradients are given."""
    w = library.tensor([1.0], requires_grad=True)
    optimizer = library.optim.SGD([w], lr=0.1)
    scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=interval)
    weights, scales = [], []
    for number, slope in enumerate(slopes):
        optimizer.zero_grad()
        scaler.scale((w * slope).sum()).backward()
        if number % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        weights.append(w.item())
        scales.append(scaler.get_scale())
    return weights, scales, scaler


def test_as_pytorch() -> None:
    slopes = [1.0, 2.0, float("inf"), 0.5, float("nan"), 1.0, 1.0, 1.0, 1.0, 3.0]
    mine, theirs = run(gw, slopes, 2), run(torch, slopes, 2)
    np.testing.assert_allclose(mine[0], theirs[0], 1e-6)
    assert mine[1] == theirs[1]
    state, expected = mine[2].state_dict(), theirs[2].state_dict()
    assert state == expected
    again = gw.amp.GradScaler("cpu")
    again.load_state_dict(expected)
    assert again.state_dict() == state


def test_options() -> None:
    scaler, theirs = gw.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu")
    for name, value in {"growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 7}.items():
        assert getattr(scaler, f"get_{name}")() == getattr(theirs, f"get_{name}")()
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value
    scaler.update(4.0)
    assert scaler.get_scale() == 4 and scaler.is_enabled()


def test_not_enabled_it_does_nothing() -> None:
    w = gw.ones(1, requires_grad=True)
    optimizer, scaler = gw.optim.SGD([w], lr=1.0), gw.amp.GradScaler(enabled=False)
    scaler.scale((w * 0.25).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 0.75
    assert scaler.state_dict() == {} and scaler.get_scale() == 1


def test_misuse_raises() -> None:
    w = gw.ones(1, requires_grad=True)
    optimizer, scaler = gw.optim.SGD([w], lr=1.0), gw.amp.GradScaler("cpu")
    with pytest.raises(RuntimeError, match="before"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after"):
        scaler.unscale_(optimizer)
    half = gw.ones(1, dtype=gw.float16, requires_grad=True)
    half.grad = gw.ones(1, dtype=gw.float16)
    with pytest.raises(ValueError, match="float16"):
        gw.amp.GradScaler("cpu").unscale_(gw.optim.SGD([half], lr=1.0))
    with pytest.raises(Exception, match="compiled function"):
        gw.compile(lambda x: gw.amp.GradScaler("cpu").scale(x.sum()))(gw.ones(2))
