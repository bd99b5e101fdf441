"""Distributions that are shifted and scaled copies of one curve."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution
from gradwalk.distributions.gamma import Chi2
from gradwalk.tensors.tensor import Tensor

_EULER = 0.57721566490153286060  # the Euler–Mascheroni constant
_LOG_ROOT_2PI = math.log(2 * math.pi) / 2


class _LocationScale(Distribution):
    """A curve with a middle, `loc`, and a width, `scale`."""

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    def _standard(self, value: Tensor) -> Tensor:
        """A checked value, moved and scaled to the standard curve."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    >>> import gradwalk as gw
    >>> normal = gw.distributions.Normal(gw.tensor([0.0, 1.0]), 1.0)
    >>> normal.log_prob(gw.tensor(0.0))
    tensor([-0.9189, -1.4189])
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return (
            self.loc + _standard_normal(self.loc, self._extended_shape(sample_shape)) * self.scale
        )

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(value).square() / 2 - self.scale.log() - _LOG_ROOT_2PI

    def cdf(self, value: Tensor) -> Tensor:
        return (1 + gw.erf(self._standard(value) / math.sqrt(2))) / 2

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * gw.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _LOG_ROOT_2PI + self.scale.log()


def _standard_normal(like: Tensor, shape: Any) -> Tensor:
    return gw.randn(shape, dtype=like.dtype, device=like.device)


class Laplace(_LocationScale):
    """The density e^(−|x − loc| / scale) / (2 scale)."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        empty = self.loc.detach().new_empty(self._extended_shape(sample_shape))
        u = empty.uniform_(float(gw.finfo(self.loc.dtype).eps) - 1, 1)
        return self.loc - self.scale * u.sign() * gw.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return (1 - z.sign() * gw.expm1(-z.abs())) / 2

    def icdf(self, value: Tensor) -> Tensor:
        from_middle = value - 0.5
        return self.loc - self.scale * from_middle.sign() * gw.log1p(-2 * from_middle.abs())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The ratio of two independent normals: no mean, infinite variance."""

    @property
    def mean(self) -> Tensor:
        return gw.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return gw.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = gw.rand(shape, dtype=gw.float64, device=self.loc.device)
        return self.loc + (math.pi * (u - 0.5)).tan().to(self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - gw.log1p(self._standard(value).square())

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The largest of many draws; the difference of two is logistic."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = gw.rand(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        limits = gw.finfo(self.loc.dtype)
        tiny = float(limits.tiny)
        return self.icdf(tiny + u * (1 - float(limits.eps) - tiny))

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class StudentT(_LocationScale):
    """A normal whose variance is unknown: `df` degrees of freedom say how well it is known."""

    arg_constraints: ClassVar = {"df": constraints.positive, **_LocationScale.arg_constraints}
    df: Tensor

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return gw.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / gw.where(self.df > 2, self.df - 2, 1.0)
        return gw.where(self.df > 2, finite, gw.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        normal = _standard_normal(self.loc, self._extended_shape(sample_shape))
        spread = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * normal * (spread / self.df).rsqrt()

    def _log_total(self) -> Tensor:
        """The logarithm of the area under (1 + z² / df)^(−(df + 1) / 2)."""
        halves = gw.lgamma(self.df / 2) - gw.lgamma((self.df + 1) / 2)
        return self.scale.log() + 0.5 * self.df.log() + math.log(math.pi) / 2 + halves

    def log_prob(self, value: Tensor) -> Tensor:
        squared = self._standard(value).square()
        return -(self.df + 1) / 2 * gw.log1p(squared / self.df) - self._log_total()

    def entropy(self) -> Tensor:
        half = (self.df + 1) / 2
        return half * (gw.digamma(half) - gw.digamma(self.df / 2)) + self._log_total()


class _Half(Distribution):
    """The absolute value of a distribution around 0."""

    arg_constraints: ClassVar = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    whole: type[_LocationScale]
    scale: Tensor

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, scale=scale)

    @property
    def base_dist(self) -> Distribution:
        """The distribution around 0."""
        return self.whole(0.0, self.scale, validate_args=False)

    @property
    def mode(self) -> Tensor:
        return gw.zeros_like(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gw.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal of mean 0."""

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable around 0."""

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return gw.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return gw.full_like(self.scale, math.inf)


class Uniform(Distribution):
    """Every number from `low` to below `high` is as likely as another.

    >>> import gradwalk as gw
    >>> gw.distributions.Uniform(0.0, 4.0).variance
    tensor(1.3333)
    """

    arg_constraints: ClassVar = {"low": constraints.real, "high": constraints.real}
    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)
        if self._validate_args:
            self._check("high", self.high, constraints.greater_than(self.low))

    @property
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return gw.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = gw.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return gw.where(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()
