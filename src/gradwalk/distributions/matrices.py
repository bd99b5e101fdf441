"""Distributions of matrices: Cholesky factors of correlations, and covariances of samples."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.distribution import Distribution, one_of
from gradwalk.distributions.gamma import Beta, Chi2
from gradwalk.distributions.multivariate_normal import OfOneMatrix
from gradwalk.graph.abstract import numbers_of
from gradwalk.tensors.tensor import Tensor


class LKJCholesky(Distribution):
    """Cholesky factors L of correlation matrices, whose density is that of det(LLᵀ)ᶜ⁻¹.

    With the concentration c = 1 all correlation matrices are equally likely.

    >>> import gradwalk as gw
    >>> gw.distributions.LKJCholesky(3, 1.0).sample((2,)).shape
    (2, 3, 3)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    concentration: Tensor

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim is an integer of at least 2, not {dim}")
        self.dim = dim
        self._set(validate_args, (dim, dim), concentration=concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Rows on a sphere, each a little shorter than 1; the diagonal has the rest."""
        shape, c = self._extended_shape(sample_shape), self.concentration.detach()
        before = gw.arange(-1, self.dim - 1, dtype=c.dtype, device=c.device).clamp(min=0)
        rest = c.unsqueeze(-1) + (self.dim - 2 - before) / 2
        squares = Beta((before + 1) / 2, rest, validate_args=False).sample(sample_shape)
        rows = gw.randn(shape, dtype=c.dtype, device=c.device).tril(-1)
        tiny = float(gw.finfo(c.dtype).tiny)
        lengths = rows.norm(dim=-1, keepdim=True).clamp(min=tiny)
        below = squares.unsqueeze(-1).sqrt() * (rows / lengths)
        diagonal = (1 - below.square().sum(-1)).clamp(min=tiny).sqrt()
        return below + gw.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c, n = self.concentration, self.dim
        orders = n - gw.arange(2, n + 1, dtype=c.dtype, device=c.device)
        powers = 2 * (c - 1).unsqueeze(-1) + orders
        unscaled = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        a = c + (n - 1) / 2
        volume = gw.special.multigammaln(a - 0.5, n - 1) - (n - 1) * gw.lgamma(a)
        return unscaled - volume - (n - 1) / 2 * math.log(math.pi)


def _bartlett(root: Any, ranks: Tensor) -> Tensor:
    """L A Aᵀ Lᵀ: A has normals below a diagonal of the roots of chi-squared numbers."""
    roots = Chi2(ranks, validate_args=False).rsample().sqrt()
    rows, columns = gw.tril_indices(ranks.shape[-1], ranks.shape[-1], -1)
    shape = (*ranks.shape[:-1], len(rows))
    normal = gw.randn(shape, dtype=roots.dtype, device=roots.device)
    drawn = root @ gw.diag_embed(roots).index_put((..., rows, columns), normal)
    made: Tensor = drawn @ drawn.mT
    return made


class Wishart(OfOneMatrix):
    """The sum of x xᵀ over `df` normal vectors x of mean 0.

    One matrix says how their elements vary together: the covariance, its inverse
    (`precision_matrix`), or its Cholesky factor (`scale_tril`). `df` need not be whole.

    >>> import gradwalk as gw
    >>> gw.distributions.Wishart(4.0, gw.eye(2)).mean
    tensor([[4., 0.],
            [0., 4.]])
    """

    arg_constraints: ClassVar = {"df": constraints.positive, **OfOneMatrix.arg_constraints}
    support: Any = constraints.positive_definite
    has_rsample = True
    df: Tensor

    def __init__(
        self,
        df: Any,
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
        more = {"df": constraints.greater_than(matrix.shape[-1] - 1)}
        self.arg_constraints = {**type(self).arg_constraints, **more}  # type: ignore[misc]
        self._set_with(name, matrix, validate_args, matrix.shape[-2:], df=df)

    def _times(self, factor: Tensor, matrix: Tensor) -> Tensor:
        return factor[..., None, None] * matrix

    @property
    def mean(self) -> Tensor:
        return self._times(self.df, self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[0] - 1
        return self._times(factor.masked_fill(factor <= 0, math.nan), self.covariance_matrix)

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        each = matrix.diagonal(dim1=-2, dim2=-1)
        both = each.unsqueeze(-1) * each.unsqueeze(-2)
        return self._times(self.df, matrix.square() + both)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        lead = (*sample_shape, *self._batch_shape)
        root = self.scale_tril.expand(lead + self._event_shape)
        ranks = self._ranks().expand(lead + self._event_shape[:1])
        made = _bartlett(root, ranks)
        for _ in range(10):
            fits = numbers_of(self.support.check(made.detach()))
            if fits is None or fits.all():
                break
            again = np.nonzero(~fits)  # rounding made them singular
            made = made.index_put(
                tuple(map(gw.tensor, again)), _bartlett(root[again], ranks[again])
            )
        return made

    def _ranks(self) -> Tensor:
        """df, df − 1, and so on."""
        scale: Any = self.scale_tril
        steps = gw.arange(self._event_shape[0], dtype=scale.dtype, device=scale.device)
        return self.df.unsqueeze(-1) - steps

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        size = self._event_shape[0]
        standardized = value
        for _ in range(2):  # L⁻¹ X L⁻ᵀ
            root: Any = self.scale_tril
            standardized = gw.linalg.solve_triangular(root, standardized.mT, upper=False)
        trace = standardized.diagonal(dim1=-2, dim2=-1).sum(-1)
        scale = self.df * (size * math.log(2) / 2 + self.half_log_det())
        scale = scale + gw.special.multigammaln(self.df / 2, size)
        return ((self.df - size - 1) * value.logdet() - trace) / 2 - scale

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        scale = (size + 1) * (size * math.log(2) / 2 + self.half_log_det())
        slope = (self.df - size - 1) / 2 * gw.digamma(self._ranks() / 2).sum(-1)
        return scale + gw.special.multigammaln(self.df / 2, size) - slope + self.df * size / 2
