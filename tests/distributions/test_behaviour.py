"""Checks of parameters and values, Independent, transforms, registered divergences, `compile`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Geometric,
    Independent,
    LogNormal,
    MultivariateNormal,
    Normal,
    Poisson,
    TransformedDistribution,
    Uniform,
    constraints,
    kl,
    kl_divergence,
    register_kl,
    transforms,
)
from tests.batches import batched

WRONG: dict[str, tuple[Any, str]] = {
    "scale": (
        lambda: Normal(0.0, gw.tensor([1.0, -1.0])),
        r"scale \(shape \(2,\)\) of Normal to be above 0.*-1.*index \[1\]",
    ),
    "nan": (lambda: Normal(float("nan"), 1.0), "not NaN"),
    "probs": (lambda: Bernoulli(1.5), "probs .* of Bernoulli to be from 0 to 1"),
    "both": (lambda: Bernoulli(0.5, logits=0.0), "exactly one of probs, logits"),
    "neither": (lambda: Categorical(), "exactly one of probs, logits"),
    "high": (lambda: Uniform(1.0, 0.0), "high .* to be above 1"),
    "never": (lambda: Geometric(0.0), "above 0"),
    "covariance": (lambda: MultivariateNormal(gw.zeros(2), -gw.eye(2)), "positive eigenvalues"),
    "factor": (lambda: MultivariateNormal(gw.zeros(2), scale_tril=gw.ones(2, 2)), "triangular"),
    "dimensions": (lambda: MultivariateNormal(gw.zeros(2), gw.ones(2)), "at least 2 dim"),
    "text": (lambda: Normal("0", 1.0), "loc is a Tensor or a number, not str"),
    "number": (lambda: Normal(0.0, 1.0).log_prob(0.5), "a value is a Tensor, not float"),
    "support": (lambda: Beta(1.0, 1.0).log_prob(gw.tensor(2.0)), "value .* of Beta .* 0 to 1"),
    "counts": (lambda: Poisson(1.0).log_prob(gw.tensor(0.5)), "whole number of at least 0"),
    "event": (lambda: Dirichlet(gw.ones(3)).log_prob(gw.ones(2) / 2), r"event shape \(3,\)"),
    "batch": (lambda: Normal(gw.zeros(3), 1.0).log_prob(gw.zeros(2)), "does not broadcast"),
    "index": (lambda: Categorical(gw.ones(3)).log_prob(gw.tensor(3)), "from 0 to 2"),
    "independent": (lambda: Independent(Normal(0.0, 1.0), 1), "has 0 batch dim"),
    "cache": (lambda: transforms.ExpTransform(cache_size=2), "0 or 1"),
}  # fmt: skip


@batched("label", WRONG)
def test_errors_name_what_is_wrong(label: str) -> None:
    make, words = WRONG[label]
    with pytest.raises(ValueError, match=words):
        make()


def test_validate_args_switches_checks_off() -> None:
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert Beta(1.0, 1.0, validate_args=False).log_prob(gw.tensor([0.5])).shape == (1,)
    gw.distributions.Distribution.set_default_validate_args(False)
    try:
        Normal(0.0, -1.0)
    finally:
        gw.distributions.Distribution.set_default_validate_args(True)


def test_what_is_missing_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Poisson has no rsample. Fix: sample\(\)"):
        Poisson(1.0).rsample()
    with pytest.raises(NotImplementedError, match=r"from Poisson to Normal is known\. Fix: "):
        kl_divergence(Poisson(1.0), Normal(0.0, 1.0))


def test_repr() -> None:
    assert repr(Normal(0.0, gw.ones(3))) == "Normal(loc: (3,), scale: (3,))"
    assert repr(Independent(Normal(gw.zeros(1), 2.0), 1)) == (
        "Independent(Normal(loc: 0, scale: 2), 1)"
    )


def test_numbers_take_the_dtype_of_tensors() -> None:
    made = Normal(gw.zeros(2, dtype=gw.float64), 1)
    assert made.scale.dtype == gw.float64
    assert made.sample().dtype == gw.float64
    assert Normal(0, 1).sample().dtype == gw.float32


def test_independent() -> None:
    loc = np.arange(6.0).reshape(3, 2)
    mine = Independent(Normal(gw.tensor(loc), 1.5), 1)
    other = torch.distributions.Independent(torch.distributions.Normal(torch.tensor(loc), 1.5), 1)
    point = np.ones((3, 2))
    divergence = (loc**2).sum(1) / 2 + 1.25 - 2 * np.log(1.5)
    for found, expected in (
        (mine.log_prob(gw.tensor(point)), other.log_prob(torch.tensor(point))),
        (mine.entropy(), other.entropy()),
        (mine.variance, other.variance),
        (kl_divergence(mine, Independent(Normal(gw.zeros(3, 2), 1.0), 1)), divergence),
    ):
        np.testing.assert_allclose(found.numpy(), np.asarray(expected), 1e-7)
    wider = mine.expand((4, 3))
    assert (wider.batch_shape, wider.event_shape) == ((4, 3), (2,))
    assert wider.rsample((5,)).shape == (5, 4, 3, 2)
    with pytest.raises(ValueError, match="event shape"):
        mine._validate_sample(gw.zeros(3, 4))
    coins = gw.distributions.Bernoulli(gw.full((2,), 0.5))
    assert Independent(coins, 0).enumerate_support().tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert not Independent(coins, 1).has_enumerate_support


SHAPES = {
    "exp": lambda t: [t.ExpTransform()],
    "affine": lambda t: [t.AffineTransform(0.5, -2.0)],
    "sigmoid": lambda t: [t.SigmoidTransform()],
    "tanh": lambda t: [t.TanhTransform()],
    "softplus": lambda t: [t.SoftplusTransform(), t.identity_transform],
    "chain": lambda t: [t.AffineTransform(1.0, 0.5), t.TanhTransform(), t.ExpTransform()],
    "inverse": lambda t: [t.SigmoidTransform(), t.SigmoidTransform().inv],
}


@batched("label", SHAPES)
def test_transforms(label: str) -> None:
    base = np.array([0.3, -0.4])
    loc, scale = gw.tensor(base, requires_grad=True), gw.tensor(0.7, dtype=gw.float64)
    mine = TransformedDistribution(Normal(loc, scale), SHAPES[label](transforms))
    their_loc = torch.tensor(base, requires_grad=True)
    other = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(their_loc, 0.7), SHAPES[label](torch.distributions.transforms)
    )
    point = other.sample((3,)).numpy()
    found, expected = mine.log_prob(gw.tensor(point)), other.log_prob(torch.tensor(point))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-7)
    found.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(loc.grad.numpy(), their_loc.grad.numpy(), 1e-7)
    for name, at in (("cdf", point), ("icdf", np.array([0.2, 0.9]))):
        np.testing.assert_allclose(
            getattr(mine, name)(gw.tensor(at)).detach().numpy(),
            getattr(other, name)(torch.tensor(at)).detach().numpy(),
            1e-6,
        )


def test_a_cached_tanh_keeps_draws_that_round_to_one() -> None:
    action = TransformedDistribution(Normal(50.0, 1.0), [transforms.TanhTransform(cache_size=1)])
    drawn = action.rsample()
    assert drawn.item() == 1
    assert gw.isfinite(action.log_prob(drawn))


def test_register_kl_takes_the_nearest_classes() -> None:
    class Mine(Normal):
        pass

    assert kl_divergence(Mine(0.0, 1.0), Normal(1.0, 1.0)).item() == 0.5
    register_kl(Mine, Normal)(lambda p, q: gw.tensor(7.0))
    try:
        assert kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0)).item() == 7
        assert kl_divergence(Normal(0.0, 1.0), Mine(1.0, 1.0)).item() == 0.5
    finally:
        del kl._FORMULAS[Mine, Normal]
    with pytest.raises(TypeError, match="classes of distributions"):
        register_kl(3, Normal)


def test_sample_under_no_grad_and_rsample() -> None:
    scale = gw.tensor(2.0, requires_grad=True)
    assert not Normal(0.0, scale).sample((2,)).requires_grad
    assert Normal(0.0, scale).rsample((2,)).requires_grad
    with gw.no_grad():
        assert not Gamma(scale, 1.0).rsample().requires_grad
        assert not kl_divergence(Normal(0.0, scale), Normal(0.0, 1.0)).requires_grad


def test_compiled() -> None:
    """A step of a variational autoencoder's loss: draws, densities and a divergence."""

    def loss(mean: Any, log_scale: Any, x: Any) -> Any:
        posterior = Normal(mean, log_scale.exp())
        z = posterior.rsample()
        seen = Independent(Bernoulli(logits=z), 1).log_prob(x).mean()
        apart = kl_divergence(posterior, Normal(0.0, 1.0)).sum(-1).mean()
        return apart - seen + LogNormal(0.0, 1.0).log_prob(log_scale.exp()).sum()

    mean, log_scale = gw.randn(4, 3), gw.randn(4, 3)
    x = (gw.rand(4, 3) > 0.5).float()
    compiled = gw.compile(gw.value_and_grad(loss, argnums=(0, 1)))
    gw.manual_seed(0)
    found, slopes = compiled(mean, log_scale, x)
    gw.manual_seed(0)
    expected, exact = gw.value_and_grad(loss, argnums=(0, 1))(mean, log_scale, x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5)
    for mine, other in zip(slopes, exact, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-4, 1e-6)


def test_constraints_against_pytorch() -> None:
    rng = np.random.default_rng(0)
    numbers = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan])
    root = rng.normal(size=(2, 3, 3))
    values = {
        "boolean": numbers, "nonnegative_integer": numbers, "positive_integer": numbers,
        "positive": numbers, "nonnegative": numbers, "unit_interval": numbers, "real": numbers,
        "real_vector": numbers.reshape(2, 3), "simplex": np.array([[0.5, 0.5], [0.5, 0.6]]),
        "one_hot": np.array([[0.0, 1.0], [1.0, 1.0]]), "lower_cholesky": np.tril(root),
        "positive_definite": np.stack([root[0] @ root[0].T, root[1]]),
    }  # fmt: skip
    for name, points in values.items():
        found = getattr(constraints, name).check(gw.tensor(points))
        expected = getattr(torch.distributions.constraints, name).check(torch.tensor(points))
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=name)
    assert constraints.less_than(1.0).check(gw.tensor([0.5, 1.0])).tolist() == [True, False]


def test_perplexity() -> None:
    assert abs(Categorical(gw.ones(5)).perplexity().item() - 5) < 1e-5


def test_a_lazy_property_has_its_gradient_in_no_grad() -> None:
    x = gw.ones(1, requires_grad=True)

    class Lazy:
        @gw.distributions.utils.lazy_property
        def y(self) -> Any:
            return x + 1

    with gw.no_grad():
        Lazy().y.backward()
    assert x.grad.tolist() == [1.0]


def test_shapes_are_sizes_and_a_value_outside_bounds_that_broadcast_is_shown() -> None:
    normal = Normal(gw.zeros(2, 3), 1.0)
    assert normal.batch_shape.numel() == 6 and normal.event_shape.numel() == 1
    with pytest.raises(ValueError, match=r"found 2\.0 at index \[0, 0\]"):
        gw.distributions.Uniform(gw.zeros(5, 2), 1.0).log_prob(gw.tensor(2.0))


def test_the_slope_of_a_continuous_bernoulli_near_its_ends_in_float32() -> None:
    for p in map(float, np.float32([1e-4, 3e-3, 0.3])):  # the same in both dtypes
        slopes = []
        for dtype in (gw.float32, gw.float64):
            probs = gw.tensor([p], dtype=dtype, requires_grad=True)
            value = gw.tensor([1.0], dtype=dtype)
            gw.distributions.ContinuousBernoulli(probs).log_prob(value).backward()
            slopes.append(probs.grad.item())
        assert slopes[0] == pytest.approx(slopes[1], rel=3e-6)


def test_a_nearly_singular_precision_has_a_cholesky_factor() -> None:
    """Its inverse in float32 has none; PyTorch takes the inverse of a factor."""
    x = np.random.default_rng(44).normal(size=10).astype(np.float32)
    precision = np.exp(-((x - x[:, None]) ** 2))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(np.linalg.inv(precision))
    for m in (gw, torch):
        mean, given = m.zeros(10), m.tensor(precision)
        normal = m.distributions.MultivariateNormal(mean, precision_matrix=given)
        assert normal.scale_tril.isfinite().all()


def test_matrices_of_which_a_factor_is_known() -> None:
    root = gw.tensor([[2.0, 0.0], [0.5, 1.0]], requires_grad=True)
    given, known = gw.distributions.Wishart(3.0, scale_tril=root), root @ root.mT
    value = gw.tensor([[2.0, 0.3], [0.3, 1.0]])
    of_covariance = gw.distributions.Wishart(3.0, known).log_prob(value)
    np.testing.assert_allclose(given.log_prob(value).item(), of_covariance.item(), rtol=1e-5)
    given.log_prob(value).backward()
    assert root.grad is not None and root.grad[0, 1] == 0
    assert given.expand((4,)).sample((3,)).shape == (3, 4, 2, 2)
    assert gw.distributions.LKJCholesky(2, gw.ones(3)).expand((5, 3)).sample().shape == (5, 3, 2, 2)
    with pytest.raises(ValueError, match="df"):
        gw.distributions.Wishart(1.0, gw.eye(2))
    with pytest.raises(ValueError, match="dim is an integer of at least 2, not 1"):
        gw.distributions.LKJCholesky(1)


def test_lower_triangles_as_vectors() -> None:
    from torch.distributions import utils as torchs

    from gradwalk.distributions import utils

    for diag in (-2, -1, 0, 1, 2):
        x = np.arange(32.0).reshape(2, 4, 4)
        vector = utils.tril_matrix_to_vec(gw.tensor(x), diag)
        assert vector.tolist() == torchs.tril_matrix_to_vec(torch.tensor(x), diag).tolist()
        expected = torchs.vec_to_tril_matrix(torch.tensor(vector.numpy()), diag)
        assert utils.vec_to_tril_matrix(vector, diag).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="5 numbers do not fill"):
        utils.vec_to_tril_matrix(gw.ones(5))
