"""The von Mises distribution: angles around a mean direction."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution
from gradwalk.tensors.tensor import Tensor


class VonMises(Distribution):
    """Angles with the density e^(concentration · cos(x − loc)) / (2π I₀(concentration)).

    The mean and the variance are those of directions.

    >>> import gradwalk as gw
    >>> gw.distributions.VonMises(0.0, 2.0).log_prob(gw.tensor(0.0))
    tensor(-0.6619)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return 1 - gw.special.i1e(k) / gw.special.i0e(k)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        log_i0 = gw.special.i0e(k).log() + k
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - log_i0

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Rejection from a wrapped Cauchy distribution (Best and Fisher, 1979), in float64."""
        shape = self._extended_shape(sample_shape)
        with gw.no_grad():
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # Of small concentrations, rho loses its digits, and the series has them.
            r = gw.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))
            angle = gw.zeros(shape, dtype=k.dtype, device=k.device)
            done = gw.zeros(shape, dtype=gw.bool, device=k.device)
            while not done.all():
                # As in PyTorch, an angle may be drawn again while others wait for theirs.
                u1, u2, u3 = gw.rand((3, *shape), dtype=k.dtype, device=k.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = gw.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accepted
            turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
