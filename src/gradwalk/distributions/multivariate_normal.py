"""Normal vectors with a covariance: any, or one of low rank and a diagonal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution, derived, one_of
from gradwalk.tensors.tensor import Tensor


def root_of_inverse(matrix: Tensor) -> Tensor:
    """The Cholesky factor of a matrix's inverse, without the inverse, which rounds more.

    With a Cholesky factor of the matrix turned by 180°, P = UUᵀ with an upper U, so P⁻¹ = U⁻ᵀU⁻¹.
    """
    turned: Any = gw.linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1)
    one = gw.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    made: Tensor = gw.linalg.solve_triangular(turned.mT, one, upper=False)
    return made


class OfOneMatrix(Distribution):
    """Distributions of which a covariance, its inverse or its Cholesky factor is given."""

    arg_constraints: ClassVar = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    scale_tril: Tensor

    def _set_with(
        self, name: str, matrix: Tensor, validate_args: bool | None, event: Any, **others: Any
    ) -> None:
        self._set(validate_args, event, **others, **{name: matrix})
        if name != "scale_tril":
            matrix = self.__dict__[name]
            known = name == "covariance_matrix"
            self.scale_tril = gw.linalg.cholesky(matrix) if known else root_of_inverse(matrix)
            self._given += ("scale_tril",)

    @derived
    def covariance_matrix(self) -> Tensor:
        """L Lᵀ of the Cholesky factor L."""
        return self.scale_tril @ self.scale_tril.mT

    @derived
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return gw.linalg.inv(self.covariance_matrix)

    def half_log_det(self) -> Tensor:
        """The sum of the logarithms on the diagonal of the Cholesky factor."""
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(OfOneMatrix):
    """Normal vectors of mean `loc`; one matrix says how their elements vary together.

    That is their covariance, its inverse (`precision_matrix`), or its Cholesky factor
    (`scale_tril`), which computes fastest.

    >>> import gradwalk as gw
    >>> normal = gw.distributions.MultivariateNormal(gw.zeros(2), gw.eye(2))
    >>> normal.log_prob(gw.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        **OfOneMatrix.arg_constraints,
    }
    support: Any = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        ((name, matrix),) = one_of(
            type(self),
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        ).items()
        self._set_with(name, matrix, validate_args, loc.shape[-1:], loc=loc)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = gw.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ normal.unsqueeze(-1)).squeeze(-1)

    def standardized(self, matrix: Tensor) -> Tensor:
        """L⁻¹ times the columns of a matrix, for the Cholesky factor L."""
        return gw.linalg.solve_triangular(self.scale_tril, matrix, upper=False)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = self.standardized((value - self.loc).unsqueeze(-1)).squeeze(-1)
        total = self._event_shape[0] * math.log(2 * math.pi) + z.square().sum(-1)
        return -total / 2 - self.half_log_det()

    def entropy(self) -> Tensor:
        return self._event_shape[0] * (1 + math.log(2 * math.pi)) / 2 + self.half_log_det()


class LowRankMultivariateNormal(MultivariateNormal):
    """Normal vectors of covariance W Wᵀ + D, for a narrow matrix W and a diagonal D.

    >>> import gradwalk as gw
    >>> normal = gw.distributions.LowRankMultivariateNormal(gw.zeros(2), gw.ones(2, 1), gw.ones(2))
    >>> normal.variance
    tensor([2., 2.])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        shape = loc.shape[-1:]
        if tuple(cov_factor.shape[-2:-1]) != tuple(shape) or cov_diag.shape[-1:] != shape:
            raise ValueError(
                f"LowRankMultivariateNormal: cov_factor of shape {tuple(cov_factor.shape)} and "
                f"cov_diag of shape {tuple(cov_diag.shape)} do not fit loc of "
                f"shape {tuple(loc.shape)}"
            )
        self._set(validate_args, shape, loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)
        self.scale_tril = gw.linalg.cholesky(
            self.cov_factor @ self.cov_factor.mT + gw.diag_embed(self.cov_diag)
        )
        self._given += ("scale_tril",)

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options: Any = {"dtype": self.loc.dtype, "device": self.loc.device}
        along = gw.randn((*shape[:-1], self.cov_factor.shape[-1], 1), **options)
        apart = gw.randn(shape, **options)
        return self.loc + (self.cov_factor @ along).squeeze(-1) + self.cov_diag.sqrt() * apart
