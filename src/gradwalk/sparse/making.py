"""Making sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.public import public
from gradwalk.sparse.sparse_tensor import SparseTensor
from gradwalk.tensors.creation import as_tensor, zeros
from gradwalk.tensors.tensor import Tensor


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor of `values` at `indices`, which has a row for each dimension.

    Elements that are given twice are added. Gradients reach `values`. With a size alone, no element
    is stored.

    >>> import gradwalk as gw
    >>> gw.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:
        size = tuple(indices)
        indices, values = np.zeros((len(size), 0), np.int64), zeros(0, dtype=dtype, device=device)
    values = as_tensor(values, dtype=dtype, device=device)
    index = as_tensor(indices, device=values.device).long()
    index = index.unsqueeze(0) if index.ndim == 1 else index
    values = values.reshape(1) if not values.ndim else values
    if index.ndim != 2 or values.ndim < 1 or index.shape[1] != values.shape[0]:
        raise ValueError(
            "sparse_coo_tensor: indices have a row for each dimension and a column for each value, "
            f"not shape {tuple(index.shape)} for values of shape {tuple(values.shape)}"
        )
    places = numbers_of(index)
    if size is None:
        if places is None:
            raise ValueError("sparse_coo_tensor: the size cannot be found out. Fix: pass size.")
        lengths = places.max(axis=1, initial=-1) + 1
        size = (*lengths.tolist(), *values.shape[1:])
    shape = tuple(int(n) for n in size)
    lengths = np.array(shape[: index.shape[0]])[:, None]
    if len(shape) != index.shape[0] + values.ndim - 1 or shape[len(lengths) :] != values.shape[1:]:
        raise ValueError(
            f"sparse_coo_tensor: the size {shape} does not fit {index.shape[0]} rows of indices "
            f"and values of shape {tuple(values.shape)}"
        )
    if places is not None and ((places < 0) | (places >= lengths)).any():
        raise ValueError(
            f"sparse_coo_tensor: an index is outside of the size {shape}: the rows of indices go "
            f"from {places.min(axis=1).tolist()} to {places.max(axis=1).tolist()}"
        )
    if requires_grad:
        values = values.detach().requires_grad_()
    return SparseTensor(index, values, shape, is_coalesced)


def _legacy(name: str, dtype: str) -> Callable[..., SparseTensor]:
    def make(indices: Any, values: Any, size: Any = None) -> SparseTensor:
        return sparse_coo_tensor(indices, values, size, dtype=np.dtype(dtype))

    make.__name__ = name
    make.__doc__ = f"`sparse_coo_tensor` of {dtype}, as PyTorch's first years called it."
    return make


FloatTensor = _legacy("FloatTensor", "float32")
DoubleTensor = _legacy("DoubleTensor", "float64")


@public(method=True, namespaces="")
def to_sparse(
    input: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None
) -> Any:
    """The elements that are not 0, as a sparse tensor."""
    if layout == Tensor.layout:
        return input
    if layout == "torch.sparse_csr" and blocksize is None:
        return to_sparse(input, sparse_dim).to_sparse_csr()
    if blocksize is not None or layout not in (None, SparseTensor.layout):
        raise NotImplementedError(f"there are no sparse tensors of the layout {layout}")
    dims = input.ndim if sparse_dim is None else sparse_dim
    if not min(input.ndim, 1) <= dims <= input.ndim:
        raise ValueError(f"to_sparse of {input.ndim} dimension(s) with sparse_dim={sparse_dim}")
    if not input.ndim:
        stored = input.reshape(1)[input.detach().reshape(1) != 0]
        index = as_tensor(np.zeros((0, stored.shape[0]), np.int64), device=input.device)
        return SparseTensor(index, stored, (), coalesced=True)
    kept = (input.detach() != 0).flatten(dims).any(-1) if dims < input.ndim else input.detach() != 0
    places = kept.nonzero()
    index = places.T.contiguous()
    return SparseTensor(index, input[tuple(index)], tuple(input.shape), coalesced=True)


@public(method=True, namespaces="")
def to_sparse_coo(input: Tensor) -> SparseTensor:
    """`to_sparse` in the layout of coordinates, whatever it was."""
    made: SparseTensor = to_sparse(input)
    return made


@public(method=True, namespaces="")
def sparse_mask(input: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements at the places that a sparse tensor stores."""
    mask = mask.coalesce()
    return SparseTensor(mask._index, input[tuple(mask._index)], mask.shape, coalesced=True)
