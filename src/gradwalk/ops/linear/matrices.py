"""The functions of `gradwalk.linalg`, on (batches of) matrices."""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import has_gradients, is_complex_dtype, part_of
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.public import other_names, public
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.elementwise.arithmetic import log
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import adjoint, conj, real
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.decompositions import (
    cholesky_op,
    det_op,
    eigh_op,
    inv_op,
    pinv_op,
    qr_complete,
    qr_op,
    slogdet_op,
    solve_op,
    svd_op,
)
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.joining import cross
from gradwalk.ops.shape.rearranging import diagonal, ravel, tril
from gradwalk.ops.shape.reshaping import (
    apart,
    cast,
    cat,
    clone,
    getitem_slice,
    new_result,
    reshape,
    transpose,
    unsqueeze,
)

# Results of several tensors.
SignLog = namedtuple("SignLog", "sign logabsdet")
Factors = namedtuple("Factors", "Q R")
Eigen = namedtuple("Eigen", "eigenvalues eigenvectors")
Singular = namedtuple("Singular", "U S Vh")


def square(name: str, x: Any) -> Any:
    """x, if it is square matrices."""
    x = of_matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} takes square matrices, not shape {tuple(x.shape)}")
    return x


def of_matrices(name: str, x: Any) -> Any:
    """x, if it is matrices of floats or complex numbers."""
    if x.ndim < 2:
        raise ValueError(f"{name} takes matrices, at least 2-d, not shape {tuple(x.shape)}")
    if not has_gradients(x.dtype):
        raise TypeError(f"{name} takes floats, not {x.dtype}; use x.float()")
    return x


@public(namespaces="linalg")
def inv(A: Any) -> Any:
    """The inverse.

    >>> import gradwalk as gw
    >>> gw.linalg.inv(gw.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv_op(square("inv", A))


@public(method=True)
def inverse(input: Any) -> Any:
    """The inverse: `linalg.inv`."""
    return inv(input)


@public(namespaces="linalg")
@new_result
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with A X = B (X A = B if not `left`); B is matrices, or one vector per matrix.

    >>> import gradwalk as gw
    >>> gw.linalg.solve(gw.tensor([[2.0, 0.0], [0.0, 4.0]]), gw.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    square("solve", A)
    if B.ndim == 1 or tuple(B.shape) == tuple(A.shape[:-1]):
        if not left:
            raise ValueError("solve with left=False needs B to be matrices, not vectors")
        out = solve_op(A, unsqueeze(B, -1))
        return reshape(out, shape=out.shape[:-1])
    if left:
        return solve_op(A, B)
    return solve_op(A.mT, B.mT).mT


@public(namespaces="gradwalk linalg", method=True)
@other_names(A="input")
def det(input: Any) -> Any:
    """The determinant; its first two derivatives are right for singular matrices too.

    >>> import gradwalk as gw
    >>> gw.linalg.det(gw.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor(6.)
    """
    return det_op(square("det", input))


@public(namespaces="gradwalk linalg", method=True)
@other_names(A="input")
def slogdet(input: Any) -> SignLog:
    """The sign of the determinant and the logarithm of its absolute value."""
    return SignLog(*slogdet_op(square("slogdet", input)))


@public(method=True)
def logdet(input: Any) -> Any:
    """The logarithm of the determinant: NaN where that is negative, but not of complex matrices."""
    sign, logabsdet = slogdet(input)
    if is_complex_dtype(sign.dtype):
        return logabsdet + log(sign)
    return where(sign < 0, np.nan, logabsdet)


@public(namespaces="linalg")
@new_result
def cholesky(input: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with L Lᵀ = A, of symmetric positive definite matrices."""
    out = cholesky_op(square("cholesky", input))
    return adjoint(out) if upper else out


@public(namespaces="linalg")
def qr(A: Any, mode: str = "reduced") -> Factors:
    """Q with orthonormal columns and upper triangular R, with Q R = A.

    Mode "complete" of a tall matrix has no derivative (its extra columns are not determined) and
    refuses one that requires a gradient.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    rows, columns = of_matrices("qr", A).shape[-2:]
    if mode == "complete" and rows > columns:
        if getattr(A, "requires_grad", False):
            raise NotImplementedError(
                f"qr(mode='complete') of shape {tuple(A.shape)}, more rows than columns, has no "
                "derivative: the extra columns of Q are not determined. Use mode='reduced', or "
                "A.detach()."
            )
        return Factors(*qr_complete(A))
    if rows >= columns:
        q, r = qr_op(A)
    else:  # the first columns decide Q
        last = A.ndim - 1
        q, r = qr_op(getitem_slice(A, last, 0, rows))
        r = cat([r, adjoint(q) @ getitem_slice(A, last, rows, columns)], -1)
    if mode == "r":
        q = getitem(ravel(q), index=(("slice", 0, 0, None),))
    return Factors(q, r)


@public(namespaces="linalg")
def eigh(input: Any, UPLO: str = "L") -> Eigen:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices."""
    return Eigen(*eigh_op(square("eigh", input), uplo=UPLO.upper()))


@public(namespaces="linalg")
def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(input, UPLO)[0]


@public(namespaces="linalg")
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Singular:
    """U, S, Vh with U diag(S) Vh = A: the singular value decomposition.

    `driver` chooses an algorithm of CUDA's, and has no effect.
    The gradient through U and Vh needs singular values that differ, and only the first
    min(m, n) vectors have one.
    """
    return Singular(*svd_op(of_matrices("svd", A), full_matrices=bool(full_matrices)))


@public(namespaces="linalg")
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values, descending; `driver` is that of `svd`."""
    return svd_op(of_matrices("svdvals", A), full_matrices=False)[1]


@public(namespaces="linalg")
@new_result
@rounds_once
def pinv(
    input: Any,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Any:
    """The pseudo-inverse; singular values up to max(atol, rtol × the largest) count as zero.

    `hermitian` says that the matrices are symmetric: what is above their diagonal is not read.
    `rcond` is an older name of rtol.

    >>> import gradwalk as gw
    >>> gw.linalg.pinv(gw.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    x = of_matrices("pinv", input)
    if hermitian:
        below = tril(x, -1)
        whole = where(np.eye(x.shape[-1], dtype=bool), real(x), below + adjoint(below))
        change = whole - x
        # The gradient is that of the whole matrix, as in PyTorch.
        x = x + (change.detach() if hasattr(change, "detach") else change)
    if not x.shape[-1] or not x.shape[-2]:
        return transpose(x, -2, -1)  # no elements
    least = _per_matrix(x, 0.0 if atol is None else atol)
    share = _per_matrix(x, rcond if rtol is None else rtol)
    if share is None:
        share = _per_matrix(x, max(x.shape[-2:]) * float(np.finfo(x.dtype).eps))
        share = share if atol is None else where(least > 0, 0.0, share)
    return pinv_op(x, least, share)


def _per_matrix(x: Any, tolerance: Any) -> Any:
    """A tolerance for the singular values of each matrix; a number is one for all."""
    if tolerance is None:
        return None
    kind = part_of(x.dtype) if is_complex_dtype(x.dtype) else x.dtype
    if not hasattr(tolerance, "ndim"):
        return np.full((1, 1), tolerance, kind)
    return cast(reshape(tolerance, shape=(*tolerance.shape, 1, 1)), dtype=kind)


@public(namespaces="gradwalk linalg", method=True)
def matrix_power(input: Any, n: int) -> Any:
    """The matrix product of n copies; of the inverse for negative n.

    >>> import gradwalk as gw
    >>> gw.linalg.matrix_power(gw.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    x, n = square("matrix_power", input), operator.index(n)
    if n == 0:  # always the identity, whatever x is
        nowhere = np.zeros((), bool)
        return where(np.eye(x.shape[-1], dtype=bool), 1.0, where(nowhere, x, 0.0))
    if n < 0:
        x, n = inv_op(x), -n
    out = None
    while n:
        if n % 2:
            out = x if out is None else matmul(out, x)
        n //= 2
        if n:
            x = matmul(x, x)
    return apart(out, input)


@public(namespaces="linalg", numpy=True, names="cross")
def cross_product(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of three elements along `dim`."""
    return cross(input, other, dim)


@public(namespaces="linalg", names="diagonal")
def matrix_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal over the last two dimensions."""
    return diagonal(A, offset, dim1, dim2)


@public(namespaces="linalg")
@other_names(axis="dim")
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The inner products of vectors along `dim`; complex ones of x are conjugated.

    >>> import gradwalk as gw
    >>> gw.linalg.vecdot(gw.tensor([[1.0, 2.0], [3.0, 4.0]]), gw.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return sum(conj(x) * y, dim)


@public(namespaces="linalg")
def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of several matrices, from the left; the first and the last may be vectors."""
    if len(tensors) < 2:
        raise ValueError(f"multi_dot takes two matrices or more, not {len(tensors)}")
    if any(x.ndim != 2 for x in tensors[1:-1]) or not {tensors[0].ndim, tensors[-1].ndim} <= {1, 2}:
        raise OperandError(f"multi_dot takes matrices, not shapes {[x.shape for x in tensors]}")
    return reduce(matmul, tensors)


@public()
def chain_matmul(*matrices: Any) -> Any:
    """`linalg.multi_dot` with the matrices as arguments; of one, a copy."""
    if any(x.ndim != 2 for x in matrices):
        raise OperandError(f"chain_matmul takes matrices, not shapes {[x.shape for x in matrices]}")
    return clone(matrices[0]) if len(matrices) == 1 else multi_dot(matrices)
