"""Linear algebra under PyTorch's names from before `torch.linalg`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from gradwalk.ops.core.public import Mixed, public
from gradwalk.ops.elementwise.arithmetic import zero
from gradwalk.ops.elementwise.complex_numbers import adjoint
from gradwalk.ops.linear import lu as factors
from gradwalk.ops.linear import matrices, spectra
from gradwalk.ops.linear.matrices import Factors
from gradwalk.ops.reduce.reduction import mean
from gradwalk.ops.shape.reshaping import flip_over as flip
from gradwalk.ops.shape.reshaping import new_result

SingularV = namedtuple("SingularV", "U S V")


@public(method=True)
@new_result
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> SingularV:
    """U, S, V with U diag(S) Vᴴ = input; `linalg.svd` returns Vᴴ."""
    u, s, vh = matrices.svd(input, full_matrices=not some)
    return SingularV(u, s, adjoint(vh)) if compute_uv else SingularV(zero(u), s, zero(adjoint(vh)))


@public(method=True)
def qr(input: Any, some: bool = True) -> Factors:
    """Q and R with Q R = input: `linalg.qr`, complete if not `some`."""
    return matrices.qr(input, "reduced" if some else "complete")


@public(method=True)
def cholesky(input: Any, upper: bool = False) -> Any:
    """The lower triangular L with L Lᵀ = input: `linalg.cholesky`."""
    return matrices.cholesky(input, upper=upper)


@public(method=True)
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse: `linalg.pinv`."""
    return matrices.pinv(input, rtol=rcond)


@public(method=True)
@new_result
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Mixed:
    """L and U in one matrix, and the rows that were exchanged: `linalg.lu_factor`."""
    found = factors.lu_factor_ex(A, pivot=pivot)
    return tuple(found) if get_infos else factors.Packed(*found[:2])


@public(method=True)
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """X with A X = b, of A as `lu` returns it: `linalg.lu_solve`."""
    return factors.lu_solve(LU_data, LU_pivots, b)


@public()
@new_result
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers N − 1 to 0 of each element of a vector, a row each; of `linalg.vander` 0 to N − 1.

    >>> import gradwalk as gw
    >>> gw.vander(gw.tensor([2, 3, 4]))
    tensor([[ 4,  2,  1],
            [ 9,  3,  1],
            [16,  4,  1]])
    """
    if x.ndim != 1:
        raise ValueError(f"vander takes a vector, not shape {tuple(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise ValueError(f"vander: N must not be negative, but is {N}")
    powers = spectra.vander(x, N=max(count, 2))[:, :count]
    return powers if increasing else flip(powers, -1)


@public()
@new_result
def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> SingularV:
    """The first q singular values and vectors, computed exactly: `niter` changes nothing."""
    u, s, vh = matrices.svd(A if M is None else A - M, full_matrices=False)
    return SingularV(u[..., :q], s[..., :q], adjoint(vh)[..., :q])


@public()
@new_result
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> SingularV:
    """The first q principal components of the rows; `center` subtracts their mean first."""
    count = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= count <= min(A.shape[-2:]):
        raise ValueError(f"pca_lowrank: q = {q} does not fit shape {tuple(A.shape)}")
    return svd_lowrank(A - mean(A, -2, True) if center else A, count)
