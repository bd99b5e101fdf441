"""Mixtures: one of several distributions, chosen at random."""

from __future__ import annotations

from typing import Any, Self

import gradwalk as gw
from gradwalk.distributions.categorical import Categorical
from gradwalk.distributions.constraints import Constraint
from gradwalk.distributions.distribution import Distribution
from gradwalk.tensors.tensor import Tensor


class MixtureSameFamily(Distribution):
    """A draw of one of the distributions along the last batch dimension of the components.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(gw.tensor([0.25, 0.75]))
    >>> MixtureSameFamily(weights, Normal(gw.tensor([0.0, 4.0]), 1.0)).mean
    tensor(3.)
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "the mixture_distribution of MixtureSameFamily is a Categorical, not a "
                f"{type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "the component_distribution of MixtureSameFamily is a Distribution, not a "
                f"{type(component_distribution).__name__}"
            )
        *batch, count = component_distribution.batch_shape or (0,)
        choices = mixture_distribution.logits.shape[-1]
        if choices != count or not _fits(mixture_distribution.batch_shape, tuple(batch)):
            raise ValueError(
                f"MixtureSameFamily: weights of batch shape {mixture_distribution.batch_shape} of "
                f"{choices} components do not fit components of batch shape "
                f"{component_distribution.batch_shape}, whose last dimension counts them"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        super().__init__(tuple(batch), component_distribution.event_shape, validate_args)

    @property
    def support(self) -> Any:
        inner = self.component_distribution.support
        return Constraint(
            f"{inner} of some component",
            lambda x: inner.check(self._beside_components(x)).all(-1),
            event_dim=inner.event_dim,
            is_discrete=inner.is_discrete,
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        count = self.component_distribution.batch_shape[-1]
        new.component_distribution = self.component_distribution.expand((*batch_shape, count))
        new.mixture_distribution = self.mixture_distribution.expand(batch_shape)
        return new

    def _beside_components(self, x: Tensor) -> Tensor:
        """A value with a dimension for the components, in front of those of the event."""
        return x.unsqueeze(-1 - len(self._event_shape))

    def _weighted(self, x: Tensor) -> Tensor:
        """The mean of one result per component."""
        probs = self.mixture_distribution.probs
        probs = probs.reshape(*probs.shape, *(1,) * len(self._event_shape))
        return (probs * x).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        parts = self.component_distribution
        between = (parts.mean - self._beside_components(self.mean)).square()
        return self._weighted(parts.variance) + self._weighted(between)

    def cdf(self, value: Tensor) -> Tensor:
        chances = self.component_distribution.cdf(self._beside_components(value))
        return (chances * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self.component_distribution.log_prob(self._beside_components(value))
        weights = gw.log_softmax(self.mixture_distribution.logits, -1)
        return gw.logsumexp(each + weights, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with gw.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            events = len(self._event_shape)
            axis = drawn.ndim - events - 1
            chosen = chosen.expand(drawn.shape[:axis])
            index = chosen.reshape(*chosen.shape, *(1,) * (events + 1))
            index = index.expand(*chosen.shape, 1, *self._event_shape)
            return drawn.gather(axis, index).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution}, {self.component_distribution})"


def _fits(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether two batch shapes broadcast."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
