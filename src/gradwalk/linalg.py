"""Linear algebra under the names of `torch.linalg`."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from gradwalk.ops.core.argument_names import numpy_names as _numpy_names
from gradwalk.ops.core.argument_names import other_names as _other_names
from gradwalk.ops.elementwise.arithmetic import mul as _mul
from gradwalk.ops.linear import decompositions as _decompositions
from gradwalk.ops.linear.decompositions import (
    LinAlgError,
    cholesky,
    eigh,
    eigvalsh,
    inv,
    matrix_power,
    qr,
    solve,
    svd,
    svdvals,
)
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.reduce.norms import matrix_norm, norm, vector_norm
from gradwalk.ops.reduce.reduction import sum as _sum
from gradwalk.ops.shape.joining import cross as _cross
from gradwalk.ops.shape.rearranging import diagonal as _diagonal
from gradwalk.ops.shape.rearranging import tril as _tril

__all__ = [
    "LinAlgError", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul",
    "matrix_norm", "matrix_power", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "vecdot", "vector_norm",
]  # fmt: skip


def det(A: Any) -> Any:
    """The determinant; its gradient is right for singular matrices too.

    >>> import gradwalk as gw
    >>> gw.linalg.det(gw.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor(6.)
    """
    return _decompositions.det(A)


def slogdet(A: Any) -> Any:
    """The sign of the determinant and the logarithm of its absolute value."""
    return _decompositions.slogdet(A)


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
    if hermitian:
        change = _tril(input, -1).mT + _tril(input) - input
        # The gradient is that of the whole matrix, as in PyTorch.
        input = input + (change.detach() if hasattr(change, "detach") else change)
    return _decompositions.pinv(input, atol=atol, rtol=rcond if rtol is None else rtol)


@_numpy_names
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of three elements along `dim`."""
    return _cross(input, other, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal over the last two dimensions."""
    return _diagonal(A, offset, dim1, dim2)


@_other_names(axis="dim")
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The inner products of vectors along `dim`.

    >>> import gradwalk as gw
    >>> gw.linalg.vecdot(gw.tensor([[1.0, 2.0], [3.0, 4.0]]), gw.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return _sum(_mul(x, y), dim)


def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of several matrices, from the left; the first and the last may be vectors."""
    if len(tensors) < 2:
        raise ValueError(f"multi_dot takes two matrices or more, not {len(tensors)}")
    return reduce(matmul, tensors)
