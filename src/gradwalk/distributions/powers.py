"""Distributions of powers and of exponentials of a draw: Weibull, Pareto, and others."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.gamma import Exponential, Gamma
from gradwalk.distributions.location_scale import _EULER, Uniform
from gradwalk.distributions.transformed import TransformedDistribution
from gradwalk.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from gradwalk.tensors.tensor import Tensor


class Weibull(TransformedDistribution):
    """scale · E^(1 / concentration) of a standard exponential E: the time until a part fails.

    >>> import gradwalk as gw
    >>> gw.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support: Any = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, scale=scale, concentration=concentration)
        base = Exponential(gw.ones_like(self.scale), validate_args)
        power = PowerTransform(exponent=1 / self.concentration)
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args)

    def _moment(self, k: int) -> Tensor:
        """The mean of (draw / scale)ᵏ."""
        return gw.lgamma(1 + k / self.concentration).exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Pareto(TransformedDistribution):
    """scale · e^(E / alpha) of a standard exponential E: at least `scale`, with a long tail.

    >>> import gradwalk as gw
    >>> gw.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}
    alpha: Tensor
    scale: Tensor

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, scale=scale, alpha=alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite at 1 and below
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # infinite at 2 and below
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)


class InverseGamma(TransformedDistribution):
    """1 / a gamma draw.

    >>> import gradwalk as gw
    >>> gw.distributions.InverseGamma(3.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar = Gamma.arg_constraints
    support: Any = constraints.positive
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(gw.full((), -1.0, dtype=base.rate.dtype)))
        if validate_args is not None:
            self._validate_args = validate_args

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return gw.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return gw.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + gw.lgamma(a) - (1 + a) * gw.digamma(a)


class Kumaraswamy(TransformedDistribution):
    """From 0 to 1, like a beta distribution, with a cumulative probability in closed form.

    >>> import gradwalk as gw
    >>> gw.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)
        a, b = self.concentration1, self.concentration0
        base = Uniform(gw.zeros_like(a), gw.ones_like(a), validate_args)
        steps = [PowerTransform(1 / b), AffineTransform(1.0, -1.0), PowerTransform(1 / a)]
        super().__init__(base, steps, validate_args)

    def _moment(self, k: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        up = 1 + k / a
        return (b.log() + gw.lgamma(up) + gw.lgamma(b) - gw.lgamma(up + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        top = (gw.log1p(-1 / a) - gw.log1p(-1 / (a * b)) - b.log()) / a
        return gw.where((a < 1) | (b < 1), math.nan, top.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = gw.digamma(b + 1) + _EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
