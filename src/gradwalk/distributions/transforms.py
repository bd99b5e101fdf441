"""Transforms: functions of elements or vectors, their inverses and the logarithm of their slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import sum_rightmost
from gradwalk.tensors.tensor import Tensor


class Transform:
    """y = f(x), its inverse `inv`, and `log_abs_det_jacobian(x, y)`, the logarithm of |dy/dx|.

    A subclass defines `_call`, `_inverse` and the logarithm. One of vectors has a `domain` with
    `event_dim` 1, such as `constraints.real_vector`, and one logarithm for each of them. With
    `cache_size=1` the inverse of the last result is the x it came from, exactly.
    """

    bijective = True
    sign: Any = 1
    domain: Any = constraints.real

    @property
    def event_dim(self) -> int:
        """How many dimensions x has: 0 if the transform works element by element."""
        dims: int = self.domain.event_dim
        return dims

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of y for an x of this shape."""
        return tuple(shape)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"a transform keeps 0 or 1 result, not cache_size={cache_size}")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = (x, y)
        return y

    def _undo(self, y: Tensor) -> Tensor:
        return self._last[0] if self._cache_size and y is self._last[1] else self._inverse(y)

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        return _InverseTransform(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy/dx| where y is the transform of x."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, forward: Transform) -> None:
        super().__init__()
        self.inverse = forward

    @property
    def sign(self) -> Any:
        return self.inverse.sign

    @property
    def event_dim(self) -> int:
        return self.inverse.event_dim

    @property
    def inv(self) -> Transform:
        return self.inverse

    def _call(self, x: Tensor) -> Tensor:
        return self.inverse._undo(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.inverse.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{self.inverse!r}.inv"


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def event_dim(self) -> int:
        return max((part.event_dim for part in self.parts), default=0)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._undo(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        dims = self.event_dim
        total: Any = gw.zeros(x.shape[: x.ndim - dims], dtype=x.dtype, device=x.device)
        for part in self.parts:
            after = part(x)
            slope = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(slope, dims - part.event_dim)
            x = after
        return total


class IndependentTransform(Transform):
    """A transform of each element, or vector, of the last dimensions: the logarithms are summed."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    @property
    def event_dim(self) -> int:
        return self.base_transform.event_dim + self.reinterpreted_batch_ndims

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._undo(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(slope, self.reinterpreted_batch_ndims)


class ExpTransform(Transform):
    """y = eˣ."""

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(Transform):
    """y = loc + scale · x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        if event_dim:
            self.domain = constraints.independent(constraints.real, event_dim)

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

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - gw.softplus(-2 * x))


class PowerTransform(Transform):
    """y = x^exponent, of positive numbers."""

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

    def _call(self, x: Tensor) -> Tensor:
        return gw.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -gw.softplus(-x)


class AbsTransform(Transform):
    """y = |x|; of the two inverses, the positive one."""

    bijective = False

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class CumulativeDistributionTransform(Transform):
    """y = the probability of a draw at or below x, of a distribution of one variable."""

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


class SoftmaxTransform(Transform):
    """y = softmax x, of vectors; it has no density, since x is known up to a number only."""

    bijective = False
    domain = constraints.real_vector

    def _call(self, x: Tensor) -> Tensor:
        return gw.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers as n + 1 probabilities: each takes a share of what the ones before it leave.

    The share is the sigmoid of x − log(number of those that follow): at 0 all are equal.
    """

    domain = constraints.real_vector

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def _logits(self, x: Tensor) -> Tensor:
        following = gw.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)
        return x - following.log()

    def _call(self, x: Tensor) -> Tensor:
        limits = gw.finfo(x.dtype)
        shares = gw.sigmoid(self._logits(x)).clamp(float(limits.tiny), 1 - float(limits.eps))
        one = gw.ones_like(x[..., :1])
        left = gw.cat([one, (1 - shares).cumprod(-1)], -1)
        return gw.cat([shares, one], -1) * left

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=float(gw.finfo(y.dtype).tiny))
        return taken.log() - left.log() - self._logits(gw.zeros_like(taken))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (y[..., :-1].log() - gw.softplus(self._logits(x))).sum(-1)


identity_transform = ComposeTransform([])
