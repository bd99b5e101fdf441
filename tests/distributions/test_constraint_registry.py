"""Transforms to constraints, transforms of matrices and parts: the numbers are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 6))
BOUNDS = RNG.normal(size=6)

# By name: of (constraints, a function that makes a tensor).
CONSTRAINTS: dict[str, Callable[[Any, Any], Any]] = {
    "real": lambda c, t: c.real,
    "vectors": lambda c, t: c.real_vector,
    "positive": lambda c, t: c.positive,
    "nonnegative": lambda c, t: c.nonnegative,
    "above": lambda c, t: c.greater_than(t(BOUNDS)),
    "at least": lambda c, t: c.greater_than_eq(-2.0),
    "below": lambda c, t: c.less_than(t(BOUNDS)),
    "unit interval": lambda c, t: c.unit_interval,
    "between": lambda c, t: c.interval(t(BOUNDS), t(BOUNDS + 2)),
    "half open": lambda c, t: c.half_open_interval(-2.0, 1.0),
    "probabilities": lambda c, t: c.simplex,
    "Cholesky factor": lambda c, t: c.lower_cholesky,
    "positive definite": lambda c, t: c.positive_definite,
    "positive semidefinite": lambda c, t: c.positive_semidefinite,
    "factor of correlations": lambda c, t: c.corr_cholesky,
    "each of a vector": lambda c, t: c.independent(c.positive, 1),
    "parts": lambda c, t: c.cat([c.positive, c.unit_interval], dim=-1, lengths=[2, 4]),
    "slices": lambda c, t: c.stack(
        [c.positive, c.real, c.unit_interval, c.less_than(0.0), c.positive, c.positive], dim=-1
    ),
}


def found_with(library: Any, name: str, ways: str) -> list[Any]:
    """The transform's result, its way back and the logarithm of its slope, where it has them."""
    distributions = library.distributions
    constraint = CONSTRAINTS[name](distributions.constraints, library.tensor)
    try:
        transform = getattr(distributions, ways)(constraint)
    except NotImplementedError:
        return ["no transform"]
    x = library.tensor(X)
    y = transform(x)
    assert constraint.check(y).all()
    found = [transform.bijective, transform.domain.event_dim, transform.codomain.event_dim]
    found += [list(transform.forward_shape(x.shape)), list(transform.inverse_shape(y.shape))]
    found += [y, transform.inv(y)]
    try:
        return [*found, transform.log_abs_det_jacobian(x, y)]
    except NotImplementedError:
        return [*found, "no slope"]


@pytest.mark.parametrize("ways", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_transforms_to_constraints_as_pytorch(name: str, ways: str) -> None:
    ours, theirs = (found_with(library, name, ways) for library in (gw, torch))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-8, atol=1e-10)
        else:
            assert one == other


def test_constraints_of_ones_own() -> None:
    class Even(gw.distributions.constraints.Constraint):
        pass

    exact = gw.distributions.constraints.Constraint("my own")
    registry = gw.distributions.transform_to
    doubled = registry.register(Even, lambda c: gw.distributions.AffineTransform(0, 2))
    assert isinstance(doubled(None), gw.distributions.AffineTransform)

    @registry.register(exact)
    def squared(constraint: Any) -> Any:
        assert constraint is exact
        return gw.distributions.PowerTransform(2.0)

    assert registry(Even())(gw.tensor(3.0)) == 6 and registry(exact)(gw.tensor(3.0)) == 9
    with pytest.raises(NotImplementedError, match="leads to dependent"):
        registry(gw.distributions.constraints.dependent)


MATRICES = {
    "symmetric": [[[2.0, 0.0], [2.0, 2.0]], [[3.0, -5.0], [-5.0, 3.0]], [[4.0, 2.0], [2.0, 4.0]]],
    "positive_semidefinite": [[[1.0, 2.0], [2.0, 4.0]], [[1.0, -2.0], [-2.0, 1.0]]],
    "square": [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]],
}


@pytest.mark.parametrize("name", MATRICES)
def test_constraints_of_matrices(name: str) -> None:
    found = []
    for library in (gw, torch):
        given = library.tensor(MATRICES[name])
        found.append(getattr(library.distributions.constraints, name).check(given).tolist())
    assert found[0] == found[1]


# Of (the library, its distributions, a function that makes a tensor): distributions that a
# transform gives another shape.
WIDER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "affine": lambda d, t, n: d.TransformedDistribution(
        n(0.0, 1.0), d.AffineTransform(t([0.0, 1.0, 2.0]), t([1.0, 2.0, 3.0]))
    ),
    "affine and more": lambda d, t, n: d.TransformedDistribution(
        n(0.0, 1.0), [d.ExpTransform(), d.AffineTransform(t([[0.0], [1.0]]), 2.0)]
    ),
    "of vectors": lambda d, t, n: d.TransformedDistribution(
        n(t([0.0, 0.0, 0.0]), t([1.0, 2.0, 3.0])), d.AffineTransform(t([[1.0], [2.0]]), 1.0, 1)
    ),
    "reshaped": lambda d, t, n: d.TransformedDistribution(
        n(0.0, 1.0).expand((5, 6)), [d.ReshapeTransform((6,), (2, 3)), d.ExpTransform()]
    ),
    "correlations": lambda d, t, n: d.TransformedDistribution(
        n(0.0, 1.0).expand((5, 3)), d.CorrCholeskyTransform()
    ),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_transform_that_makes_more_of_a_draw(name: str) -> None:
    found = []
    for library in (gw, torch):
        library.manual_seed(0)
        d = library.distributions
        made = WIDER[name](d, library.tensor, d.Normal)
        drawn = made.rsample((7,))
        found.append([tuple(made.batch_shape), tuple(made.event_shape), tuple(drawn.shape)])
        found[-1] += [made.support.event_dim, tuple(made.log_prob(drawn).shape)]
        wider = made.expand((4, *made.batch_shape))
        found[-1] += [tuple(wider.batch_shape), tuple(wider.sample((2,)).shape)]
        if library is gw:
            given = drawn
        else:
            theirs = made.log_prob(torch.from_numpy(given.numpy()))
    assert found[0] == found[1]
    ours = WIDER[name](gw.distributions, gw.tensor, gw.distributions.Normal).log_prob(given)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4, atol=2e-4)


def test_parts_of_vectors_have_one_slope() -> None:
    found = []
    for library in (gw, torch):
        d = library.distributions
        parts = d.CatTransform([d.ExpTransform(), d.AffineTransform(0.0, 2.0, 1)], -1, [2, 4])
        x = library.tensor(X)
        found.append(parts.log_abs_det_jacobian(x, parts(x)).numpy())
    np.testing.assert_allclose(found[0], found[1])


def test_every_number_of_a_wider_result_is_drawn_for_itself() -> None:
    made = WIDER["affine"](gw.distributions, gw.tensor, gw.distributions.Normal)
    noise = (made.sample() - gw.tensor([0.0, 1.0, 2.0])) / gw.tensor([1.0, 2.0, 3.0])
    assert len(set(np.round(noise.numpy(), 4).tolist())) == 3


def test_transforms_are_equal_by_what_they_do() -> None:
    for library in (gw, torch):
        d = library.distributions
        affine = d.AffineTransform(library.ones(2), 2.0)
        assert affine == d.AffineTransform(library.ones(2), 2.0, cache_size=1)
        assert affine != d.AffineTransform(library.zeros(2), 2.0)
        assert d.ExpTransform() == d.ExpTransform() != d.TanhTransform()
        assert d.ComposeTransform([affine]) == d.ComposeTransform([affine])
        assert affine.inv.inv is affine and affine.inv == affine.inv != affine
        cached = affine.with_cache()
        y = cached(library.ones(2))
        assert cached._cache_size == 1 and cached.inv(y) is cached.inv(y)


def test_what_neither_grows_nor_falls_has_no_chance_of_at_or_below() -> None:
    for library in (gw, torch):
        d = library.distributions
        folded = d.TransformedDistribution(d.Normal(0.0, 1.0), d.AbsTransform())
        with pytest.raises(NotImplementedError):
            folded.cdf(library.tensor(1.0))
