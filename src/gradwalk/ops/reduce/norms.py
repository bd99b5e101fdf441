"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.argument_names import numpy_names
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.arithmetic import abs, sub
from gradwalk.ops.linear.decompositions import svdvals
from gradwalk.ops.reduce.measures import norm_op
from gradwalk.ops.reduce.reduction import amax, amin, of_floats, reduced_shape, sum
from gradwalk.ops.shape.rearranging import movedim
from gradwalk.ops.shape.reshaping import cast, full_axes, normal_axes, reshape, unsqueeze

__all__ = [
    "cdist",
]  # fmt: skip

Dim = int | Sequence[int] | None


def _kept(value: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    return reshape(value, shape=reduced_shape(x_shape, axis=axis, keepdim=True))


@numpy_names
def vector_norm(
    input: Any, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """(Σ |x|^ord)^(1 / ord) over `dim`, or over all elements; ord may be 0, inf and -inf.

    >>> import gradwalk as gw
    >>> gw.linalg.vector_norm(gw.tensor([3.0, 4.0]))
    tensor(5.)
    """
    input = _floats("vector_norm", input, dtype)
    return norm_op(input, p=float(ord), axis=full_axes(input, dim), keepdim=bool(keepdim))


def _floats(name: str, x: Any, dtype: Any) -> Any:
    return of_floats(name, x if dtype is None else cast(x, dtype=np.dtype(dtype)))


def _largest(sizes: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest of numbers that are not negative; of none, 0."""
    return (amax if sizes.shape[dim] else sum)(sizes, dim, keepdim)


@numpy_names
def matrix_norm(
    input: Any,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """A norm of matrices over two dimensions.

    "fro" the root of the sum of squares; "nuc" the sum of the singular values; 2 and -2 the
    largest and smallest of them; inf and -inf the largest and smallest sum of a row, 1 and -1
    of a column.
    """
    input = _floats("matrix_norm", input, dtype)
    rows, columns = axes = normal_axes(list(dim), input.ndim)
    if ord == "fro":
        return vector_norm(input, 2, axes, keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(movedim(input, axes, (-2, -1)))
        reduce: dict[Any, Any] = {"nuc": sum, 2: _largest, -2: amin}
        out = reduce[ord](values, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if ord in (1, -1) else (columns, rows)
        totals = sum(abs(input), first, True)
        out = (_largest if float(ord) > 0 else amin)(totals, second, True)
        out = reshape(out, shape=reduced_shape(tuple(input.shape), axis=axes, keepdim=False))
    else:
        raise ValueError(f"matrix_norm: ord {ord!r} is not one of fro, nuc, inf, -inf, ±1, ±2")
    return _kept(out, tuple(input.shape), axes) if keepdim else out


@numpy_names
def norm(
    input: Any,
    ord: float | str | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """`vector_norm` over one dimension, `matrix_norm` over two; without `ord` the root of squares.

    >>> import gradwalk as gw
    >>> gw.linalg.norm(gw.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    pair = dim if isinstance(dim, (tuple, list)) else None
    if dim is None and input.ndim > 2:
        raise ValueError(
            f"norm with ord and without dim takes 1-d or 2-d, not {tuple(input.shape)}"
        )
    if (dim is None and input.ndim == 2) or (pair is not None and len(pair) == 2):
        return matrix_norm(input, ord, pair or (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ValueError(f"norm: ord {ord!r} is for matrices; give two dimensions")
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """Distances between all rows of x1 and all rows of x2.

    Differences are taken directly, never by |a|² − 2ab + |b|², which loses digits for near rows;
    they need memory for every pair of rows times their length. `compute_mode` changes nothing.

    >>> import gradwalk as gw
    >>> gw.cdist(gw.tensor([[0.0, 0.0]]), gw.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ValueError(
            f"cdist takes rows of one length, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    return vector_norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, -1)
