"""Sparse matrices in PyTorch's compressed layout: for each row, where its elements begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.public import public
from gradwalk.sparse.making import sparse_coo_tensor, to_sparse
from gradwalk.sparse.sparse_tensor import SparseTensor
from gradwalk.tensors.creation import as_tensor
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor


class CompressedRows(SparseTensor):
    """A sparse matrix in the layout `sparse_csr`; make one with `gradwalk.sparse_csr_tensor`.

    It holds what any sparse matrix holds, every element once and in order, so the rules of
    operations are the same. Results that are sparse matrices have this layout too.
    """

    is_sparse, is_sparse_csr, layout = False, True, "torch.sparse_csr"

    def crow_indices(self) -> Tensor:
        """Where the elements of each row begin among the values, and where the last row ends."""
        rows = np.asarray(numbers_of(self._index[0]))
        ends = np.cumsum(np.bincount(rows, minlength=self.shape[0]))
        return as_tensor(np.concatenate(([0], ends)).astype(np.int64), device=self.device)

    def col_indices(self) -> Tensor:
        """The column of each element."""
        return self._index[1]

    def indices(self) -> Tensor:
        """Refused: the layout has `crow_indices` and `col_indices`."""
        raise RuntimeError(
            "indices() of a matrix with compressed rows. Fix: .to_sparse().indices(), or "
            ".crow_indices() and .col_indices()"
        )

    def to_sparse(self, sparse_dim: int | None = None, **options: Any) -> Any:
        """The same matrix in the layout of coordinates."""
        if options.get("layout") == self.layout:
            return self
        plain = SparseTensor(self._index, self._stored, self.shape, coalesced=True)
        return plain.to_sparse(sparse_dim, **options)

    to_sparse_coo = to_sparse

    def _parts(self) -> tuple[Any, ...]:
        return self.crow_indices(), self.col_indices(), self._stored, Size(self.shape)

    def __repr__(self) -> str:
        return (
            f"sparse_csr_tensor(crow_indices={self.crow_indices()!r},\n"
            f"  col_indices={self.col_indices()!r},\n  values={self._stored!r},\n"
            f"  size={self.shape}, nnz={self._nnz()})"
        )

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        made = SparseTensor._apply(op, args, attrs)
        matrix = isinstance(made, SparseTensor) and made.ndim == made.sparse_dim() == 2
        return compressed(made) if matrix else made


def compressed(matrix: SparseTensor) -> CompressedRows:
    """A sparse matrix in this layout."""
    if isinstance(matrix, CompressedRows):
        return matrix
    if matrix.ndim != 2 or matrix.sparse_dim() != 2:
        kind = ValueError if matrix.ndim < 2 else NotImplementedError  # PyTorch has batches
        raise kind(f"to_sparse_csr of shape {tuple(matrix.shape)}: it is for matrices of numbers")
    matrix = matrix.coalesce()
    return CompressedRows(matrix._index, matrix._stored, matrix.shape, coalesced=True)


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedRows:
    """A sparse matrix of `values`, row by row: `crow_indices` says where each row begins.

    >>> import gradwalk as gw
    >>> gw.sparse_csr_tensor([0, 1, 3], [2, 0, 1], [3.0, 4.0, 5.0]).to_dense()
    tensor([[0., 0., 3.],
            [4., 5., 0.]])
    """
    starts, columns = (
        np.asarray(numbers_of(as_tensor(each))) for each in (crow_indices, col_indices)
    )
    counts = np.diff(starts)
    if starts.ndim != 1 or not len(starts) or starts[0] or (counts < 0).any():
        raise ValueError(
            f"sparse_csr_tensor: crow_indices begin at 0 and never fall: {starts.tolist()!s:.80}"
        )
    if columns.shape != (starts[-1],):
        raise ValueError(f"sparse_csr_tensor: {starts[-1]} columns, not shape {columns.shape}")
    index = np.stack([np.repeat(np.arange(len(counts)), counts), columns.astype(np.int64)])
    falls = (np.diff(index[0]) == 0) & (np.diff(index[1]) <= 0)
    if falls.any():
        raise ValueError("sparse_csr_tensor: the columns of a row rise, and none comes twice")
    if size is None:
        size = (len(counts), int(columns.max(initial=-1)) + 1)
    if int(size[0]) != len(counts):
        raise ValueError(f"sparse_csr_tensor: {len(counts)} rows in crow_indices, and size {size}")
    made = sparse_coo_tensor(
        index, values, size, dtype=dtype, device=device, requires_grad=requires_grad,
        is_coalesced=True,
    )  # fmt: skip
    return compressed(made)


@public(method=True, namespaces="")
def to_sparse_csr(input: Tensor) -> CompressedRows:
    """The elements of a matrix that are not 0, in the layout `sparse_csr`."""
    return compressed(to_sparse(input))
