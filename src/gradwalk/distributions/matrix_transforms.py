"""Transforms of whole matrices, and of parts of a tensor in different ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.transforms import Transform
from gradwalk.tensors.tensor import Tensor


class LowerCholeskyTransform(Transform):
    """A matrix without what is above its diagonal, which becomes positive."""

    bijective = False  # what is above the diagonal is lost
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + gw.diag_embed(gw.diagonal(x, dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + gw.diag_embed(gw.diagonal(y, dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """A matrix as L Lᵀ, for the L of `LowerCholeskyTransform`."""

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(gw.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """D (D − 1) / 2 numbers as the Cholesky factor of a D × D matrix of correlations.

    The tangents hyperbolic of the numbers fill the rows; each takes its share of the length that
    those to its left leave, and the diagonal takes the rest.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        count = shape[-1]
        size = round((1 + math.sqrt(1 + 8 * count)) / 2)
        if size * (size - 1) // 2 != count:
            raise ValueError(f"{count} numbers do not fill the part below a diagonal")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)

    def _call(self, x: Tensor) -> Tensor:
        shape = self.forward_shape(x.shape)
        rows, columns = gw.tril_indices(shape[-1], shape[-1], -1)
        limit = 1 - float(gw.finfo(x.dtype).eps)
        shares: Any = gw.zeros(shape, dtype=x.dtype, device=x.device)
        shares = shares.index_put((..., rows, columns), x.tanh().clamp(-limit, limit))
        left = (1 - shares**2).cumprod(-1).sqrt()
        diagonal = gw.eye(shape[-1], dtype=x.dtype, device=x.device)
        return (shares + diagonal) * gw.cat([gw.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        rows, columns = gw.tril_indices(y.shape[-1], y.shape[-1], -1)
        left = 1 - (y**2).cumsum(-1)
        left = gw.cat([gw.ones_like(left[..., :1]), left[..., :-1]], -1)
        return (y / left.clamp(min=float(gw.finfo(y.dtype).tiny)).sqrt())[
            ..., rows, columns
        ].atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rows, columns = gw.tril_indices(y.shape[-1], y.shape[-1], -2)
        left = (1 - (y**2).cumsum(-1))[..., rows, columns]
        of_tanh = 2 * (math.log(2) - x - gw.softplus(-2 * x))
        return left.log().sum(-1) / 2 + of_tanh.sum(-1)


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
        return self._joined([transform._undo(part) for transform, part in pairs])

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
