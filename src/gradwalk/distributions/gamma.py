"""The gamma distribution and its relatives: exponential, chi-squared, beta, Dirichlet."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution
from gradwalk.distributions.implicit_gradients import DirichletDraw, StandardGamma
from gradwalk.tensors.tensor import Tensor


class Exponential(Distribution):
    """The time until an event that happens at a constant rate.

    >>> import gradwalk as gw
    >>> gw.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar = {"rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    stddev = mean

    @property
    def mode(self) -> Tensor:
        return gw.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        empty = self.rate.detach().new_empty(self._extended_shape(sample_shape))
        return empty.exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -gw.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -gw.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Gamma(Distribution):
    """The density xᵃ⁻¹ e⁻ʳˣ rᵃ / Γ(a) of concentration a and rate r.

    `rsample` passes implicit gradients to the concentration.

    >>> import gradwalk as gw
    >>> gw.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Any = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return StandardGamma.of(self.concentration.expand(shape)) / self.rate

    def log_prob(self, value: Tensor | float) -> Tensor:
        value = gw.as_tensor(value, dtype=self.rate.dtype)  # a number too, as in PyTorch
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return a * rate.log() + gw.xlogy(a - 1, value) - rate * value - gw.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gw.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + gw.lgamma(a) + (1 - a) * gw.digamma(a)


class Chi2(Gamma):
    """The sum of the squares of `df` standard normals."""

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(Distribution):
    """Probabilities that sum to 1, along the last dimension of `concentration`.

    >>> import gradwalk as gw
    >>> gw.distributions.Dirichlet(gw.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex
    has_rsample = True
    concentration: Tensor

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration.shape[-1:], concentration=concentration)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        corners = (self.concentration < 1).all(-1, keepdim=True)  # no mode inside
        largest = gw.nn.functional.one_hot(self.concentration.argmax(-1), above.shape[-1])
        return gw.where(corners, largest.to(above.dtype), above / above.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return DirichletDraw.of(self.concentration.expand(self._extended_shape(sample_shape)))

    def _log_beta(self) -> Tensor:
        return gw.lgamma(self.concentration).sum(-1) - gw.lgamma(self.concentration.sum(-1))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gw.xlogy(self.concentration - 1, value).sum(-1) - self._log_beta()

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        spread = (total - a.shape[-1]) * gw.digamma(total)
        return self._log_beta() + spread - ((a - 1) * gw.digamma(a)).sum(-1)


class Beta(Distribution):
    """A probability: the density xᵃ⁻¹ (1 − x)ᵇ⁻¹ / B(a, b), a = concentration1, b = concentration0.

    >>> import gradwalk as gw
    >>> gw.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints: ClassVar = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def _both(self) -> Dirichlet:
        """The distribution of (x, 1 − x)."""
        together = gw.stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(together, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._both.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._both.variance[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._both.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._both.log_prob(gw.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._both.entropy()


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared draws, each divided by its degrees of freedom.

    >>> import gradwalk as gw
    >>> gw.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        return gw.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        top = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return gw.where(self.df1 > 2, top, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        spread = 2 * n.square() * (m + n - 2) / (m * (n - 2).square() * (n - 4))
        return gw.where(n > 4, spread, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        above, below = (
            Gamma(df / 2, df / 2, validate_args=False).rsample(sample_shape)
            for df in (self.df1, self.df2)
        )
        return (above / below.clamp(min=float(gw.finfo(below.dtype).tiny))).clamp(
            min=float(gw.finfo(above.dtype).tiny)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        m, n, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        constant = gw.lgamma(m + n) - gw.lgamma(m) - gw.lgamma(n) + m * ratio.log()
        return constant + (m - 1) * value.log() - (m + n) * gw.log1p(ratio * value)
