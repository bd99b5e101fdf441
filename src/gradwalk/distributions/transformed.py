"""Distributions of a function of a draw: transformed, log-normal, relaxed choices."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.categorical import _Choice
from gradwalk.distributions.counts import _Odds, inside
from gradwalk.distributions.distribution import Distribution, one_of, sum_rightmost
from gradwalk.distributions.independent import Independent
from gradwalk.distributions.location_scale import Normal
from gradwalk.distributions.transforms import (
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from gradwalk.tensors.tensor import Tensor


class TransformedDistribution(Distribution):
    """The distribution of a draw of `base_distribution` after transforms of its elements.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions import Normal, TransformedDistribution
    >>> from gradwalk.distributions.transforms import TanhTransform
    >>> action = TransformedDistribution(Normal(0.0, 1.0), [TanhTransform(cache_size=1)])
    >>> action.log_prob(gw.tensor(0.0))
    tensor(-0.9189)
    """

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError("TransformedDistribution takes a Transform or a list of them")
        whole, of_base = self._whole, len(base_distribution.event_shape)
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(shape) < whole.event_dim:
            raise ValueError(
                f"the transforms are of {whole.event_dim} dimensions, and a draw has {len(shape)}"
            )
        forward = whole.forward_shape(shape)
        needed = whole.inverse_shape(forward)
        if needed != shape:  # each result has a draw of its own
            base_distribution = base_distribution.expand(needed[: len(needed) - of_base])
        together = whole.event_dim - of_base
        if together > 0:  # a transform of vectors makes one draw of what were several
            base_distribution = Independent(base_distribution, together)
        self.base_dist = base_distribution
        self.has_rsample = base_distribution.has_rsample
        dims = max(
            whole.codomain.event_dim, of_base + whole.codomain.event_dim - whole.domain.event_dim
        )
        cut = len(forward) - dims
        super().__init__(forward[:cut], forward[cut:], validate_args)

    @property
    def support(self) -> Any:
        """Where the transforms lead."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    @property
    def _whole(self) -> ComposeTransform:
        return ComposeTransform(self.transforms)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        shape = self._whole.inverse_shape((*batch_shape, *self.event_shape))
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with gw.no_grad():
            return self._whole(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._whole(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        whole = self._whole
        x = whole._inverse(value)
        slope = whole.log_abs_det_jacobian(x, value)
        others = len(self._event_shape) - whole.codomain.event_dim
        chance = self.base_dist.log_prob(x)
        beyond = others + whole.event_dim - len(self.base_dist.event_shape)
        return sum_rightmost(chance, beyond) - sum_rightmost(slope, others)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._turned(self.base_dist.cdf(self._whole._inverse(value)))

    def icdf(self, value: Tensor) -> Tensor:
        return self._whole(self.base_dist.icdf(self._turned(value)))

    def _turned(self, chance: Tensor) -> Tensor:
        """A chance of at or below, which a falling transform makes one of at or above."""
        sign = self._whole.sign
        return chance if isinstance(sign, int) and sign == 1 else sign * (chance - 0.5) + 0.5

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.transforms})"


class LogNormal(TransformedDistribution):
    """Exp of a normal of mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar = Normal.arg_constraints
    support: Any = constraints.positive
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square()
        return gw.expm1(squared) * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """n + 1 probabilities: n normal numbers after `StickBreakingTransform`."""

    arg_constraints: ClassVar = Normal.arg_constraints
    support: Any = constraints.simplex
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale


class _LogitRelaxedBernoulli(_Odds):
    """The log odds of a relaxed Bernoulli variable: logistic around `logits` / temperature."""

    support: Any = constraints.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate: bool | None) -> None:
        self.temperature = temperature
        self._set(validate, **one_of(RelaxedBernoulli, probs=probs, logits=logits))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = inside(self.probs)
        u = inside(gw.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device))
        return (u.log() - gw.log1p(-u) + p.log() - gw.log1p(-p)) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        ahead = self.logits - value * self.temperature
        return _log(self.temperature) + ahead - 2 * gw.softplus(ahead)


class _ExpRelaxedCategorical(_Choice):
    """The logarithms of a relaxed one-hot vector."""

    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate: bool | None) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        logits = self.logits
        shape = self._extended_shape(sample_shape)
        u = inside(gw.rand(shape, dtype=logits.dtype, device=logits.device))
        return gw.log_softmax((logits - (-u.log()).log()) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[0]
        scores = gw.log_softmax(self.logits - value * self.temperature, -1).sum(-1)
        return scores + math.lgamma(n) + (n - 1) * _log(self.temperature)


class _Relaxed(TransformedDistribution):
    """A draw that is nearly a choice, and has a gradient, at a temperature near to 0."""

    unbounded: type
    transform: type[Transform]

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = self.unbounded(temperature, probs, logits, validate_args)
        super().__init__(base, self.transform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class RelaxedBernoulli(_Relaxed):
    """A number from 0 to 1, near to a Bernoulli variable if the temperature is near to 0."""

    support: Any = constraints.unit_interval
    unbounded = _LogitRelaxedBernoulli
    transform = SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities, near to a one-hot vector if the temperature is near to 0.

    Also known as the Concrete or Gumbel-softmax distribution.
    """

    support: Any = constraints.simplex
    unbounded = _ExpRelaxedCategorical
    transform = ExpTransform


def _log(temperature: Any) -> Any:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)
