"""Mixtures against PyTorch's: densities, moments, gradients, draws, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3, 4))
MEANS = RNG.normal(size=(3, 4))
VECTORS = RNG.normal(size=(3, 4, 2))


def mixture(engine: Any, kind: str) -> tuple[Any, list[Any]]:
    """A mixture of numbers or of vectors, or with the same weights in the whole batch."""
    weights = engine.tensor(WEIGHTS[0] if kind == "shared" else WEIGHTS, requires_grad=True)
    means = engine.tensor(VECTORS if kind == "vectors" else MEANS, requires_grad=True)
    d = engine.distributions
    parts = d.Normal(means, 0.5)
    if kind == "vectors":
        parts = d.Independent(parts, 1)
    return d.MixtureSameFamily(d.Categorical(logits=weights), parts), [weights, means]


def results(engine: Any, kind: str) -> list[Any]:
    """Values, each followed by its gradients."""
    made, leaves = mixture(engine, kind)
    x = engine.tensor(VECTORS[:, 0] + 0.3 if kind == "vectors" else MEANS[:, 0] + 0.3)
    found = [made.log_prob(x), made.mean, made.variance, made.stddev]
    if kind != "vectors":
        found.append(made.cdf(x))
    with_gradients = []
    for value in found:
        slopes = engine.autograd.grad(value.sum(), leaves, retain_graph=True, allow_unused=True)
        with_gradients += [value, *(slope for slope in slopes if slope is not None)]
    expanded = made.expand((2, 3))
    return [*with_gradients, expanded.log_prob(x), expanded.mean]


@pytest.mark.parametrize("kind", ["numbers", "vectors", "shared"])
def test_densities_and_moments(kind: str) -> None:
    ours, theirs = results(gw, kind), results(torch, kind)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert tuple(mine.shape) == tuple(other.shape)
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), 1e-9, 1e-11)


@pytest.mark.parametrize("kind", ["numbers", "vectors"])
def test_draws(kind: str) -> None:
    (made, _), (other, _) = mixture(gw, kind), mixture(torch, kind)
    gw.manual_seed(1, like="torch")
    torch.manual_seed(1)
    try:
        drawn = made.sample((5000,))
    finally:
        gw.manual_seed(0, like="gradwalk")
    expected = other.sample((5000,))
    assert tuple(drawn.shape) == tuple(expected.shape) and not drawn.requires_grad
    sigma = made.stddev.detach() / 5000**0.5
    assert ((drawn.mean(0) - made.mean.detach()).abs() < 5 * sigma).all()
    np.testing.assert_allclose(drawn.numpy(), expected.numpy(), 1e-9, 1e-9)


def test_refusals() -> None:
    d = gw.distributions
    weights, parts = d.Categorical(gw.ones(3)), d.Normal(gw.zeros(3), 1.0)
    for wrong in ((parts, parts), (weights, weights.probs), (weights, d.Normal(gw.zeros(2), 1.0))):
        with pytest.raises(ValueError, match="MixtureSameFamily"):
            d.MixtureSameFamily(*wrong)
    with pytest.raises(NotImplementedError, match="no rsample"):
        d.MixtureSameFamily(weights, parts).rsample()
