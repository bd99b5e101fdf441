"""One of several: Categorical, OneHotCategorical, Multinomial."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.counts import Binomial, inside
from gradwalk.distributions.distribution import ProbsOrLogits, derived, one_of
from gradwalk.nn.functional import one_hot
from gradwalk.tensors.tensor import Tensor


class _Choice(ProbsOrLogits):
    """Probabilities along the last dimension, given as `probs` or as `logits`, their logarithms.

    They are normalized here.
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _event_is_vector = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        ((name, given),) = one_of(type(self), probs=probs, logits=logits).items()
        if given.ndim < 1:
            raise ValueError(f"{type(self).__name__}: {name} needs at least one dimension")
        if name == "probs":
            given = given / given.sum(-1, keepdim=True)
        else:
            given = given - gw.logsumexp(given, -1, keepdim=True)
        event = given.shape[-1:] if self._event_is_vector else ()
        self._set(validate_args, event, **{name: given})

    @derived
    def probs(self) -> Tensor:
        """The probability of each choice."""
        return gw.softmax(self.logits, -1)

    @derived
    def logits(self) -> Tensor:
        """The logarithm of the probability of each choice."""
        return inside(self.probs).log()

    @property
    def _categorical(self) -> Categorical:
        return Categorical(logits=self.logits, validate_args=False)

    def _drawn(self, sample_shape: Any) -> Tensor:
        """Draw indices of choices."""
        shape = (*sample_shape, *self._batch_shape)
        rows = self.probs.detach().reshape(-1, self.param_shape[-1])
        count = math.prod(sample_shape)
        if not math.prod(shape):
            return gw.empty(shape, dtype=gw.int64, device=rows.device)
        return gw.multinomial(rows, count, True).T.reshape(shape)

    def _log_prob_of(self, index: Tensor) -> Tensor:
        """The logarithm of the probability of the choices with these indices."""
        shape = np.broadcast_shapes(index.shape, self._batch_shape)
        logits = self.logits.expand(*shape, self.param_shape[-1])
        return logits.gather(-1, index.expand(shape).long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        least = float(gw.finfo(self._parameter.dtype).min)
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)


class Categorical(_Choice):
    """An index, drawn with the probabilities along the last dimension.

    >>> import gradwalk as gw
    >>> choice = gw.distributions.Categorical(probs=gw.tensor([1.0, 3.0]))
    >>> choice.log_prob(gw.tensor([0, 1])).exp()
    tensor([0.2500, 0.7500])
    """

    has_enumerate_support = True
    _event_is_vector = False

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self.param_shape[-1] - 1)

    @property
    def mean(self) -> Tensor:
        return self._parameter.new_full(self._batch_shape, math.nan)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self._parameter.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._drawn(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob_of(value)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        choices = gw.arange(self.param_shape[-1], device=self._parameter.device)
        return self._listed(choices, expand)


class OneHotCategorical(_Choice):
    """Vectors with a 1 at the index drawn and 0 elsewhere."""

    support: Any = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._vectors(self._parameter.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _vectors(self, index: Tensor) -> Tensor:
        return one_hot(index, self.param_shape[-1]).to(self._parameter.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._vectors(self._drawn(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob_of(value.argmax(-1))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.param_shape[-1]
        every = gw.eye(n, dtype=self._parameter.dtype, device=self._parameter.device)
        return self._listed(every, expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradient is that of the probabilities (Bengio and others, 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(_Choice):
    """How often each choice is drawn, in `total_count` draws."""

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count is one int for the whole batch")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._drawn((self.total_count, *sample_shape))
        counts = self._parameter.new_zeros(self._extended_shape(sample_shape))
        ones = gw.ones(drawn.movedim(0, -1).shape, dtype=counts.dtype, device=counts.device)
        return counts.scatter_add(-1, drawn.movedim(0, -1), ones)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        never = (value == 0) & (self.logits == -math.inf)
        powers = (gw.where(never, 0, self.logits) * value).sum(-1)
        return gw.lgamma(value.sum(-1) + 1) - gw.lgamma(value + 1).sum(-1) + powers

    def entropy(self) -> Tensor:
        n = self._parameter.new_tensor(float(self.total_count))
        each = Binomial(self.total_count, probs=self.probs, validate_args=False)
        counts = each.enumerate_support(expand=False)[1:]
        repeats = (each.log_prob(counts).exp() * gw.lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - gw.lgamma(n + 1) + repeats
