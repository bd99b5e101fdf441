"""Independent: dimensions of a batch become dimensions of the event."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution, sum_rightmost
from gradwalk.tensors.tensor import Tensor


class Independent(Distribution):
    """A distribution whose last batch dimensions count as one draw: `log_prob` sums over them.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions import Independent, Normal
    >>> diagonal = Independent(Normal(gw.zeros(3, 2), 1.0), 1)
    >>> diagonal.batch_shape, diagonal.event_shape
    ((3,), (2,))
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch, dims = base_distribution.batch_shape, reinterpreted_batch_ndims
        if not 0 <= dims <= len(batch):
            raise ValueError(
                f"Independent: {type(base_distribution).__name__} has {len(batch)} batch "
                f"dimension(s); reinterpreted_batch_ndims is {dims}"
            )
        self.base_dist = base_distribution
        self.has_rsample = base_distribution.has_rsample
        self.reinterpreted_batch_ndims = dims
        cut = len(batch) - dims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args)

    @property
    def support(self) -> Any:
        inside = self.base_dist.support
        dims = self.reinterpreted_batch_ndims
        return inside if inside is None or not dims else constraints.independent(inside, dims)

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        dims = self.reinterpreted_batch_ndims
        base = self.base_dist.expand((*batch_shape, *self._event_shape[:dims]))
        new = self._get_checked_instance(type(self), _instance)
        Independent.__init__(new, base, dims, self._validate_args)
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            return super().enumerate_support(expand)
        return self.base_dist.enumerate_support(expand)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
