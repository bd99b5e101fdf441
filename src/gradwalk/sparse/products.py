"""Products of sparse tensors with matrices, and with each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.shape.reshaping import cat
from gradwalk.sparse.places import concrete, matches
from gradwalk.sparse.sparse_tensor import SparseTensor, added_up, rule
from gradwalk.tensors.creation import arange, as_tensor


@rule("matmul")
def product(x: Any, y: Any) -> Any:
    """The matrix product; of two sparse matrices a sparse one."""
    if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
        return _of_two(x, y)
    if isinstance(y, SparseTensor):
        return (y.t() @ x.mT).mT if x.ndim == 2 else y.t() @ x if x.ndim == 1 else NotImplemented
    if y.ndim == 1:
        return product(x, y.unsqueeze(1)).squeeze(1)
    batch = x.shape[:-2]
    fits = x.ndim in (2, 3) and y.ndim == x.ndim and tuple(y.shape[:-2]) == tuple(batch)
    if x.dense_dim() or not fits or x.shape[-1] != y.shape[-2]:
        raise ValueError(
            "a sparse product takes a sparse matrix (m, n) and a matrix (n, k), not shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    rows, columns = x._index[-2:]
    if batch:
        rows, columns = rows + x._index[0] * x.shape[-2], columns + x._index[0] * x.shape[-1]
        y = y.reshape(math.prod(y.shape[:-1]), y.shape[-1])
    count = math.prod(x.shape[:-1])
    made = added_up(x._stored.unsqueeze(1) * y[columns], rows, count)
    return made.reshape(*batch, x.shape[-2], y.shape[-1]) if batch else made


def _of_two(x: SparseTensor, y: SparseTensor) -> Any:
    """Every element of x times every element of y in the row of its column."""
    if x.ndim != 2 or y.ndim != 2 or x.dense_dim() or y.dense_dim() or x.shape[1] != y.shape[0]:
        raise ValueError(
            "a sparse product takes matrices (m, n) and (n, k), not shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    index = concrete(x, "matmul"), concrete(y, "matmul")
    left, right = matches(index[0][1], index[1][0])
    places = np.stack([index[0][0][left], index[1][1][right]])
    ours, theirs = (as_tensor(found, device=x.device) for found in (left, right))
    values = x._stored[ours] * y._stored[theirs]
    shape = (x.shape[0], y.shape[1])
    return SparseTensor(as_tensor(places, device=x.device), values, shape).coalesce()


@rule("linear")
def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    made = x @ weight.t()
    return made if bias is None else made + bias


def mm(sparse: Any, dense: Any, reduce: str = "sum") -> Any:
    """The product of a sparse matrix and a matrix, also known as `gradwalk.spmm`.

    For graph networks, `reduce` may be "mean", "amax" or "amin" of what the elements stored in a
    row contribute, instead of their sum; a row without any gives 0.
    """
    if reduce == "sum":
        return sparse @ dense
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"sparse.mm: reduce is sum, mean, amax or amin, not {reduce!r}")
    rows, columns = sparse._index[-2:]
    if reduce == "mean":
        stored = rows.bincount(minlength=sparse.shape[0]).clamp(min=1)
        return (sparse @ dense) / stored.to(dense.dtype).unsqueeze(1)
    parts = sparse._stored.unsqueeze(1) * dense[columns]
    place, count = rows.unsqueeze(1).expand(parts.shape), len(parts)
    blank = parts.detach().new_zeros(sparse.shape[0], parts.shape[1])
    best = blank.scatter_reduce(0, place, parts.detach(), reduce, include_self=False)
    # The first of equal parts is the one that counts, for the gradient.
    order = arange(count, device=parts.device).unsqueeze(1).expand(parts.shape)
    order = order.where((parts == best[rows]) | parts.isnan(), count)
    first = order.new_full(blank.shape, count).scatter_reduce(0, place, order, "amin")
    return cat([parts, blank[:1]]).gather(0, first)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × mat + alpha × (mat1 @ mat2), for a sparse matrix mat1."""
    return beta * mat + alpha * (mat1 @ mat2)
