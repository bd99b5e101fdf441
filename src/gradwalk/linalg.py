"""Linear algebra under the names of `torch.linalg`."""

from typing import Any

from gradwalk.ops import decompositions as _decompositions
from gradwalk.ops.decompositions import (
    LinAlgError,
    cholesky,
    eigh,
    eigvalsh,
    inv,
    matrix_power,
    pinv,
    qr,
    solve,
    svd,
    svdvals,
)
from gradwalk.ops.linalg import matmul
from gradwalk.ops.norms import matrix_norm, norm, vector_norm

__all__ = [
    "LinAlgError", "cholesky", "det", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "norm", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "vector_norm",
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
