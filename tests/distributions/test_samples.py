"""Draws: their distribution, their gradients, and PyTorch's numbers of PyTorch's stream."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import gradwalk as gw
from gradwalk.distributions import implicit_gradients
from tests.batches import batched
from tests.distributions.cases import CASES, gradients, ours, parameters, theirs

DRAWS = 4000
# By label of CASES: SciPy's distribution of the same parameters.
SCIPY: dict[str, Any] = {
    "Normal": lambda loc, scale: scipy.stats.norm(loc, scale),
    "LogNormal": lambda loc, scale: scipy.stats.lognorm(scale, scale=np.exp(loc)),
    "HalfNormal": lambda scale: scipy.stats.halfnorm(scale=scale),
    "HalfCauchy": lambda scale: scipy.stats.halfcauchy(scale=scale),
    "Laplace": lambda loc, scale: scipy.stats.laplace(loc, scale),
    "Cauchy": lambda loc, scale: scipy.stats.cauchy(loc, scale),
    "Gumbel": lambda loc, scale: scipy.stats.gumbel_r(loc, scale),
    "StudentT": lambda df, loc, scale: scipy.stats.t(df, loc, scale),
    "Uniform": lambda low, high: scipy.stats.uniform(low, high - low),
    "Exponential": lambda rate: scipy.stats.expon(scale=1 / rate),
    "Gamma": lambda concentration, rate: scipy.stats.gamma(concentration, scale=1 / rate),
    "Chi2": lambda df: scipy.stats.chi2(df),
    "Beta": lambda concentration1, concentration0: scipy.stats.beta(concentration1, concentration0),
}
SCIPY |= {
    "Weibull": lambda scale, concentration: scipy.stats.weibull_min(concentration, scale=scale),
    "Pareto": lambda scale, alpha: scipy.stats.pareto(alpha, scale=scale),
}
COUNTS: dict[str, Any] = {
    "NegativeBinomial": lambda total_count, probs: scipy.stats.nbinom(total_count, 1 - probs),
    "Bernoulli": lambda probs: scipy.stats.bernoulli(probs),
    "Geometric": lambda probs: scipy.stats.geom(probs, -1),
    "Binomial": lambda total_count, probs: scipy.stats.binom(total_count, probs),
    "Poisson": lambda rate: scipy.stats.poisson(rate),
}


@batched("label", SCIPY)
def test_draws_follow_the_distribution(label: str) -> None:
    arrays = parameters(label, 5)
    mine, _ = ours(label, arrays, grad=False)
    gw.manual_seed(1)
    drawn = mine.sample((DRAWS,)).numpy()
    for place in np.ndindex(drawn.shape[1:]):
        exact = SCIPY[label](**{name: array[place] for name, array in arrays.items()})
        assert scipy.stats.kstest(drawn[(slice(None), *place)], exact.cdf).pvalue > 1e-4


@pytest.mark.parametrize("label", ["VonMises", "VonMises of many"])
def test_angles_are_scipys_and_their_draws_pytorchs(label: str) -> None:
    arrays = parameters(label, 5)
    (mine, _), (other, _) = ours(label, arrays, grad=False), theirs(label, arrays, grad=False)
    loc, concentration = arrays["loc"], arrays["concentration"]
    exact = scipy.stats.vonmises(concentration, loc).logpdf(0.7)
    np.testing.assert_allclose(
        mine.log_prob(gw.tensor([0.7], dtype=gw.float64)).numpy(), exact, 1e-11
    )
    gw.manual_seed(1, like="torch")
    torch.manual_seed(1)
    try:
        drawn = mine.sample((DRAWS,)).numpy()
    finally:
        gw.manual_seed(0, like="gradwalk")
    np.testing.assert_allclose(drawn, other.sample((DRAWS,)).numpy(), 1e-9, 1e-9)
    assert drawn.min() >= -np.pi and drawn.max() < np.pi
    for place in np.ndindex(drawn.shape[1:]):
        around = (drawn[(slice(None), *place)] - loc[place] + np.pi) % (2 * np.pi) - np.pi
        cdf = scipy.stats.vonmises(concentration[place]).cdf
        assert scipy.stats.kstest(around, cdf).pvalue > 1e-4


@batched("label", COUNTS)
def test_counts_follow_the_distribution(label: str) -> None:
    arrays = parameters(label, 5)
    mine, _ = ours(label, arrays, grad=False)
    gw.manual_seed(1)
    drawn = mine.sample((DRAWS,)).numpy()
    for place in np.ndindex(drawn.shape[1:]):
        fixed = {n: a[place] if isinstance(a, np.ndarray) else a for n, a in arrays.items()}
        exact = COUNTS[label](**fixed)
        column = drawn[(slice(None), *place)]
        for k in range(6):
            chance = exact.pmf(k)
            sigma = np.sqrt(chance * (1 - chance) / DRAWS)
            assert abs((column == k).mean() - chance) < 5 * sigma + 1e-12


@batched(
    "label",
    [
        *("Dirichlet", "Categorical", "OneHotCategorical", "Multinomial", "MultivariateNormal"),
        "Wishart",
    ],
)
def test_moments_of_vectors(label: str) -> None:
    mine, _ = ours(label, parameters(label, 5), grad=False)
    gw.manual_seed(1)
    drawn = mine.sample((DRAWS,))
    if label == "Categorical":
        drawn, probs = gw.nn.functional.one_hot(drawn, 4).double(), mine.probs
        mean, variance = probs, probs * (1 - probs)
    else:
        mean, variance = mine.mean, mine.variance
    sigma = variance.sqrt() / DRAWS**0.5
    assert ((drawn.mean(0) - mean).abs() < 5 * sigma).all()
    assert ((drawn.var(0) / variance - 1).abs() < 0.3).all()


def test_small_concentrations_keep_their_shares() -> None:
    """The gamma draws of such concentrations are 0 in floating point."""
    gw.manual_seed(0)
    drawn = gw.distributions.Dirichlet(gw.tensor([1e-3, 2e-3, 1e-3])).sample((DRAWS,))
    assert ((drawn.sum(-1) - 1).abs() < 1e-6).all()
    assert ((drawn.mean(0) - gw.tensor([0.25, 0.5, 0.25])).abs() < 0.04).all()


# -- gradients -------------------------------------------------------------------------------------


@batched("label", [label for label in CASES if "Multivariate" not in label])
def test_the_same_draw_has_pytorchs_gradient(label: str) -> None:
    """With PyTorch's stream, rsample and its gradients equal PyTorch's."""
    arrays = parameters(label, 5)
    (mine, tensors), (other, others) = ours(label, arrays), theirs(label, arrays)
    if not mine.has_rsample:
        return
    found, expected = seeded(mine.rsample, getattr(other, "_bartlett_sampling", other.rsample))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-9, 1e-11)
    if CASES[label][0] in IMPLICIT:
        return
    mine_grads, other_grads = gradients(found, tensors), gradients(expected, others)
    assert mine_grads.keys() == other_grads.keys() != set()
    for name, gradient in other_grads.items():
        np.testing.assert_allclose(mine_grads[name], gradient, 1e-7, 1e-9)


# PyTorch approximates the gradients of these draws; ours are compared with exact ones below.
IMPLICIT = ("Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "InverseGamma", "FisherSnedecor",
            "Wishart")  # fmt: skip


def seeded(mine: Any, other: Any) -> tuple[Any, Any]:
    gw.manual_seed(3, like="torch")
    torch.manual_seed(3)
    try:
        return mine((7,)), other((7,))
    finally:
        gw.manual_seed(3, like="gradwalk")


# PyTorch's draws of LKJCholesky do not follow its density from three variables on.
@batched("label", [label for label in CASES if CASES[label][0] != "LKJCholesky"])
def test_seeded_draws_are_pytorchs(label: str) -> None:
    arrays = parameters(label, 5)
    mine, _ = ours(label, arrays, grad=False)
    other, _ = theirs(label, arrays, grad=False)
    # PyTorch's Wishart draws every sample that is not singular once more.
    found, expected = seeded(mine.sample, getattr(other, "_bartlett_sampling", other.sample))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-9, 1e-11)


@pytest.mark.parametrize(("size", "concentration"), [(2, 3.0), (3, 1.0), (5, 0.7)])
def test_correlations_spread_as_their_density_says(size: int, concentration: float) -> None:
    """Each is 2b − 1 with b beta distributed, so its variance is 1 / (2c + size − 1)."""
    factors = gw.distributions.LKJCholesky(size, concentration).sample((40_000,))
    squares = (factors @ factors.mT).square().mean(0)[~np.eye(size, dtype=bool)]
    exact = 1 / (2 * concentration + size - 1)
    np.testing.assert_allclose(squares.numpy(), exact, rtol=0.03)


def test_gradient_of_gamma_draws() -> None:
    """−(∂F/∂a) / f, against differences of quantiles, from tail to tail."""
    a = np.array([1e-3, 0.05, 0.3, 1.0, 2.5, 10.0, 300.0, 1e5])[:, None]
    u = np.array([1e-6, 0.01, 0.2, 0.5, 0.9, 0.999, 1 - 1e-7])
    x = scipy.special.gammaincinv(a, u)
    h = 1e-4 * a
    exact = (scipy.special.gammaincinv(a + h, u) - scipy.special.gammaincinv(a - h, u)) / (2 * h)
    found = implicit_gradients.gamma_slope(*np.broadcast_arrays(a, x))
    usable = x > 1e-250
    np.testing.assert_allclose(found[usable], exact[usable], 2e-4)
    torch_slope = torch._standard_gamma_grad(
        torch.tensor(np.broadcast_to(a, x.shape)), torch.tensor(x)
    )
    usable &= (a > 0.2) & (a < 1e4)  # PyTorch approximates: beyond, by up to 3%
    np.testing.assert_allclose(found[usable], torch_slope.numpy()[usable], 2e-3)


def test_gradients_of_quantile_draws_against_many_digits() -> None:
    """∂F/∂a by mpmath, with 40 digits."""
    with mpmath.workdps(40):
        for a, u in itertools.product((0.05, 0.7, 3.0, 60.0), (1e-6, 0.3, 1 - 1e-7)):
            x = mpmath.mpf(float(scipy.special.gammaincinv(a, u)))
            slope = mpmath.diff(lambda b, x=x: mpmath.gammainc(b, 0, x, regularized=True), a)
            exact = -slope / (x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a))
            found = implicit_gradients.gamma_slope(np.array(a), np.array(float(x)))
            assert abs(float(found) / float(exact) - 1) < 1e-9, (a, u)
        for a, b, u in itertools.product((0.4, 40.0), (0.4, 3.0), (1e-5, 0.3, 0.99)):
            x = mpmath.mpf(float(scipy.special.betaincinv(a, b, u)))
            slope = mpmath.diff(lambda c, b=b, x=x: mpmath.betainc(c, b, 0, x, regularized=True), a)
            exact = -slope / (x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b))
            found = implicit_gradients.beta_slope(np.array(a), np.array(b), np.array(float(x)))
            assert abs(float(found) / float(exact) - 1) < 1e-9, (a, b, u)


def test_gradient_of_beta_draws() -> None:
    grid = np.array([0.05, 0.4, 1.0, 3.0, 40.0])
    a, b, u = np.meshgrid(grid, grid, np.array([1e-5, 0.02, 0.3, 0.7, 0.99]), indexing="ij")
    x = scipy.special.betaincinv(a, b, u)
    usable = (x > 1e-100) & (x < 1 - 1e-9)
    a, b, u, x = (part[usable] for part in (a, b, u, x))
    h = 1e-4 * a
    upper, lower = scipy.special.betaincinv(a + h, b, u), scipy.special.betaincinv(a - h, b, u)
    found = implicit_gradients.beta_slope(a, b, x)
    np.testing.assert_allclose(found, (upper - lower) / (2 * h), 1e-4, 1e-12)
    expected = torch._dirichlet_grad(*(torch.tensor(part) for part in (x, a, a + b)))
    np.testing.assert_allclose(found / (1 - x), expected.numpy(), 5e-3, 1e-6)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT"])
def test_expected_gradients_of_quantile_draws(name: str) -> None:
    """The mean gradient of E[x] or E[x²] is the gradient of the exact moment."""
    parameters = {
        "Gamma": ([1.5, 0.4], [2.0, 1.0]),
        "Beta": ([1.5, 0.4], [2.0, 1.0]),
        "Dirichlet": ([[1.5, 0.4, 3.0]],),
        "StudentT": ([6.0, 9.0], [0.5, 1.0], [1.5, 1.0]),
    }[name]
    given = [gw.tensor(p, dtype=gw.float64, requires_grad=True) for p in parameters]
    made = getattr(gw.distributions, name)(*given)
    gw.manual_seed(0)
    drawn = made.rsample((15_000,))
    weights = gw.linspace(1.0, 2.0, drawn[0].numel(), dtype=gw.float64).reshape(drawn[0].shape)
    found = gw.autograd.grad((drawn.square() * weights).mean(0).sum(), given)
    moment = made.variance + made.mean.square()
    exact = gw.autograd.grad((moment * weights).sum(), given)
    for mine, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 0.1, 0.05)


def test_float32_draws_and_gradients_are_float32() -> None:
    concentration = gw.tensor([0.5, 2.0], requires_grad=True)
    for made in (
        gw.distributions.Gamma(concentration, 1.0),
        gw.distributions.Dirichlet(concentration),
    ):
        drawn = made.rsample((3,))
        drawn.sum().backward()
        assert drawn.dtype == gw.float32 == concentration.grad.dtype


def test_a_second_derivative_of_a_gamma_draw_is_refused() -> None:
    concentration = gw.tensor(2.0, requires_grad=True)
    drawn = gw.distributions.Gamma(concentration, 1.0).rsample()
    (slope,) = gw.autograd.grad(drawn, concentration, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        slope.backward()
