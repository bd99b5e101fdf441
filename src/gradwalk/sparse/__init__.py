"""Sparse tensors under the names of `torch.sparse`, as far as graph networks need them.

A `SparseTensor` is two ordinary tensors: the indices of its elements and their values. Its product
with a matrix takes rows, multiplies and adds them up by ordinary ops, so gradients reach the values
and the matrix, and `compile` compiles it. Operations without a rule are refused by name.
"""

from gradwalk.sparse import rules as rules
from gradwalk.sparse.compressed import CompressedRows as CompressedRows
from gradwalk.sparse.compressed import sparse_csr_tensor as sparse_csr_tensor
from gradwalk.sparse.compressed import to_sparse_csr as to_sparse_csr
from gradwalk.sparse.making import DoubleTensor as DoubleTensor
from gradwalk.sparse.making import FloatTensor as FloatTensor
from gradwalk.sparse.making import sparse_coo_tensor as sparse_coo_tensor
from gradwalk.sparse.making import sparse_mask as sparse_mask
from gradwalk.sparse.making import to_sparse as to_sparse
from gradwalk.sparse.making import to_sparse_coo as to_sparse_coo
from gradwalk.sparse.products import addmm, mm
from gradwalk.sparse.reductions import log_softmax, softmax, sum
from gradwalk.sparse.sparse_tensor import SparseTensor

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "softmax", "sum"]

spmm = mm
