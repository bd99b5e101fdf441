"""Products of matrices and tensors under PyTorch's many names, all made of `matmul` and `mul`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradwalk.ops.core.dtypes import held_by, result_dtype
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import add, mul
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.rearranging import diagonal_op
from gradwalk.ops.shape.reshaping import matrix_transpose, normal_axes, permute, reshape


def _need(name: str, x: Any, y: Any, left: int, right: int) -> None:
    """Refuse operands of other ranks; `matmul` would broadcast or lift them."""
    if x.ndim != left or y.ndim != right:
        raise ValueError(
            f"{name} takes a {left}-d and a {right}-d tensor, got shapes {tuple(x.shape)} and "
            f"{tuple(y.shape)}; matmul takes all ranks"
        )


@public(method=True)
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    _need("mm", input, mat2, 2, 2)
    return matmul(input, mat2)


@public(method=True)
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    _need("mv", input, vec, 2, 1)
    return matmul(input, vec)


@public(method=True)
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two equally long batches of matrices."""
    _need("bmm", input, mat2, 3, 3)
    if input.shape[0] != mat2.shape[0]:
        raise ValueError(
            f"bmm needs batches of one length, got {input.shape[0]} and {mat2.shape[0]}; "
            "matmul broadcasts"
        )
    return matmul(input, mat2)


@public(method=True)
def vdot(input: Any, other: Any) -> Any:
    """The inner product of two vectors."""
    _need("vdot", input, other, 1, 1)
    return matmul(input, other)


@public(method=True)
def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimension of both.

    >>> import gradwalk as gw
    >>> gw.inner(gw.tensor([1.0, 2.0]), gw.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not input.ndim or not other.ndim:
        return mul(input, other)
    return tensordot(input, other, ([-1], [-1]))


def _added(input: Any, product: Any, beta: float, alpha: float) -> Any:
    dtype = result_dtype([input, product])
    beta, alpha = held_by(dtype, beta), held_by(dtype, alpha)  # 0.5 × an integer matrix is 0
    if alpha != 1:
        product = product * alpha
    if beta == 0:  # as in BLAS, also where the input is not finite
        return product
    return add(input if beta == 1 else input * beta, product)


@public(method=True, inplace=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × mat1 @ mat2."""
    return _added(input, mm(mat1, mat2), beta, alpha)


@public(method=True, inplace=True)
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × mat @ vec."""
    return _added(input, mv(mat, vec), beta, alpha)


@public(method=True, inplace=True)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × batch1 @ batch2."""
    return _added(input, bmm(batch1, batch2), beta, alpha)


@public(method=True)
def kron(input: Any, other: Any) -> Any:
    """Every element of `input` times the whole of `other`, laid out as blocks."""
    ndim = max(input.ndim, other.ndim)
    outer = (1,) * (ndim - input.ndim) + tuple(input.shape)
    block = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = reshape(input, shape=tuple(n for length in outer for n in (length, 1)))
    right = reshape(other, shape=tuple(n for length in block for n in (1, length)))
    return reshape(mul(left, right), shape=tuple(a * b for a, b in zip(outer, block, strict=True)))


@public()
def tensordot(a: Any, b: Any, dims: int | Sequence[Any] = 2) -> Any:
    """Sums of products over pairs of dimensions: the last `dims` of a and the first of b, or lists.

    >>> import gradwalk as gw
    >>> gw.tensordot(gw.ones(2, 3, 4), gw.ones(3, 4, 5)).shape
    (2, 5)
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {dims} dimensions of {a.ndim} and {b.ndim}")
        left, right = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        left, right = (normal_axes(d, t.ndim) for d, t in zip(dims, (a, b), strict=True))
    # One of length 1 goes with every other: then that one is summed over.
    ones_a = tuple(i for i, j in zip(left, right) if a.shape[i] != b.shape[j] == 1)
    ones_b = tuple(j for i, j in zip(left, right) if b.shape[j] != a.shape[i] == 1)
    a = sum(a, ones_a, keepdim=True, dtype=a.dtype) if ones_a else a
    b = sum(b, ones_b, keepdim=True, dtype=b.dtype) if ones_b else b
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(
            f"tensordot: dimensions {left} of {tuple(a.shape)} do not fit {right} of "
            f"{tuple(b.shape)}"
        )
    kept_a = tuple(i for i in range(a.ndim) if i not in left)
    kept_b = tuple(i for i in range(b.ndim) if i not in right)
    inside = math.prod(a.shape[i] for i in left)
    shape_a, shape_b = tuple(a.shape[i] for i in kept_a), tuple(b.shape[i] for i in kept_b)
    rows = reshape(permute(a, axes=kept_a + left), shape=(math.prod(shape_a), inside))
    columns = reshape(permute(b, axes=kept_b + right), shape=(math.prod(shape_b), inside))
    return reshape(matmul(rows, matrix_transpose(columns)), shape=(*shape_a, *shape_b))


@public(method=True)
def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise ValueError(f"trace takes a matrix, not shape {tuple(input.shape)}")
    return sum(diagonal_op(input, offset=0, axes=(0, 1)))
