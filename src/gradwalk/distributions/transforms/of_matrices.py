"""Transforms to matrices of some kind."""

from __future__ import annotations

import math
from typing import Any

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import tril_matrix_to_vec, vec_to_tril_matrix
from gradwalk.distributions.transforms.transform import Transform
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
        limit = 1 - float(gw.finfo(x.dtype).eps)
        shares: Any = vec_to_tril_matrix(x.tanh().clamp(-limit, limit), -1)
        left = (1 - shares**2).cumprod(-1).sqrt()
        diagonal = gw.eye(shares.shape[-1], dtype=x.dtype, device=x.device)
        return (shares + diagonal) * gw.cat([gw.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y**2).cumsum(-1)
        left = gw.cat([gw.ones_like(left[..., :1]), left[..., :-1]], -1)
        shares = y / left.clamp(min=float(gw.finfo(y.dtype).tiny)).sqrt()
        return tril_matrix_to_vec(shares, -1).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - (y**2).cumsum(-1), -2)
        of_tanh = 2 * (math.log(2) - x - gw.softplus(-2 * x))
        return left.log().sum(-1) / 2 + of_tanh.sum(-1)
