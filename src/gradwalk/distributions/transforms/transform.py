"""Transforms: functions of elements or vectors, their inverses and the logarithm of their slope."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Sequence
from typing import Any, Self

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
    domain: Any = constraints.real
    codomain: Any = constraints.real

    @property
    def event_dim(self) -> int:
        """How many dimensions x has: 0 if the transform works element by element."""
        dims: int = self.domain.event_dim
        return dims

    @property
    def sign(self) -> Any:
        """1 where y grows with x, -1 where it falls; of transforms of numbers that do either."""
        raise NotImplementedError(f"{type(self).__name__} neither grows nor falls throughout")

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of y for an x of this shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of x for a y of this shape."""
        return tuple(shape)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"a transform keeps 0 or 1 result, not cache_size={cache_size}")
        self._begin(cache_size)
        super().__init__()  # a program's transform may be a Module, too

    def _begin(self, cache_size: int) -> None:
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        self._inverted: Any = lambda: None  # the inverse, while something refers to it

    def with_cache(self, cache_size: int = 1) -> Self:
        """The same transform, that keeps its last result or does not."""
        if cache_size == self._cache_size:
            return self
        copied = copy.copy(self)
        copied._begin(cache_size)
        return copied

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and _same(self._facts(), other._facts()))

    __hash__ = object.__hash__

    def _facts(self) -> list[Any]:
        """What two equal transforms have in common."""
        unlike = ("_cache_size", "_cached_x_y", "_inverted", "domain", "codomain")
        return [value for name, value in sorted(vars(self).items()) if name not in unlike]

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = (x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        return (
            self._cached_x_y[0]
            if self._cache_size and y is self._cached_x_y[1]
            else self._inverse(y)
        )

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        found = self._inverted()
        if found is None:
            found = _InverseTransform(self)
            self._inverted = weakref.ref(found)
        return found

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy/dx| where y is the transform of x."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(one: Any, other: Any) -> bool:
    """Whether two facts, lists of facts or tensors are equal."""
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    equal = one == other
    return equal if isinstance(equal, bool) else bool(gw.as_tensor(equal).all())


class _InverseTransform(Transform):
    def __init__(self, forward: Transform) -> None:
        super().__init__(forward._cache_size)
        self.inverse = forward

    @property
    def domain(self) -> Any:
        return self.inverse.codomain

    @property
    def codomain(self) -> Any:
        return self.inverse.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.inverse.bijective

    @property
    def sign(self) -> Any:
        return self.inverse.sign

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inverse.with_cache(cache_size).inv

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self.inverse.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self.inverse.forward_shape(shape)

    @property
    def inv(self) -> Transform:
        return self.inverse

    def _call(self, x: Tensor) -> Tensor:
        return self.inverse._inv_call(x)

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
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def domain(self) -> Any:
        dims = 0
        for part in reversed(self.parts):
            more = part.domain.event_dim - part.codomain.event_dim
            dims = max(dims + more, part.domain.event_dim)
        return _with_dims(self.parts[0].domain, dims) if self.parts else constraints.real

    @property
    def codomain(self) -> Any:
        dims = 0
        for part in self.parts:
            more = part.codomain.event_dim - part.domain.event_dim
            dims = max(dims + more, part.codomain.event_dim)
        return _with_dims(self.parts[-1].codomain, dims) if self.parts else constraints.real

    @property
    def inv(self) -> Transform:
        found = self._inverted()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inverted = weakref.ref(found)
            found._inverted = weakref.ref(self)
        return found

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        dims = self.event_dim
        total: Any = gw.zeros(x.shape[: x.ndim - dims], dtype=x.dtype, device=x.device)
        for part in self.parts:
            after = part(x)
            slope = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(slope, dims - part.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
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
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    @property
    def domain(self) -> Any:
        base = self.base_transform.domain
        return constraints.independent(base, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        base = self.base_transform.codomain
        return constraints.independent(base, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(slope, self.reinterpreted_batch_ndims)


def _with_dims(constraint: Any, dims: int) -> Any:
    """A constraint of as many dimensions."""
    more = dims - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


identity_transform = ComposeTransform([])
