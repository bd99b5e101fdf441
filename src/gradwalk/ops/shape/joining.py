"""Named ways to join, split and combine tensors, made of other ops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import result_dtype
from gradwalk.ops.core.factors_first import factors_first
from gradwalk.ops.core.halves import autocast_as_one, rounds_once
from gradwalk.ops.core.public import public, public_as, split_names
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.linear.matmul import addmm
from gradwalk.ops.shape import reshaping
from gradwalk.ops.shape.rearranging import atleast_1d, diag, roll, tensor_split
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    cat,
    normal_axis,
    pad,
    permute,
    reshape,
    stack,
    transpose,
)


@public(method=True, out=False)
def t(input: Any) -> Any:
    """The transpose of a matrix; a vector stays as it is."""
    if input.ndim > 2:
        raise OperandError(f"t is for matrices; use .mT for shape {tuple(input.shape)}")
    return permute(input, axes=tuple(range(input.ndim))[::-1])


@public()
def column_stack(tensors: Sequence[Any]) -> Any:
    """Vectors as columns, and matrices, side by side.

    >>> import gradwalk as gw
    >>> gw.column_stack([gw.tensor([1, 2]), gw.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    columns = [x if x.ndim > 1 else reshape(x, shape=(math.prod(x.shape), 1)) for x in tensors]
    return cat(columns, 1)


def _cutting(name: str, axis: int, least: int, doc: str) -> Callable[..., tuple[Any, ...]]:
    """The public function that cuts tensors of at least some rank along an axis (or their last)."""

    @public_as(name, doc, method=True)
    @split_names
    def cut(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        if input.ndim < least:
            raise OperandError(
                f"{name} needs {least} dimensions or more, not shape {tuple(input.shape)}"
            )
        along, parts = min(axis, input.ndim - 1), indices_or_sections
        if isinstance(parts, int) and (parts <= 0 or input.shape[along] % parts):
            raise OperandError(
                f"{name}: {input.shape[along]} cannot be cut into {parts} equal parts"
            )
        return tensor_split(input, parts, along)

    return cut


hsplit = _cutting("hsplit", 1, 1, "Cut along the columns (a vector along its only dimension).")
vsplit = _cutting("vsplit", 0, 2, "Cut along the rows.")
dsplit = _cutting("dsplit", 2, 3, "Cut along the third dimension.")


@public()
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of a larger one that is zero elsewhere.

    >>> import gradwalk as gw
    >>> gw.block_diag(gw.ones(1, 2), gw.tensor([[5.0]]))
    tensor([[1., 1., 0.],
            [0., 0., 5.]])
    """
    blocks = [reshape(x, shape=(1, math.prod(x.shape))) if x.ndim < 2 else x for x in tensors]
    if any(x.ndim != 2 for x in blocks):
        raise OperandError("block_diag takes tensors of at most two dimensions")
    width, start, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        end = start + block.shape[1]
        rows.append(pad(block, (start, width - end)))
        start = end
    return cat(rows, 0)


@public()
def cartesian_prod(*tensors: Any) -> Any:
    """Every way to take one element of each vector, one row each.

    >>> import gradwalk as gw
    >>> gw.cartesian_prod(gw.tensor([1, 2]), gw.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return stack([reshape(grid, shape=(math.prod(grid.shape),)) for grid in grids], 1)


@public()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Every way to take `r` elements of a vector, one row each.

    >>> import gradwalk as gw
    >>> gw.combinations(gw.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.ndim != 1:
        raise OperandError(f"combinations takes a vector, not shape {tuple(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.shape[0]), r)), dtype=np.int64)
    return input[rows.reshape(-1, r) if r else rows.reshape(-1)[:0]]


@public(method=True)
def diagflat(input: Any, offset: int = 0) -> Any:
    """All elements on the diagonal of a matrix."""
    return diag(reshape(input, shape=(math.prod(input.shape),)), offset)


@public(method=True, numpy=True)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The cross product of vectors along `dim`, or along the first dimension of length 3.

    >>> import gradwalk as gw
    >>> gw.cross(gw.tensor([1.0, 0.0, 0.0]), gw.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise OperandError(
            f"cross: shapes {tuple(input.shape)} and {tuple(other.shape)} differ in their "
            "number of dimensions"
        )
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), -1)
    axis = normal_axis(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis - input.ndim] != 3:
        raise OperandError(
            f"cross: shapes {tuple(input.shape)} and {tuple(other.shape)} must have 3 along {dim}"
        )
    axis -= input.ndim  # counted from the end, as shapes are matched
    ahead = roll(input, -1, axis) * roll(other, 1, axis)
    return ahead - roll(input, 1, axis) * roll(other, -1, axis)


@public(method=True, inplace=True)
@factors_first("beta", "alpha")
@autocast_as_one
@rounds_once
def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × the outer product of two vectors."""
    dtype = result_dtype([input, vec1, vec2])  # addmm has none for operands that differ
    input, vec1, vec2 = (
        x if x.dtype == dtype else cast(x, dtype=dtype) for x in (input, vec1, vec2)
    )
    column, row = reshape(vec1, shape=(vec1.shape[0], 1)), reshape(vec2, shape=(1, vec2.shape[0]))
    return addmm(input, column, row, beta=beta, alpha=alpha)


@public(out=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All tensors expanded to their common shape."""
    shape = np.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


@public(out=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """The coordinates of a grid, from the vectors of its axes.

    >>> import gradwalk as gw
    >>> rows, columns = gw.meshgrid(gw.tensor([1, 2]), gw.tensor([3, 4, 5]))
    >>> columns
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if indexing not in ("ij", "xy"):
        raise OperandError(f"meshgrid: indexing must be 'ij' or 'xy', not {indexing!r}")
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    vectors = [atleast_1d(t) for t in tensors]
    if any(v.ndim > 1 for v in vectors):
        raise OperandError(f"meshgrid takes vectors, got {[tuple(v.shape) for v in vectors]}")
    shape = tuple(v.shape[0] for v in vectors)
    grids = []
    for axis, vector in enumerate(vectors):
        lifted = reshape(vector, shape=tuple(n if i == axis else 1 for i, n in enumerate(shape)))
        grid = broadcast_to(lifted, shape)
        swap = indexing == "xy" and len(shape) > 1
        grids.append(transpose(grid, 0, 1) if swap else grid)
    return tuple(grids)


@public()
def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0) -> Any:
    """`nn.functional.pad` with one value."""
    return reshaping.pad(input, pad, value=value)
