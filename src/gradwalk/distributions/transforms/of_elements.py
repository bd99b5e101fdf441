"""Transforms of every element alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import sum_rightmost
from gradwalk.distributions.transforms.transform import Transform
from gradwalk.tensors.tensor import Tensor


class _Elementwise(Transform):
    """A transform whose own tensors are broadcast against x."""

    def _tensors(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return tuple(np.broadcast_shapes(tuple(shape), *(np.shape(t) for t in self._tensors())))

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self.forward_shape(shape)


class ExpTransform(Transform):
    """y = eˣ."""

    sign = 1
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(_Elementwise):
    """y = loc + scale · x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        if event_dim:
            self.domain = constraints.independent(constraints.real, event_dim)
            self.codomain = self.domain

    def _tensors(self) -> tuple[Any, ...]:
        return self.loc, self.scale

    @property
    def sign(self) -> Any:
        return gw.sign(gw.as_tensor(self.scale))

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = gw.zeros_like(x) + gw.as_tensor(self.scale, dtype=x.dtype).abs().log()
        return sum_rightmost(slope, self.event_dim)


class SigmoidTransform(Transform):
    """y = 1 / (1 + e⁻ˣ)."""

    sign = 1
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = gw.finfo(x.dtype)
        return gw.sigmoid(x).clamp(float(limits.tiny), 1 - float(limits.eps))

    def _inverse(self, y: Tensor) -> Tensor:
        limits = gw.finfo(y.dtype)
        y = y.clamp(float(limits.tiny), 1 - float(limits.eps))
        return y.log() - gw.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -gw.softplus(-x) - gw.softplus(x)


class TanhTransform(Transform):
    """y = tanh x.

    Far from 0, y rounds to ±1 and has no inverse: pass `cache_size=1` to get `log_prob` of what
    `rsample` drew.
    """

    sign = 1
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - gw.softplus(-2 * x))


class PowerTransform(_Elementwise):
    """y = x^exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def _tensors(self) -> tuple[Any, ...]:
        return (self.exponent,)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = gw.as_tensor(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SoftplusTransform(Transform):
    """y = log(1 + eˣ)."""

    sign = 1
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return gw.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -gw.softplus(-x)


class AbsTransform(Transform):
    """y = |x|; of the two inverses, the positive one."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class CumulativeDistributionTransform(Transform):
    """y = the probability of a draw at or below x, of a distribution of one variable."""

    sign = 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
