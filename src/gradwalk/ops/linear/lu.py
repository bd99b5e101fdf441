"""LU factorisations, with and without exchanged rows.

LAPACK chooses the rows; the elimination then runs on rows in that order, and only it has a rule.
Matrices that are not square have more products around it.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import int32, int64
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import zero
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import adjoint as conjugate_transpose
from gradwalk.ops.index.indexing import take_along_dim
from gradwalk.ops.linear.decompositions import LinAlgError, solve_op
from gradwalk.ops.linear.matrices import of_matrices
from gradwalk.ops.reduce.reduction import any, argmax
from gradwalk.ops.shape.rearranging import diagonal, tril, triu
from gradwalk.ops.shape.reshaping import (
    cast,
    cat,
    getitem_slice,
    matrix_transpose,
    new_result,
    unsqueeze,
)

Packed = namedtuple("Packed", "LU pivots")
PackedInfo = namedtuple("PackedInfo", "LU pivots info")
Parts = namedtuple("Parts", "P L U")


def by_matrix(x: Any, function: Any, shape: Shape, dtype: Any) -> Any:
    """One result per matrix of a batch, by a function of one matrix."""
    out = np.empty((*x.shape[:-2], *shape), dtype)
    for place in np.ndindex(x.shape[:-2]):
        out[place] = function(x[place])
    return out


def _pivots_forward(x: Any) -> Any:
    from scipy.linalg.lapack import get_lapack_funcs

    factor = get_lapack_funcs("getrf", (x,))
    count = min(x.shape[-2:])
    if not count:
        return np.empty((*x.shape[:-2], 0), np.int32)
    return by_matrix(x, lambda matrix: factor(matrix)[1] + 1, (count,), np.int32)


# The row, counted from 1, that each row is exchanged with, one after the other.
lu_pivots = define(
    "lu_pivots",
    _pivots_forward,
    vjp=[None],
    shape=lambda x: (*x[:-2], min(x[-2:])),
    gives=int32,
    on_complex=True,
)


def _order_forward(pivots: Any, *, rows: int) -> Any:
    if (pivots < 1).any() or (pivots > rows).any():
        raise ValueError(f"pivots are numbers from 1 to {rows}, as lu_factor returns them")
    order = np.empty((*pivots.shape[:-1], rows), np.int64)
    order[...] = np.arange(rows)
    for row in range(pivots.shape[-1]):
        other = pivots[..., row : row + 1].astype(np.int64) - 1
        ahead = order[..., row : row + 1].copy()
        order[..., row : row + 1] = np.take_along_axis(order, other, -1)
        np.put_along_axis(order, other, ahead, -1)
    return order


row_order = define(
    "row_order",
    _order_forward,
    vjp=[None],
    shape=lambda pivots, *, rows: (*pivots[:-1], rows),
    gives=int64,
)


def _eliminate_forward(x: Any) -> Any:
    out = x.copy()
    for k in range(x.shape[-1]):
        pivot = out[..., k : k + 1, k : k + 1]
        below = out[..., k + 1 :, k : k + 1]
        below /= np.where(pivot == 0, 1, pivot)
        out[..., k + 1 :, k + 1 :] -= below * out[..., k : k + 1, k + 1 :]
    return out


def _unit_lower(packed: Any) -> Any:
    """The first factor; its diagonal of ones is not stored."""
    below = tril(packed, -1)
    return below + np.eye(*packed.shape[-2:], dtype=packed.dtype)


def _eliminate_rule(g: Any, out: Any) -> Any:
    lower, upper = _unit_lower(out), triu(out)
    inner = tril(lower.mT @ g, -1) + triu(g @ upper.mT)
    return solve_op(upper, solve_op(lower.mT, inner).mT).mT


# Square matrices, no rows exchanged; both factors in one matrix.
eliminate: Op = define(
    "eliminate", _eliminate_forward, vjp=[_eliminate_rule], shape=lambda x: x, on_complex=True
)


def _factored(name: str, x: Any, pivot: bool) -> Packed:
    rows, columns = of_matrices(name, x).shape[-2:]
    count, last = min(rows, columns), x.ndim - 1
    if pivot:
        pivots = lu_pivots(x)
        x = take_along_dim(x, unsqueeze(row_order(pivots, rows=rows), -1), -2)
    else:
        pivots = cast(zero(diagonal(x, 0, -2, -1)), dtype=int32) + _counted(count)
    corner = getitem_slice(getitem_slice(x, last - 1, 0, count), last, 0, count)
    packed = eliminate(corner)
    if columns > count:
        right = solve_op(_unit_lower(packed), getitem_slice(x, last, count, columns))
        packed = cat([packed, right], -1)
    elif rows > count:
        upper = triu(packed)
        # Below a pivot of 0 there is nothing left to divide.
        upper = where((upper == 0) & np.eye(count, dtype=np.bool_), 1, upper)
        low = solve_op(upper.mT, getitem_slice(x, last - 1, count, rows).mT)
        packed = cat([packed, low.mT], -2)
    return Packed(packed, pivots)


def _counted(count: int) -> Any:
    return np.arange(1, count + 1, dtype=np.int32)


def first_failure(failed: Any) -> Any:
    """LAPACK's `info`: the first place along the last axis, counted from 1, that failed, or 0."""
    if not failed.shape[-1]:
        return cast(any(failed, -1), dtype=int32)
    return cast(where(any(failed, -1), argmax(cast(failed, dtype=int32), -1) + 1, 0), dtype=int32)


@public(namespaces="linalg")
@new_result
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> PackedInfo:
    """`lu_factor`, and for each matrix the place of the first zero on the diagonal of U, or 0."""
    packed, pivots = _factored("lu_factor", A, pivot)
    info = first_failure(diagonal(packed, 0, -2, -1) == 0)
    if check_errors and bool(any(info != 0)):
        raise LinAlgError("linalg.lu_factor: U has a zero on its diagonal, so a matrix is singular")
    return PackedInfo(packed, pivots, info)


@public(namespaces="linalg")
@new_result
def lu_factor(A: Any, *, pivot: bool = True) -> Packed:
    """L and U in one matrix, and the rows that were exchanged, for `lu_solve`."""
    return _factored("lu_factor", A, pivot)


@public(namespaces="linalg")
@new_result
def lu(A: Any, *, pivot: bool = True) -> Parts:
    """P, L and U with P L U = A: a permutation, a unit lower and an upper triangle.

    >>> import gradwalk as gw
    >>> gw.linalg.lu(gw.tensor([[0.0, 2.0], [1.0, 3.0]])).U
    tensor([[1., 3.],
            [0., 2.]])
    """
    return lu_unpack(*_factored("lu", A, pivot))


@public()
@new_result
def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Parts:
    """P, L and U of what `lu_factor` returns."""
    rows, columns = of_matrices("lu_unpack", LU_data).shape[-2:]
    if LU_pivots.dtype != int32:
        raise TypeError(f"lu_unpack takes pivots of int32, not {LU_pivots.dtype}")
    count, last = min(rows, columns), LU_data.ndim - 1
    nothing = getitem_slice(zero(LU_data), last, 0, 0)
    permutation = lower = upper = nothing
    if unpack_data:
        lower = _unit_lower(getitem_slice(LU_data, last, 0, count))
        upper = triu(getitem_slice(LU_data, last - 1, 0, count))
    if unpack_pivots:
        permutation = _permutation(LU_pivots, rows, LU_data.dtype)
    return Parts(permutation, lower, upper)


def _permutation(pivots: Any, rows: int, dtype: Any) -> Any:
    order = row_order(pivots, rows=rows)
    return cast(unsqueeze(order, -2) == np.arange(rows)[:, None], dtype=dtype)


@public(namespaces="linalg")
@new_result
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X with A X = B (X A = B if not `left`), of A as `lu_factor` returns it.

    >>> import gradwalk as gw
    >>> factors = gw.linalg.lu_factor(gw.tensor([[0.0, 2.0], [1.0, 3.0]]))
    >>> gw.linalg.lu_solve(*factors, gw.tensor([[2.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    if LU.shape[-1] != LU.shape[-2]:
        raise ValueError(f"lu_solve takes square matrices, not shape {tuple(LU.shape)}")
    permutation, lower, upper = lu_unpack(LU, pivots)
    if left != adjoint:
        right = B if left else conjugate_transpose(B)
        out = solve_op(upper, solve_op(lower, permutation.mT @ right))
        return out if left else conjugate_transpose(out)
    turn = conjugate_transpose if adjoint else matrix_transpose
    out = solve_op(turn(lower), solve_op(turn(upper), B if left else B.mT))
    return permutation @ out if left else (permutation @ out).mT
