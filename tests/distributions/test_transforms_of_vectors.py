"""Transforms of vectors, against PyTorch: which dimensions of a slope are summed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

ROWS = np.random.default_rng(2).normal(size=(5, 3, 4))


def rotation(library: Any) -> Any:
    """A linear transform of vectors, as a program defines one: one slope for each vector."""
    d = library.distributions
    matrix = library.tensor(np.random.default_rng(1).normal(size=(4, 4)))

    class Turned(d.transforms.Transform):  # type: ignore[misc, name-defined]
        domain = codomain = d.constraints.real_vector
        bijective = True

        def _call(self, x: Any) -> Any:
            return x @ matrix

        def _inverse(self, y: Any) -> Any:
            return y @ library.linalg.inv(matrix)

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return library.linalg.slogdet(matrix)[1].expand(x.shape[:-1])

    return Turned()


def normal(library: Any, *shape: int) -> Any:
    zeros = library.zeros(*shape, dtype=library.float64)
    return library.distributions.Normal(zeros + 0.3, library.ones_like(zeros) * 1.5)


Made = Callable[[Any], Any]
CASES: dict[str, Made] = {
    "vectors of independent numbers": lambda m: m.distributions.TransformedDistribution(
        m.distributions.Independent(normal(m, 3, 4), 1), [rotation(m)]
    ),
    "numbers that become vectors": lambda m: m.distributions.TransformedDistribution(
        normal(m, 3, 4), rotation(m)
    ),
    "of vectors, then of numbers": lambda m: m.distributions.TransformedDistribution(
        normal(m, 4), [rotation(m), m.distributions.TanhTransform(), rotation(m)]
    ),
    "the inverse": lambda m: m.distributions.TransformedDistribution(
        normal(m, 3, 4), [rotation(m).inv, m.distributions.AffineTransform(1.0, -2.0)]
    ),
    "several together": lambda m: m.distributions.TransformedDistribution(
        normal(m, 3, 4), m.distributions.AffineTransform(1.0, -2.0, event_dim=1)
    ),
    "an independent transform": lambda m: m.distributions.TransformedDistribution(
        normal(m, 3, 4),
        m.distributions.IndependentTransform(m.distributions.SigmoidTransform(), 2),
    ),
    "logistic normal": lambda m: m.distributions.LogisticNormal(
        m.tensor(ROWS[0, :, :3]), m.tensor(np.abs(ROWS[1, :, :3]))
    ),
    "logistic normal of one number": lambda m: m.distributions.LogisticNormal(
        m.tensor(0.5, dtype=m.float64), m.tensor(2.0, dtype=m.float64)
    ),
}


@pytest.mark.parametrize("label", CASES)
def test_density_and_shapes(label: str) -> None:
    found = []
    for library in (gw, torch):
        made = CASES[label](library)
        x = library.tensor(ROWS, requires_grad=True)
        size = made.base_dist.event_shape[-1] if made.base_dist.event_shape else 4
        y = made.transforms[0](x[..., :size])
        for transform in made.transforms[1:]:
            y = transform(y)
        density = made.log_prob(y)
        density.sum().backward()
        shapes = [tuple(s) for s in (made.batch_shape, made.event_shape, density.shape)]
        drawn = tuple(made.sample((2,)).shape)
        wider = made.expand((5, *made.batch_shape))
        shapes += [drawn, tuple(wider.batch_shape), tuple(wider.event_shape)]
        found.append((shapes, density.detach().numpy(), x.grad.numpy()))
    (ours, *numbers), (theirs, *expected) = found
    assert ours == theirs
    for mine, other in zip(numbers, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["StickBreakingTransform", "SoftmaxTransform"])
def test_there_and_back(name: str) -> None:
    found = []
    for library in (gw, torch):
        transform: Any = getattr(library.distributions, name)()
        x = library.tensor(ROWS * 3)
        y = transform(x)
        numbers = [y, transform.inv(y)]
        if transform.bijective:
            numbers.append(transform.log_abs_det_jacobian(x, y))
        found.append(numbers)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[0][0].sum(-1).numpy(), 1.0, rtol=1e-12)


def test_softmax_has_no_density() -> None:
    made = gw.distributions.TransformedDistribution(
        gw.distributions.Normal(gw.zeros(3), 1.0), gw.distributions.SoftmaxTransform()
    )
    assert made.rsample().sum().item() == pytest.approx(1.0)
    with pytest.raises(NotImplementedError, match="log_abs_det_jacobian"):
        made.log_prob(made.sample())


def test_seeded_draws_are_pytorchs() -> None:
    def drawn(library: ModuleType) -> Any:
        options = {"like": "torch"} if library is gw else {}
        library.manual_seed(3, **options)
        return library.distributions.LogisticNormal(library.zeros(3), library.ones(3)).sample((4,))

    np.testing.assert_allclose(drawn(gw).numpy(), drawn(torch).numpy(), rtol=1e-5)
