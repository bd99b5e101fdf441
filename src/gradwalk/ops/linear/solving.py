"""Equations with triangular and rectangular matrices, and forms that report instead of raising.

All are made of solves, inverses and factorisations, so their rules follow.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import int32
from gradwalk.ops.core.op import define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import abs, power, zero
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import adjoint
from gradwalk.ops.linear.decompositions import LinAlgError, cholesky_op, inv_op, solve_op, svd_op
from gradwalk.ops.linear.lu import by_matrix, lu_factor_ex
from gradwalk.ops.linear.matrices import inv, of_matrices, pinv, solve, square, svdvals
from gradwalk.ops.linear.spectra import matrix_rank
from gradwalk.ops.reduce.norms import matrix_norm
from gradwalk.ops.reduce.reduction import all, any, sum
from gradwalk.ops.shape.rearranging import movedim, tril, triu
from gradwalk.ops.shape.reshaping import getitem_slice, new_result, reshape, unsqueeze

Triangular = namedtuple("Triangular", "solution cloned_coefficient")
LeastSquares = namedtuple("LeastSquares", "solution residuals rank singular_values")
CholeskyInfo = namedtuple("CholeskyInfo", "L info")
InverseInfo = namedtuple("InverseInfo", "inverse info")
SolutionInfo = namedtuple("SolutionInfo", "result info")


def _one_triangle(x: Any, upper: bool, unit: bool) -> Any:
    part = triu(x) if upper else tril(x)
    return where(np.eye(x.shape[-1], dtype=bool), 1.0, part) if unit else part


@public(namespaces="linalg")
@new_result
def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """X with A X = B (X A = B if not `left`), of triangular A; its other triangle is not read.

    >>> import gradwalk as gw
    >>> gw.linalg.solve_triangular(gw.tensor([[2.0, 9.0], [1.0, 1.0]]), gw.ones(2, 1), upper=False)
    tensor([[0.5000],
            [0.5000]])
    """
    of_matrices("solve_triangular", B)
    triangle = _one_triangle(square("solve_triangular", A), upper, unitriangular)
    return solve_op(triangle, B) if left else solve_op(triangle.mT, B.mT).mT


@public(method=True)
@new_result
def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Triangular:
    """X with A X = b, and A; `linalg.solve_triangular` is its new name."""
    of_matrices("triangular_solve", b)
    triangle = _one_triangle(square("triangular_solve", A), upper, unitriangular)
    return Triangular(solve_op(triangle.mT if transpose else triangle, b), A * 1)


@public(method=True)
@new_result
def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """X with A X = B, of A = L Lᵀ (Uᵀ U if `upper`)."""
    of_matrices("cholesky_solve", B)
    lower = adjoint(square("cholesky_solve", L)) if upper else square("cholesky_solve", L)
    return solve_op(adjoint(lower), solve_op(lower, B))


@public(method=True)
@new_result
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A = L Lᵀ (Uᵀ U if `upper`)."""
    inverse = inv_op(_one_triangle(square("cholesky_inverse", L), upper, False))
    return inverse @ adjoint(inverse) if upper else adjoint(inverse) @ inverse


# -- more or fewer equations than unknowns -------------------------------------------------------


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@public(namespaces="linalg")
@new_result
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """X that makes ‖A X − B‖ smallest, the residuals' squares, the rank, the singular values.

    As in PyTorch, the residuals are those of matrices of full rank with more rows than columns,
    the rank is left out by driver "gels", and only "gelsd" and "gelss" return singular values.

    >>> import gradwalk as gw
    >>> gw.linalg.lstsq(gw.tensor([[1.0], [1.0]]), gw.tensor([[1.0], [3.5]])).solution
    tensor([[2.2500]])
    """
    chosen = driver or "gelsy"
    if chosen not in _DRIVERS:
        raise ValueError(f"lstsq: the driver is one of {', '.join(_DRIVERS)}, not {driver!r}")
    rows, columns = of_matrices("lstsq", A).shape[-2:]
    vectors = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = unsqueeze(B, -1) if vectors else B
    if right.shape[-2] != rows:
        raise ValueError(f"lstsq: A has {rows} rows, B of shape {tuple(B.shape)} has others")
    # LAPACK's gelsd takes a tolerance of 1 or more for none.
    ignored = chosen == "gels" or (chosen == "gelsd" and rcond is not None and rcond >= 1)
    tolerance = None if ignored else rcond
    solution = pinv(A, rtol=tolerance) @ right
    plain = A.detach() if hasattr(A, "detach") else A
    rank = matrix_rank(plain, rtol=tolerance)
    residuals, singular = _nothing(abs(solution)), _nothing(zero(abs(A)))
    # The samples of a vmap have results of one shape: full rank is taken for granted.
    batched = getattr(getattr(rank, "_array", None), "depth", 0)
    if chosen != "gelsy" and rows > columns and (batched or bool(all(rank == columns))):
        residuals = sum(power(abs(A @ solution - right), exponent=2), -2)
    if chosen in ("gelsd", "gelss"):
        singular = svdvals(plain)
    if chosen == "gels":
        rank = _nothing(rank)
    if vectors:
        solution = reshape(solution, shape=solution.shape[:-1])
    return LeastSquares(solution, residuals, rank, singular)


def _nothing(x: Any) -> Any:
    """No elements, of the kind and dtype of x."""
    return getitem_slice(reshape(x, shape=(math.prod(x.shape),)), 0, 0, 0)


@public(namespaces="linalg")
@new_result
def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of A as a map from its dimensions after `ind` to those before."""
    if ind <= 0:
        raise ValueError(f"tensorinv: ind must be positive, not {ind}")
    before, after = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(before) != math.prod(after):
        raise ValueError(
            f"tensorinv: dimensions {before} and {after} of A must have as many elements"
        )
    matrix = reshape(A, shape=(math.prod(before), math.prod(after)))
    return reshape(inv(matrix), shape=(*after, *before))


@public(namespaces="linalg")
@new_result
def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Any:
    """X with tensordot(A, X) = B; `dims` of A move to its end first."""
    if dims is not None:
        A = movedim(A, dims, tuple(range(A.ndim - len(dims), A.ndim)))
    after = tuple(A.shape[B.ndim :])
    size = math.prod(B.shape)
    if math.prod(after) != size:
        raise ValueError(
            f"tensorsolve: A of shape {tuple(A.shape)} does not map {after} to {tuple(B.shape)}"
        )
    out = solve(reshape(A, shape=(size, size)), reshape(B, shape=(size,)))
    return reshape(out, shape=after)


# -- results with a report -----------------------------------------------------------------------


def _cholesky_info(x: Any) -> Any:
    from scipy.linalg.lapack import get_lapack_funcs

    if not x.shape[-1]:
        return np.zeros(x.shape[:-2], np.int32)
    factor = get_lapack_funcs("potrf", (x,))
    return by_matrix(x, lambda matrix: factor(matrix, lower=True)[1], (), np.int32)


# The order of the first leading minor that is not positive, or 0.
cholesky_info = define(
    "cholesky_info",
    _cholesky_info,
    vjp=[None],
    shape=lambda x: x[:-2],
    gives=int32,
    on_complex=True,
)


def _column(x: Any) -> Any:
    return reshape(x, shape=(*x.shape, 1, 1))


def _regular(x: Any, info: Any) -> Any:
    """x, with the identity in place of matrices that failed."""
    return where(_column(info) != 0, np.eye(x.shape[-1], dtype=x.dtype), x)


def _raise_for(name: str, info: Any, check_errors: bool) -> None:
    if check_errors and bool(any(info != 0)):
        raise LinAlgError(f"linalg.{name}: it does not exist; see `info` with check_errors=False")


@public(namespaces="linalg")
@new_result
def cholesky_ex(input: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """`cholesky`, and for each matrix the first minor that is not positive, or 0.

    >>> import gradwalk as gw
    >>> gw.linalg.cholesky_ex(gw.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=gradwalk.int32)
    """
    info = cholesky_info(square("cholesky_ex", input))
    _raise_for("cholesky_ex", info, check_errors)
    out = where(_column(info) != 0, math.nan, cholesky_op(_regular(input, info)))
    return CholeskyInfo(adjoint(out) if upper else out, info)


@public(namespaces="linalg")
@new_result
def inv_ex(A: Any, *, check_errors: bool = False) -> InverseInfo:
    """`inv`, and for each matrix where the elimination met a zero, or 0; no inverse is NaN."""
    info = lu_factor_ex(square("inv_ex", A)).info
    _raise_for("inv_ex", info, check_errors)
    return InverseInfo(where(_column(info) != 0, math.nan, inv(_regular(A, info))), info)


@public(namespaces="linalg")
@new_result
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolutionInfo:
    """`solve`, and for each matrix where the elimination met a zero, or 0; no solution is NaN."""
    info = lu_factor_ex(square("solve_ex", A)).info
    _raise_for("solve_ex", info, check_errors)
    out = solve(_regular(A, info), B, left=left)
    failed = info != 0
    lifted = reshape(failed, shape=(*failed.shape, *(1,) * (out.ndim - failed.ndim)))
    return SolutionInfo(where(lifted, math.nan, out), info)


@public(namespaces="linalg")
def cond(A: Any, p: float | str | None = None) -> Any:
    """How much a solution may change with the right side: ‖A‖ × ‖A⁻¹‖ in the norm `p`.

    It is inf of a matrix without an inverse.

    >>> import gradwalk as gw
    >>> gw.linalg.cond(gw.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(4.)
    """
    x = of_matrices("cond", A)
    if p in (None, 2, -2):
        if not x.shape[-1] or not x.shape[-2]:
            return sum(abs(x), (-2, -1))
        sizes = svd_op(x, full_matrices=False)[1]
        largest, smallest = sizes[..., 0], sizes[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    found = inv_ex(square("cond", x))
    singular = found.info != 0
    inverse = where(reshape(singular, shape=(*singular.shape, 1, 1)), 0, found.inverse)
    return where(singular, math.inf, matrix_norm(x, p) * matrix_norm(inverse, p))
