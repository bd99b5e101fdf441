"""Transforms of the shape, and of parts of a tensor in different ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import sum_rightmost
from gradwalk.distributions.transforms.transform import Transform
from gradwalk.tensors.tensor import Tensor


class ReshapeTransform(Transform):
    """The same elements in another shape."""

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(f"{self.in_shape} and {self.out_shape} have other numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return _replaced(shape, self.out_shape, self.in_shape)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        lead = x.shape[: x.ndim - len(self.in_shape)]
        return gw.zeros(lead, dtype=x.dtype, device=x.device)


def _replaced(shape: Any, end: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with another end."""
    cut = len(shape) - len(end)
    if cut < 0 or tuple(shape[cut:]) != end:
        raise ValueError(f"the shape ends in {end}, not {tuple(shape)}")
    return (*shape[:cut], *by)


class _Parted(Transform):
    """Transforms of parts of a tensor along one dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(transform.bijective for transform in self.transforms)

    def _limits(self, sets: list[Any]) -> Any:
        raise NotImplementedError

    @property
    def domain(self) -> Any:
        return self._limits([transform.domain for transform in self.transforms])

    @property
    def codomain(self) -> Any:
        return self._limits([transform.codomain for transform in self.transforms])

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([f(p) for f, p in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return self._joined([transform._inv_call(part) for transform, part in pairs])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return self._joined([f.log_abs_det_jacobian(before, after) for f, before, after in parts])


class StackTransform(_Parted):
    """A transform for each slice along a dimension."""

    def _limits(self, sets: list[Any]) -> Any:
        return constraints.stack(sets, self.dim)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return gw.stack(parts, self.dim)


class CatTransform(_Parted):
    """A transform for each part along a dimension; `lengths` are those of the parts, 1 each."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    def _limits(self, sets: list[Any]) -> Any:
        return constraints.cat(sets, self.dim, self.lengths)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return gw.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        dims = self.event_dim
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        slopes = [
            sum_rightmost(f.log_abs_det_jacobian(before, after), dims - f.event_dim)
            for f, before, after in parts
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + dims
        return gw.cat(slopes, dim) if dim < 0 else sum(slopes[1:], slopes[0])
