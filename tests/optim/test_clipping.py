"""Gradients are clipped as PyTorch clips them."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.nn import utils


def parameters(library: Any, scale: float = 1.0) -> list[Any]:
    source = np.random.default_rng(3)
    found = []
    for shape in ((3, 4), (5,), ()):
        p = library.tensor(np.zeros(shape), requires_grad=True)
        p.grad = library.tensor(np.asarray(source.standard_normal(shape)) * scale)
        found.append(p)
    found.append(library.tensor(np.zeros(2), requires_grad=True))  # without a gradient
    return found


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e3])
def test_norm(max_norm: float, norm_type: float) -> None:
    ours, theirs = parameters(gw), parameters(torch)
    norm = utils.clip_grad_norm_(ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-12)
    for mine, theirs_ in zip(ours[:3], theirs):
        np.testing.assert_allclose(mine.grad.numpy(), theirs_.grad.numpy(), rtol=1e-12)


def test_value() -> None:
    ours, theirs = parameters(gw), parameters(torch)
    utils.clip_grad_value_(ours, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    for mine, expected in zip(ours[:3], theirs):
        np.testing.assert_array_equal(mine.grad.numpy(), expected.grad.numpy())


def test_a_norm_that_is_not_finite() -> None:
    p = gw.zeros(2, requires_grad=True)
    p.grad = gw.tensor([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="nan"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    utils.clip_grad_norm_(p, 1.0)
    assert bool(np.isnan(p.grad.numpy()).all())
    p.grad = gw.tensor([math.inf, 1.0])
    utils.clip_grad_norm_(p, 1.0)
    assert p.grad.numpy()[1] == 0


def test_large_float32_numbers_do_not_overflow() -> None:
    p = gw.zeros(2, requires_grad=True)
    p.grad = gw.tensor([3e30, 4e30])
    assert utils.clip_grad_norm_(p, 1.0).item() == pytest.approx(5e30)
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-6)


def test_nothing_to_clip() -> None:
    assert utils.clip_grad_norm_([gw.zeros(2, requires_grad=True)], 1.0).item() == 0
    assert utils.get_total_norm([]).item() == 0
