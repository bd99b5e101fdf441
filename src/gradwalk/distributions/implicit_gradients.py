"""Gamma and Dirichlet draws that pass gradients to their parameters.

The gradients are implicit (Figurnov and others, "Implicit reparameterization gradients", 2018): a
draw x stays at its quantile F(x; a) when the parameter a changes, so dx/da = −(∂F/∂a) / f(x).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.engine.function import Function
from gradwalk.engine.modes import current
from gradwalk.random.counts import gamma
from gradwalk.random.generator import default_generator
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]

_TERMS = 30  # of the series for small values; the terms fall faster than 2⁻ⁿ
_STEP = 1e-3  # of the differences, in widths of the distribution


def _samples_first(info: Any, in_dims: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Tensors of one shape with the samples of a vmap along the first dimension."""
    return [
        t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
        for t, dim in zip(tensors, in_dims, strict=True)
    ]


class _Draw(Function):
    """A draw for each of its parameters. Inside vmap it runs on batched tensors, or, where only
    transforms around the vmap follow it, once for the parameters of all samples."""

    generate_vmap_rule = True

    @classmethod
    def of(cls, concentration: Tensor) -> Tensor:
        """The draw; an error inside a vmap that was not told what random numbers mean."""
        level = current().level
        if level is not None:
            level.check_draws(concentration)
        drawn: Tensor = cls.apply(concentration)
        return drawn

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, *parameters: Tensor) -> Any:
        if info.randomness == "same":
            return cls.apply(*parameters), None
        return cls.apply(*_samples_first(info, in_dims, parameters)), 0


class StandardGamma(_Draw):
    """A draw of the gamma distribution of rate 1; its gradient is implicit."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        drawn = gamma(concentration)
        drawn = drawn.clamp(min=float(gw.finfo(drawn.dtype).tiny))  # log_prob needs a logarithm
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * _slope(gamma_slope, *ctx.saved_tensors)


class DirichletDraw(_Draw):
    """A draw of the Dirichlet distribution; its gradient is implicit.

    Coordinate i is a beta variable of (concentration i, sum of the others). If its concentration
    moves it, the other coordinates keep their proportions.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        # Gamma draws divided by their sum. Those of concentration a are those of a + 1, times
        # u^(1 / a), which a float does not hold for small a: logarithms do.
        a = concentration.double()
        if default_generator.like == "torch":  # PyTorch's draws, which may round to 0
            drawn = gamma(a)
            drawn = drawn / drawn.sum(-1, keepdim=True)
        else:
            u = gw.rand(a.shape, dtype=a.dtype, device=a.device)
            drawn = gw.softmax(gamma(a + 1).log() + u.log() / a, -1)
        limits = gw.finfo(concentration.dtype)
        drawn = drawn.clamp(float(limits.tiny), 1 - float(limits.eps) / 2).to(concentration.dtype)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        concentration, drawn = ctx.saved_tensors
        others = concentration.sum(-1, keepdim=True) - concentration
        slope = _slope(beta_slope, concentration, others, drawn)
        return slope * (g - (g * drawn).sum(-1, keepdim=True)) / (1 - drawn)


class _Slope(Function):
    """How a draw moves with its parameter. It has no derivative of its own, and says so."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, slope: Callable[..., Array], *tensors: Tensor) -> Any:
        return _Slope.apply(slope, *_samples_first(info, in_dims[1:], tensors)), 0

    @staticmethod
    def forward(ctx: Any, slope: Callable[..., Array], *tensors: Tensor) -> Tensor:
        arrays = [t.detach().cpu().numpy().astype(np.float64) for t in tensors]
        return gw.tensor(slope(*arrays), dtype=tensors[0].dtype, device=tensors[0].device)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise _ONLY_FIRST


class _Final(Function):
    """A slope that is computed, inside vmap, apart from what it depends on."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, slope: Tensor, *tensors: Tensor) -> Tensor:
        return slope

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise _ONLY_FIRST


_ONLY_FIRST = NotImplementedError(
    "rsample of a gamma, beta or Dirichlet distribution has first derivatives only. Fix: "
    "leave out create_graph=True, or draw with sample()."
)


def _slope(slope: Callable[..., Array], *tensors: Tensor) -> Any:
    if current().level is None:
        return _Slope.apply(slope, *tensors)
    return _Final.apply(_Slope.apply(slope, *[t.detach() for t in tensors]), *tensors)


@np.errstate(all="ignore")
def gamma_slope(a: Array, x: Array) -> Array:
    """∂x/∂a of a gamma draw x of concentration a and rate 1."""
    from scipy.special import digamma, gammainc, gammaincc, gammaln

    # F = xᵃ / Γ(a + 1) · Σ (−x)ⁿ / n! · a / (a + n), which is exact for small x.
    small = np.minimum(x, 1.0)
    series, its_slope = _series(a, lambda n: -small / n)
    at_small = -small * np.exp(small) / a
    at_small *= series * (np.log(small) - digamma(a + 1)) + its_slope
    density = np.exp((a - 1) * np.log(x) - x - gammaln(a))
    elsewhere = _by_differences(
        a, lambda b: gammainc(b, x), lambda b: gammaincc(b, x), x > a, density
    )
    return np.where(x < 1, at_small, elsewhere)


@np.errstate(all="ignore")
def beta_slope(a: Array, b: Array, x: Array) -> Array:
    """∂x/∂a of a beta draw x of concentrations a and b."""
    from scipy.special import betainc, betaln, digamma

    # F = xᵃ / (a B(a, b)) · Σ (1 − b)(2 − b)…(n − b) xⁿ / n! · a / (a + n)
    near = x * (1 + b) < 0.5
    small = np.where(near, x, 0.1 / (1 + b))
    series, its_slope = _series(a, lambda n: (n - b) * small / n)
    at_small = -small * np.exp(-(b - 1) * np.log1p(-small)) / a
    trend = np.log(small) - digamma(a + 1) + digamma(a + b)
    at_small *= series * trend + its_slope
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - betaln(a, b))
    elsewhere = _by_differences(
        a, lambda c: betainc(c, b, x), lambda c: betainc(b, c, 1 - x), x > a / (a + b), density
    )
    return np.where(near, at_small, elsewhere)


def _series(a: Array, ratio: Callable[[int], Array]) -> tuple[Array, Array]:
    """Σ tₙ · a / (a + n) and its derivative by a, where tₙ = tₙ₋₁ · ratio(n) and t₀ = 1."""
    term = total = np.ones_like(a)
    slope = np.zeros_like(a)
    for n in range(1, _TERMS):
        term = term * ratio(n)
        total = total + term * a / (a + n)
        slope = slope + term * n / (a + n) ** 2
    return total, slope


def _by_differences(
    a: Array,
    lower: Callable[[Array], Array],
    upper: Callable[[Array], Array],
    high: Array,
    density: Array,
) -> Array:
    """−(∂F/∂a) / density, by differences of order 4 of the smaller tail of F."""
    h = _STEP * a / (1 + np.sqrt(a))

    def slope(tail: Callable[[Array], Array]) -> Array:
        return (8 * (tail(a + h) - tail(a - h)) - (tail(a + 2 * h) - tail(a - 2 * h))) / (12 * h)

    return np.where(high, slope(upper), -slope(lower)) / density
