"""Yes or no, and counts of it: Bernoulli, (negative) binomial, geometric, Poisson."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution, ProbsOrLogits, derived, one_of
from gradwalk.distributions.gamma import Gamma
from gradwalk.graph.abstract import numbers_of
from gradwalk.nn.functional import binary_cross_entropy_with_logits
from gradwalk.tensors.tensor import Tensor


def inside(probs: Tensor) -> Tensor:
    """Probabilities a rounding step away from 0 and 1, which have finite logarithms."""
    eps = float(gw.finfo(probs.dtype).eps)
    return probs.clamp(eps, 1 - eps)


class _Odds(ProbsOrLogits):
    """A distribution of a probability, given as `probs` or as `logits`, its log odds."""

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}

    @derived
    def probs(self) -> Tensor:
        """The probability of 1."""
        return gw.sigmoid(self.logits)

    @derived
    def logits(self) -> Tensor:
        """The logarithm of the odds of 1."""
        p = inside(self.probs)
        return p.log() - gw.log1p(-p)


class Bernoulli(_Odds):
    """1 with probability `probs`, else 0.

    >>> import gradwalk as gw
    >>> gw.distributions.Bernoulli(logits=gw.tensor([0.0])).probs
    tensor([0.5000])
    """

    support: Any = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, **one_of(type(self), probs=probs, logits=logits))

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        p = self.probs
        return gw.where(p == 0.5, math.nan, (p > 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return gw.bernoulli(self.probs.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = gw.broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(self._parameter.detach().new_tensor([0.0, 1.0]), expand)


class Binomial(_Odds):
    """How many of `total_count` trials succeed, each with probability `probs`."""

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer,
        **_Odds.arg_constraints,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = one_of(type(self), probs=probs, logits=logits)
        if isinstance(total_count, Tensor):
            like = next(iter(given.values()))
            total_count = total_count.to(getattr(like, "dtype", gw.get_default_dtype()))
        self._set(validate_args, total_count=total_count, **given)

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return gw.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return gw.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = gw.lgamma(n + 1) - gw.lgamma(value + 1) - gw.lgamma(n - value + 1)
        return ways + value * self.logits - n * gw.softplus(self.logits)

    def _most(self, name: str) -> int:
        """The count of trials, if it is the same in the whole batch."""
        most = int(self.total_count.max())
        if (self.total_count != most).any():
            raise NotImplementedError(
                f"Binomial.{name} needs the same total_count in the whole batch"
            )
        return most

    def entropy(self) -> Tensor:
        self._most("entropy")
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = gw.arange(1 + self._most("enumerate_support"), dtype=self._parameter.dtype)
        return self._listed(values.to(self._parameter.device), expand)


class Geometric(_Odds):
    """How many trials fail before one succeeds, each with probability `probs`."""

    support: Any = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, **one_of(type(self), probs=probs, logits=logits))
        if self._validate_args and numbers_of(self.probs) is not None:
            self._check("probs", self.probs, constraints.greater_than(0))

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return gw.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs.detach()
        u = p.new_empty(self._extended_shape(sample_shape)).uniform_()
        u = u.clamp(min=float(gw.finfo(u.dtype).tiny))
        return (u.log() / gw.log1p(-p)).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self.probs
        fails = gw.where((p == 1) & (value == 0), 0, p)
        return value * gw.log1p(-fails) + p.log()

    def entropy(self) -> Tensor:
        p = self.probs
        return binary_cross_entropy_with_logits(self.logits, p, reduction="none") / p


class Poisson(Distribution):
    """How many events happen, at a constant rate.

    >>> import gradwalk as gw
    >>> gw.distributions.Poisson(4.0).variance
    tensor(4.)
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return gw.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gw.xlogy(value, self.rate) - self.rate - gw.lgamma(value + 1)


class NegativeBinomial(_Odds):
    """How many trials succeed, each with probability `probs`, before `total_count` of them fail.

    >>> import gradwalk as gw
    >>> gw.distributions.NegativeBinomial(4, probs=gw.tensor(0.5)).mean
    tensor(4.)
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = one_of(type(self), probs=probs, logits=logits)
        self._set(validate_args, total_count=total_count, **given)
        self.total_count = self.total_count.to(self._parameter.dtype)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / gw.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        # A count at a rate that a gamma distribution draws. A total of 0 has the rate 0.
        with gw.no_grad():
            odds = (-self.logits).exp()
            rates = Gamma(self.total_count, odds, validate_args=False).sample(sample_shape)
            return gw.poisson(rates)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = gw.lgamma(n + value) - gw.lgamma(1 + value) - gw.lgamma(n)
        ways = ways.masked_fill(n + value == 0, 0.0)
        return ways - n * gw.softplus(logits) - value * gw.softplus(-logits)


class ContinuousBernoulli(_Odds):
    """A number from 0 to 1 of density ∝ pˣ (1 − p)¹⁻ˣ: the likelihood of a pixel in a decoder.

    Within `lims`, where the formulas divide 0 by 0, they are the first terms of their series.

    >>> import gradwalk as gw
    >>> gw.distributions.ContinuousBernoulli(0.5).log_prob(gw.tensor(0.3)).abs() < 1e-6
    tensor(True)
    """

    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._set(validate_args, **one_of(type(self), probs=probs, logits=logits))

    def _chosen(self, formula: Any, series: Any) -> Tensor:
        """`formula` of a probability away from 1/2, `series` of its distance from there."""
        p = inside(self.probs)
        low, high = self._lims
        near = (p > low) & (p < high)
        return gw.where(near, series(p - 0.5), formula(gw.where(near, low, p)))

    def _log_norm(self) -> Tensor:
        return self._chosen(
            lambda p: ((gw.log1p(-p) - p.log()) / (1 - 2 * p)).log(),
            lambda d: math.log(2) + (4 / 3 + 104 / 45 * d.square()) * d.square(),
        )

    @property
    def mean(self) -> Tensor:
        return self._chosen(
            lambda p: p / (2 * p - 1) + 1 / (gw.log1p(-p) - p.log()),
            lambda d: 0.5 + (1 / 3 + 16 / 45 * d.square()) * d,
        )

    @property
    def variance(self) -> Tensor:
        return self._chosen(
            lambda p: p * (p - 1) / (1 - 2 * p).square() + 1 / (gw.log1p(-p) - p.log()).square(),
            lambda d: 1 / 12 - (1 / 15 - 128 / 945 * d.square()) * d.square(),
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs
        return self.icdf(
            gw.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits = self.logits
        return value * logits - gw.softplus(logits) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        slanted = self._chosen(
            lambda p: (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1),
            lambda d: value + 0 * d,
        )
        return slanted.clamp(0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        def formula(p: Tensor) -> Tensor:
            low = gw.log1p(-p)
            return (gw.log1p(-p + value * (2 * p - 1)) - low) / (p.log() - low)

        return self._chosen(formula, lambda d: value + 0 * d)

    def entropy(self) -> Tensor:
        p = inside(self.probs)
        return self.mean * (gw.log1p(-p) - p.log()) - self._log_norm() - gw.log1p(-p)
