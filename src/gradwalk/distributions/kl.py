"""Kullback–Leibler divergences: how far a distribution p is from q, in nats.

For two distributions of one family there is a formula. For others it is the cross entropy
−E[log q(x)] of x drawn from p, less the entropy of p; `_crossed` has it for each q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gradwalk as gw
from gradwalk.distributions.categorical import Categorical, OneHotCategorical
from gradwalk.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    Poisson,
)
from gradwalk.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    sum_rightmost,
)
from gradwalk.distributions.gamma import Beta, Dirichlet, Exponential, Gamma
from gradwalk.distributions.independent import Independent
from gradwalk.distributions.location_scale import (
    _EULER,
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from gradwalk.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from gradwalk.distributions.powers import Pareto
from gradwalk.distributions.transformed import TransformedDistribution
from gradwalk.tensors.tensor import Tensor

Formula = Callable[[Any, Any], Tensor]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Register a function of (p, q) as the divergence of two classes of distributions.

    `kl_divergence` calls the one whose classes are nearest to those of its arguments.
    """
    for given in (type_p, type_q):
        if not isinstance(given, type):
            raise TypeError(f"register_kl takes classes of distributions, not {given!r}")

    def register(formula: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected log p(x) − log q(x) of x drawn from p.

    >>> from gradwalk.distributions import Bernoulli, kl_divergence
    >>> kl_divergence(Bernoulli(0.5), Bernoulli(0.5))
    tensor(0.)
    """
    lines = type(p).__mro__, type(q).__mro__
    found = [
        (lines[0].index(a) + lines[1].index(b), a, b)
        for a, b in _FORMULAS
        if isinstance(p, a) and isinstance(q, b)
    ]
    if not found:
        raise NotImplementedError(
            f"no KL divergence from {type(p).__name__} to {type(q).__name__} is known. Fix: "
            "average p.log_prob(x) - q.log_prob(x) over x = p.sample((n,)), or add a formula with "
            "register_kl."
        )
    _, a, b = min(found, key=lambda entry: entry[0])
    return _FORMULAS[a, b](p, q)


def _where_inside(inside: Any, value: Any) -> Tensor:
    """A divergence, infinite where p gives a probability to what q excludes."""
    return gw.where(inside, value, math.inf)


# -- one family -----------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()) / 2


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return (ratio - 1 - ratio.log()) / 2


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _normal_vectors(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence of normal vectors of lengths {p.event_shape[0]} and {q.event_shape[0]}"
        )
    spread = q.standardized(p.scale_tril).square().sum((-2, -1))
    distance = q.standardized((q.loc - p.loc).unsqueeze(-1)).square().sum((-2, -1))
    return (spread + distance - p.event_shape[0]) / 2 + q.half_log_det() - p.half_log_det()


@register_kl(ExponentialFamily, ExponentialFamily)
def _of_one_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence of a {type(p).__name__} and a {type(q).__name__}, two families. "
            "Fix: register_kl a formula."
        )
    natural, (normalizer, slopes) = p._natural_params, p._normalizer_and_slopes()
    total = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, slope in zip(natural, q._natural_params, slopes, strict=True):
        total = total - sum_rightmost((other - mine) * slope, len(q.event_shape))
    return total


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchies(p: Cauchy, q: Cauchy) -> Tensor:
    squared = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squared.log() - (4 * p.scale * q.scale).log()


@register_kl(HalfCauchy, HalfCauchy)  # folded at 0, around which both are symmetric
def _half_cauchies(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    return (p.scale + q.scale).square().log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    ahead, behind = q.loc / q.scale, p.loc / q.scale
    power = (ahead - behind + gw.lgamma(1 + ratio)).exp()
    return ratio * _EULER - ratio.log() - (1 + _EULER) + behind - ahead + power


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    wider = ((q.high - q.low) / (p.high - p.low)).log()
    return _where_inside((q.low <= p.low) & (p.high <= q.high), wider)


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    shape = gw.lgamma(b) - gw.lgamma(a) + (a - b) * gw.digamma(a)
    return b * (p.rate / q.rate).log() + shape + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    return _dirichlets(p._both, q._both)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a = p.concentration
    logs = gw.digamma(a) - gw.digamma(a.sum(-1, keepdim=True))
    return q._log_beta() - p._log_beta() + ((a - q.concentration) * logs).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    a, b = p.probs, q.probs
    yes, no = gw.xlogy(a, a) - gw.xlogy(a, b), gw.xlogy(1 - a, 1 - a) - gw.xlogy(1 - a, 1 - b)
    return _where_inside(((a == 0) | (b > 0)) & ((a == 1) | (b < 1)), yes + no)


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    n = p.total_count
    one = p.probs * (p.logits - q.logits) + gw.log1p(-p.probs) - gw.log1p(-q.probs)
    if (n < q.total_count).any():
        raise NotImplementedError("kl_divergence of a Binomial from one with more trials")
    return _where_inside(n <= q.total_count, n * one)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - gw.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return gw.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(OneHotCategorical, OneHotCategorical)
@register_kl(Categorical, Categorical)
def _choices(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return gw.where(p.probs == 0, 0, gw.where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(Pareto, Pareto)
def _paretos(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    apart = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _where_inside(p.scale >= q.scale, apart)


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    dims = p.reinterpreted_batch_ndims
    if dims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence of Independent distributions that reinterpret different numbers of "
            "dimensions"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), dims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if [*map(repr, p.transforms)] != [*map(repr, q.transforms)]:
        raise NotImplementedError("kl_divergence of distributions with different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


# -- different families: the cross entropy, less the entropy of p ---------------------------------


def _mean_log(p: Any) -> Tensor:
    """The expected logarithm of a positive draw."""
    if isinstance(p, Uniform):
        return (gw.xlogy(p.high, p.high) - gw.xlogy(p.low, p.low)) / (p.high - p.low) - 1
    if isinstance(p, Exponential):
        return -p.rate.log() - _EULER
    if isinstance(p, Gamma):
        return gw.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return gw.digamma(p.concentration1) - gw.digamma(p.concentration1 + p.concentration0)


def _mean_exp(p: Any, t: Tensor) -> Tensor:
    """The expected e^(−t x) of a draw x, for t > 0."""
    if isinstance(p, Uniform):
        return ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low))
    if isinstance(p, Normal):
        return (-t * p.loc + (t * p.scale).square() / 2).exp()
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    return (-p.concentration * gw.log1p(t / p.rate)).exp()  # Gamma


def _from_zero(p: Any) -> Any:
    """Where draws of p are never negative."""
    return p.low >= 0 if isinstance(p, Uniform) else True


def _crossed_normal(p: Any, q: Normal) -> Tensor:
    squares = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return squares / 2 + (math.sqrt(2 * math.pi) * q.scale).log() - p.entropy()


def _crossed_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    curve = math.sqrt(2 / math.pi) * (-z.square() / 2).exp() + z * gw.erf(z / math.sqrt(2))
    return (2 * q.scale).log() + p.scale / q.scale * curve - p.entropy()


def _crossed_exponential(p: Any, q: Exponential) -> Tensor:
    return _where_inside(_from_zero(p), q.rate * p.mean - q.rate.log() - p.entropy())


def _crossed_gamma(p: Any, q: Gamma) -> Tensor:
    logs = gw.lgamma(q.concentration) - q.concentration * q.rate.log()
    powers = (q.concentration - 1) * _mean_log(p)
    return _where_inside(_from_zero(p), logs - powers + q.rate * p.mean - p.entropy())


def _crossed_gumbel(p: Any, q: Gumbel) -> Tensor:
    power = (q.loc / q.scale).exp() * _mean_exp(p, 1 / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + power - p.entropy()


def _crossed_uniform(p: Any, q: Uniform) -> Tensor:
    inside = (q.low <= 0) & (q.high >= 1)
    return _where_inside(inside, (q.high - q.low).log() - p.entropy())


def _crossed_beta(p: Uniform, q: Beta) -> Tensor:
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    powers = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(mirrored)
    inside = (p.low >= 0) & (p.high <= 1)
    return _where_inside(inside, q._both._log_beta() - powers - p.entropy())


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _crossed_continuous(p: Any, q: ContinuousBernoulli) -> Tensor:
    found = gw.softplus(q.logits) - p.mean * q.logits - q._log_norm() - p.entropy()
    return (
        found if not isinstance(p, Uniform) else _where_inside((p.low >= 0) & (p.high <= 1), found)
    )


def _crossed_pareto(p: Uniform, q: Pareto) -> Tensor:
    powers = (q.alpha + 1) * _mean_log(p) - q.alpha * q.scale.log() - q.alpha.log()
    return _where_inside(p.low >= q.scale, powers - p.entropy())


def _crossed_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - gw.xlogy(p.probs, q.rate) - p.entropy()


def _outside(p: Any, q: Any) -> Tensor:
    """Draws of p are never, or not always, possible under q."""
    return gw.full(p.batch_shape, math.inf, dtype=p.mean.dtype, device=p.mean.device)


_CROSSED: dict[type, tuple[Formula, tuple[type, ...]]] = {
    Normal: (
        _crossed_normal,
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    ),
    Laplace: (_crossed_laplace, (Normal,)),
    Exponential: (_crossed_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    Gamma: (_crossed_gamma, (Beta, Exponential, Pareto, Uniform)),
    Gumbel: (_crossed_gumbel, (Exponential, Gamma, Normal, Uniform)),
    Uniform: (_crossed_uniform, (Beta, ContinuousBernoulli)),
    ContinuousBernoulli: (_crossed_continuous, (Beta, Uniform)),
    Beta: (_crossed_beta, (Uniform,)),
    Pareto: (_crossed_pareto, (Uniform,)),
    Poisson: (_crossed_poisson, (Bernoulli,)),
}
for _q, (_formula, _ps) in _CROSSED.items():
    for _p in _ps:
        register_kl(_p, _q)(_formula)
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal):
    register_kl(_p, Pareto)(_outside)
for _p in (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto):
    for _q in (Beta, ContinuousBernoulli, Uniform):
        register_kl(_p, _q)(_outside)
for _p in (Gumbel, Laplace, Normal):
    for _q in (Exponential, Gamma):
        register_kl(_p, _q)(_outside)
for _q in (Bernoulli, Binomial):
    register_kl(Poisson, _q)(_outside)
