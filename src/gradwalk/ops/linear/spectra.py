"""Eigenvalues of any square matrix, the matrix exponential, and what singular values say."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import complex_of, part_of
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import abs, zero
from gradwalk.ops.elementwise.choice import maximum
from gradwalk.ops.elementwise.complex_numbers import adjoint, conj, real
from gradwalk.ops.linear.decompositions import (
    eigh_op,
    gaps,
    lapack,
    off_diagonal,
    on_diagonal,
    ratio,
    solve_op,
    svd_op,
)
from gradwalk.ops.linear.matrices import of_matrices, square
from gradwalk.ops.reduce.reduction import amax, sum
from gradwalk.ops.reduce.scan import cumprod
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    cat,
    getitem_slice,
    new_result,
    unsqueeze,
)

ComplexEigen = namedtuple("ComplexEigen", "eigenvalues eigenvectors")


def _eig_forward(x: Any) -> tuple[Any, Any]:
    values, vectors = lapack(np.linalg.eig, x)
    wide = complex_of(x.dtype)
    return values.astype(wide), vectors.astype(wide)


def _eig_rule(g: Any, values: Any, vectors: Any) -> Any:
    to_vectors = adjoint(vectors) @ conj(g[1])
    # A vector has length 1, so it does not change along itself.
    kept = real(to_vectors) * np.eye(values.shape[-1], dtype=bool)
    inner = to_vectors - adjoint(vectors) @ vectors @ cast(kept, dtype=vectors.dtype)
    inner = off_diagonal(ratio(inner, gaps(conj(values)))) + on_diagonal(conj(g[0]))
    return conj(solve_op(adjoint(vectors), inner @ adjoint(vectors)))


eig_op = define(
    "eig",
    _eig_forward,
    vjp=[_eig_rule],
    outputs=("values", "vectors"),
    shape=lambda x: (x[:-1], x),
    gives=(complex_of, complex_of),
    on_complex=True,
)


@public(namespaces="linalg")
def eig(A: Any) -> ComplexEigen:
    """The complex eigenvalues, and eigenvectors of length 1 (columns), of square matrices.

    The gradient needs eigenvalues that differ, and a loss that does not depend on the angle of an
    eigenvector, which is not determined.

    >>> import gradwalk as gw
    >>> gw.linalg.eig(gw.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """
    return ComplexEigen(*eig_op(square("eig", A)))


@public(namespaces="linalg")
def eigvals(A: Any) -> Any:
    """The complex eigenvalues of square matrices."""
    return eig_op(square("eigvals", A))[0]


def _exp_forward(x: Any) -> Any:
    from scipy.linalg import expm

    wide = np.result_type(x.dtype, np.float64)
    return expm(x.astype(wide)).astype(x.dtype) if x.size else x.copy()


def _exp_rule(g: Any, x: Any) -> Any:
    # The exponential of a block matrix holds the derivative in its corner.
    count, last = x.shape[-1], len(x.shape) - 1
    top = cat([x.mT, g], -1)
    blocks = cat([top, cat([zero(x), x.mT], -1)], -2)
    corner = getitem_slice(matrix_exp_op(blocks), last, count, 2 * count)
    return getitem_slice(corner, last - 1, 0, count)


matrix_exp_op: Op = define(
    "matrix_exp", _exp_forward, vjp=[_exp_rule], shape=lambda x: x, on_complex=True
)


@public(namespaces="gradwalk linalg", method=True)
def matrix_exp(A: Any) -> Any:
    """The exponential of square matrices: Σ Aⁿ / n!.

    >>> import gradwalk as gw
    >>> gw.linalg.matrix_exp(gw.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return matrix_exp_op(square("matrix_exp", A))


# -- what singular values say --------------------------------------------------------------------


@public(namespaces="linalg")
def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """How many singular values exceed max(atol, rtol × the largest); `tol` is an older atol.

    >>> import gradwalk as gw
    >>> gw.linalg.matrix_rank(gw.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = square("matrix_rank", A) if hermitian else of_matrices("matrix_rank", A)
    if not x.shape[-1] or not x.shape[-2]:
        return sum(zero(x) != 0, (-2, -1))
    sizes = abs(eigh_op(x, uplo="L")[0]) if hermitian else svd_op(x, full_matrices=False)[1]
    least = atol if tol is None else tol
    if rtol is None and least is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(part_of(x.dtype)).eps)
    least, rtol = (0.0 if given is None else given for given in (least, rtol))
    cut = maximum(_per_matrix(rtol) * amax(sizes, -1, True), _per_matrix(least))
    return sum(sizes > cut, -1)


def _per_matrix(tolerance: Any) -> Any:
    return unsqueeze(tolerance, -1) if getattr(tolerance, "ndim", 0) else tolerance


@public(namespaces="linalg")
@new_result
def vander(x: Any, *, N: int | None = None) -> Any:
    """The powers 0 to N − 1 of each element, along a new last dimension.

    >>> import gradwalk as gw
    >>> gw.linalg.vander(gw.tensor([2, 3]))
    tensor([[1, 2],
            [1, 3]])
    """
    vector = unsqueeze(x, 0) if not x.ndim else x
    count = vector.shape[-1] if N is None else N
    if count <= 1 and N is not None:
        raise ValueError(f"vander: N must be larger than 1, not {N}")
    ones = unsqueeze(zero(vector) + 1, -1)
    if count == 1:
        return ones
    factors = broadcast_to(unsqueeze(vector, -1), (*vector.shape, count - 1))
    return cat([ones, cumprod(factors, -1)], -1)
