"""Distributions of powers and of exponentials of an exponential draw: Weibull, Pareto."""

from __future__ import annotations

from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.gamma import Exponential
from gradwalk.distributions.location_scale import _EULER
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
