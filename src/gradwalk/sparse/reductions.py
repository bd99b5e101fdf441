"""Sums and softmax of the elements of a sparse tensor."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.sparse.sparse_tensor import Dims, SparseTensor, added_up
from gradwalk.tensors.creation import zeros
from gradwalk.tensors.tensor import Tensor


def sum(input: SparseTensor, dim: Dims | None = None, dtype: Any = None) -> Any:
    """The sum of all elements, or a sparse tensor of the sums over some dimensions.

    >>> import gradwalk as gw
    >>> degrees = gw.sparse.sum(gw.eye(2).to_sparse(), dim=1)
    >>> degrees.to_dense()
    tensor([1., 1.])
    """
    input = input if dtype is None else input.to(dtype)
    if dim is None:
        return input._values().sum()
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    gone = {d % input.ndim for d in given}
    first_dense = input.sparse_dim()
    values = input._values()
    dense = tuple(d - first_dense + 1 for d in gone if d >= first_dense)
    values = values.sum(dense) if dense else values
    left = [d for d in range(first_dense) if d not in gone]
    if not left:
        return values.sum(0)
    shape = tuple(n for d, n in enumerate(input.shape) if d not in gone)
    return SparseTensor(input._indices()[left], values, shape).coalesce()


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """`softmax` along a dimension over the stored elements; the others count as −inf.

    >>> import gradwalk as gw
    >>> scores = gw.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 5.0]]).to_sparse()
    >>> gw.sparse.softmax(scores, 1).to_dense()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    shifted, totals = _softmax_parts(input, dim, dtype)
    return input.coalesce()._with(shifted.exp() / totals)


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`, of the stored elements."""
    shifted, totals = _softmax_parts(input, dim, dtype)
    return input.coalesce()._with(shifted - totals.log())


def _softmax_parts(x: SparseTensor, dim: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """The stored elements minus the largest beside them, and the sums of their exponentials."""
    x = (x if dtype is None else x.to(dtype)).coalesce()
    axis, first_dense = dim % x.ndim, x.sparse_dim()
    values = x._stored
    if axis >= first_dense:
        along = axis - first_dense + 1
        shifted = values - values.detach().amax(along, keepdim=True)
        return shifted, shifted.exp().sum(along, keepdim=True)
    beside = [d for d in range(first_dense) if d != axis]
    lengths = tuple(x.shape[d] for d in beside)
    places, count = SparseTensor(x._index[beside], values, lengths)._flat()
    least = zeros(count, *values.shape[1:], dtype=values.dtype, device=values.device) - math.inf
    shifted = values - least.index_reduce(0, places, values.detach(), "amax")[places]
    return shifted, added_up(shifted.exp(), places, count)[places]
