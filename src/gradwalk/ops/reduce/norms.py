"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import is_complex_dtype
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import define
from gradwalk.ops.core.public import public
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.elementwise.arithmetic import abs, power, sign, zero
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.indexing import index_select
from gradwalk.ops.linear.matrices import svdvals
from gradwalk.ops.reduce.reduction import (
    Dim,
    amax,
    amin,
    keep,
    of_floats,
    reduced_shape,
    sum,
    sum_op,
)
from gradwalk.ops.shape.rearranging import movedim
from gradwalk.ops.shape.reshaping import (
    cast,
    full_axes,
    new_result,
    normal_axes,
    normal_axis,
    reshape,
    unsqueeze,
)


def _norm_forward(x: Any, *, p: float, axis: tuple[int, ...], keepdim: bool) -> Any:
    if p == 2:
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdim))
    size = np.abs(x)
    if p == 1:
        return np.sum(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(x != 0, axis=axis, keepdims=keepdim, dtype=x.dtype)
    if math.isinf(p):
        return (np.amax if p > 0 else np.amin)(size, axis=axis, keepdims=keepdim)
    return np.power(np.sum(np.power(size, p), axis=axis, keepdims=keepdim), 1 / p)


def _norm_rule(g: Any, x: Any, out: Any, p: float, axis: tuple[int, ...]) -> Any:
    g, out = keep(g, x.shape, axis), keep(out, x.shape, axis)
    if p == 0:
        return zero(x) * g
    if p == 1:
        return sign(x) * g
    if math.isinf(p):  # ties share; a NaN is the largest and the smallest
        best = (abs(x) == out) | (x != x)
        ties = sum_op(cast(best, dtype=x.dtype), axis=axis, keepdim=True)
        return where(best, sign(x) * (g / ties), 0)
    # The norm of nothing but zeros has a kink: slope 0. Its quotient is kept finite as well,
    # for the second derivative.
    some = where(out == 0, 1.0, out)
    if p == 2:
        return x * where(out == 0, 0, g / some)
    scale = where(out == 0, 0, g / power(some, exponent=p - 1))
    if p < 1:  # infinitely steep at 0
        size = where(x == 0, 1.0, abs(x))
        return where(x == 0, 0, sign(x) * power(size, exponent=p - 1) * scale)
    return sign(x) * power(abs(x), exponent=p - 1) * scale


def _norm(x: Any, p: float, dim: Dim, keepdim: bool) -> Any:
    axes = full_axes(x, dim)
    if p < 0 and not math.prod([x.shape[axis] for axis in axes]):
        raise OperandError(f"the norm of no elements with a negative order ({p}) is not defined")
    return norm_op(x, p=float(p), axis=axes, keepdim=bool(keepdim))


norm_op = define("vector_norm", _norm_forward, vjp=[_norm_rule], shape=reduced_shape)


@public(method=True)
def norm(
    input: Any,
    p: float | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Any:
    """(Σ |x|ᵖ)^(1/p) over `dim`: "fro" and None are p = 2; inf the largest, 0 how many are not 0.

    "nuc" is the sum of the singular values of matrices.

    >>> import gradwalk as gw
    >>> gw.norm(gw.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        axes = (0, 1) if dim is None and input.ndim == 2 else dim
        if not isinstance(axes, (tuple, list)) or len(axes) != 2:
            raise ValueError("norm: p = 'nuc' is a norm of matrices: give two dimensions as dim")
        return matrix_norm(input, "nuc", axes, keepdim, dtype=dtype)
    if p is None or p == "fro":
        p = 2.0
    if not isinstance(p, (int, float, np.integer, np.floating)):
        raise ValueError(f"norm: p is a number or 'fro', not {p!r}")
    x = _sizes(_floats("norm", input, dtype))
    return _norm(x, p, dim, keepdim)


@public(namespaces="linalg", numpy=True)
def vector_norm(
    input: Any, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """(Σ |x|^ord)^(1 / ord) over `dim`, or over all elements; ord may be 0, inf and -inf.

    >>> import gradwalk as gw
    >>> gw.linalg.vector_norm(gw.tensor([3.0, 4.0]))
    tensor(5.)
    """
    input = _sizes(_floats("vector_norm", input, dtype))
    return _norm(input, ord, dim, keepdim)


def _floats(name: str, x: Any, dtype: Any) -> Any:
    return of_floats(name, x if dtype is None else cast(x, dtype=np.dtype(dtype)))


def _sizes(x: Any) -> Any:
    """Complex numbers as their sizes, of which a norm is made; real ones as they are."""
    return abs(x) if is_complex_dtype(x.dtype) else x


def _largest(sizes: Any, dim: int, keepdim: bool = False) -> Any:
    """The largest of numbers that are not negative; of none, 0."""
    return (amax if sizes.shape[dim] else sum)(sizes, dim, keepdim)


@public(namespaces="linalg", numpy=True)
@new_result
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
    return keep(out, tuple(input.shape), axes) if keepdim else out


@public(names="norm", namespaces="linalg", numpy=True)
def linalg_norm(
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
    pair = dim if isinstance(dim, (tuple, list)) else None
    if pair is not None and len(pair) not in (1, 2):
        raise ValueError(f"norm is over one or two dimensions, not {len(pair)}. Fix: vector_norm")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is None and input.ndim > 2:
        raise ValueError(
            f"norm with ord and without dim takes 1-d or 2-d, not {tuple(input.shape)}"
        )
    if (dim is None and input.ndim == 2) or (pair is not None and len(pair) == 2):
        return matrix_norm(input, ord, pair or (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ValueError(f"norm: ord {ord!r} is for matrices; give two dimensions")
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


@public()
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
    return vector_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


@public()
@new_result
def pdist(input: Any, p: float = 2.0) -> Any:
    """Distances between all pairs of different rows, each pair once.

    >>> import gradwalk as gw
    >>> gw.pdist(gw.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2 or p < 0:
        raise ValueError(f"pdist takes rows and p ≥ 0, not shape {tuple(input.shape)} and p = {p}")
    first, second = np.triu_indices(input.shape[0], 1)
    return vector_norm(index_select(input, 0, first) - index_select(input, 0, second), p, -1)


@public(method=True, inplace=True)
@rounds_once
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """`input` with the slices along `dim` whose p-norm is larger than `maxnorm` scaled to it.

    >>> import gradwalk as gw
    >>> gw.renorm(gw.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if input.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ValueError(
            f"renorm takes at least 2 dimensions, p > 0 and maxnorm ≥ 0, not shape "
            f"{tuple(input.shape)}, {p} and {maxnorm}"
        )
    kept = normal_axis(dim, input.ndim)
    size = vector_norm(input, p, tuple(i for i in range(input.ndim) if i != kept), True)
    return input * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)  # as PyTorch adds it
