"""Sparse tensors under the names of `torch.sparse`, as far as graph networks need them.

A `SparseTensor` is two ordinary tensors: the indices of its elements and their values. Its product
with a matrix takes rows, multiplies and adds them up by ordinary ops, so gradients reach the values
and the matrix, and `compile` compiles it. Other operations are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Operators
from gradwalk.ops.core.public import public
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.shape.reshaping import cat
from gradwalk.tensors.creation import as_tensor, zeros
from gradwalk.tensors.tensor import Tensor

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "softmax", "sum"]

Dims = int | tuple[int, ...]


class SparseTensor(Operators):
    """A tensor that stores only some elements; make one with `gradwalk.sparse_coo_tensor`.

    >>> import gradwalk as gw
    >>> edges = gw.tensor([[0, 1, 1], [1, 0, 2]])
    >>> adjacency = gw.sparse_coo_tensor(edges, gw.ones(3), (3, 3))
    >>> adjacency @ gw.tensor([[1.0], [2.0], [3.0]])
    tensor([[2.],
            [4.],
            [0.]])
    """

    is_sparse = True
    layout = "torch.sparse_coo"

    def __init__(
        self, indices: Tensor, values: Tensor, shape: tuple[int, ...], coalesced: bool = False
    ) -> None:
        self._index = indices  # (sparse dimensions, elements)
        self._stored = values  # (elements, *dense dimensions)
        self.shape = shape
        self._coalesced = coalesced or indices.shape[1] < 2

    def _with(self, values: Tensor) -> SparseTensor:
        """The same places with other values."""
        return SparseTensor(self._index, values, self.shape, self._coalesced)

    # -- what it holds -----------------------------------------------------------------------------

    def _indices(self) -> Tensor:
        return self._index

    def _values(self) -> Tensor:
        return self._stored

    def indices(self) -> Tensor:
        """The place of each element: one row per dimension, one column per element."""
        self._check_coalesced("indices")
        return self._index

    def values(self) -> Tensor:
        """The elements, in the order of `indices`."""
        self._check_coalesced("values")
        return self._stored

    def _check_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"{name}() of a sparse tensor that may store an element twice. "
                f"Fix: x.coalesce().{name}()"
            )

    def is_coalesced(self) -> bool:
        """Whether every element is stored once, in order."""
        return self._coalesced

    def sparse_dim(self) -> int:
        """How many dimensions the indices describe."""
        return self._index.shape[0]

    def dense_dim(self) -> int:
        """How many dimensions each value has."""
        return self._stored.ndim - 1

    def _nnz(self) -> int:
        return self._index.shape[1]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """How many elements there would be with the zeros."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    dtype = property(lambda self: self._stored.dtype)
    device = property(lambda self: self._stored.device)
    is_cuda = property(lambda self: self._stored.is_cuda)
    requires_grad = property(lambda self: self._stored.requires_grad)

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at their places."""
        return None if self._stored.grad is None else self._with(self._stored.grad)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Ask for gradients of the values."""
        self._stored.requires_grad_(requires_grad)
        return self

    def detach(self) -> SparseTensor:
        """The same without a history."""
        return self._with(self._stored.detach())

    def clone(self) -> SparseTensor:
        """A copy."""
        return SparseTensor(self._index.clone(), self._stored.clone(), self.shape, self._coalesced)

    def to(self, *args: Any, **options: Any) -> SparseTensor:
        """Convert the values to a dtype, or move the tensor to a device."""
        values = self._stored.to(*args, **options)
        return SparseTensor(self._index.to(values.device), values, self.shape, self._coalesced)

    def float(self) -> SparseTensor:
        """The values as float32."""
        return self._with(self._stored.float())

    def double(self) -> SparseTensor:
        """The values as float64."""
        return self._with(self._stored.double())

    def cpu(self) -> SparseTensor:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> SparseTensor:
        """On a GPU."""
        return self.to("cuda" if device is None else device)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(Tensor, name):
            raise AttributeError(f"a sparse tensor has no attribute '{name}'")
        raise AttributeError(f"a sparse tensor has no '{name}'. Fix: x.to_dense().{name}")

    def __repr__(self) -> str:
        return (
            f"sparse_coo_tensor(indices={self._index!r},\n  values={self._stored!r},\n"
            f"  size={self.shape}, nnz={self._nnz()})"
        )

    # -- what it computes --------------------------------------------------------------------------

    def _flat(self) -> tuple[Tensor, int]:
        """Each place as one number, and how many places there are."""
        lengths = self.shape[: self.sparse_dim()]
        places = as_tensor(np.zeros(self._nnz(), np.int64), device=self.device)
        for row, length in zip(self._index, lengths, strict=True):
            places = places * length + row
        return places, math.prod(lengths)

    def to_dense(self) -> Tensor:
        """An ordinary tensor with the zeros; elements that are stored twice are added."""
        places, count = self._flat()
        return _added_up(self._stored, places, count).reshape(self.shape)

    def coalesce(self) -> SparseTensor:
        """The same tensor, with every element stored once and in order."""
        if self._coalesced:
            return self
        places, _ = self._flat()
        kept, member = places.unique(return_inverse=True)
        lengths = self.shape[: self.sparse_dim()]
        rows = np.unravel_index(np.asarray(kept.cpu().numpy()), lengths)
        index = as_tensor(np.stack(rows).astype(np.int64), device=self.device)
        values = _added_up(self._stored, member, kept.shape[0])
        return SparseTensor(index, values, self.shape, coalesced=True)

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.transpose(0, 1)

    T = property(t)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two dimensions swapped."""
        if self.dense_dim():
            raise _refused("transpose of one whose values are not numbers")
        order = list(range(self.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        shape = tuple(self.shape[d] for d in order)
        return SparseTensor(self._index[order], self._stored, shape)

    def sum(self, dim: Dims | None = None) -> Any:  # type: ignore[override]
        """The sum of all elements, or a sparse tensor of those over some dimensions."""
        return sum(self, dim)

    def __rmatmul__(self, other: Any) -> Any:
        return self._apply(matmul_op, (other, self), {})

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """What operators and functions of ordinary tensors do with a sparse one."""
        rule = _RULES.get(op.name)
        if op.name in _KEEP_ZEROS or (op.name == "power" and attrs["exponent"] > 0):
            x = args[0].coalesce()
            return x._with(op(x._stored, **attrs))
        result = NotImplemented if rule is None else rule(*args)
        if result is NotImplemented:
            raise _refused(op.name)
        return result


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name} of a sparse tensor is not supported. Fix: call .to_dense() first, or compute with "
        "its .values() and make a sparse tensor of the result."
    )


def _added_up(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Values added up by their place, from 0 to `count` − 1."""
    empty = zeros(count, *values.shape[1:], dtype=values.dtype, device=values.device)
    return empty.index_add(0, places, values)


def _product(x: Any, y: Any) -> Any:
    if isinstance(y, SparseTensor) and not isinstance(x, SparseTensor) and np.ndim(x) == 2:
        return (y.t() @ x.mT).mT
    if not isinstance(x, SparseTensor) or isinstance(y, SparseTensor):
        return NotImplemented
    if y.ndim == 1:
        return _product(x, y.unsqueeze(1)).squeeze(1)
    if x.sparse_dim() != 2 or x.dense_dim() or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ValueError(
            "a sparse product takes a sparse matrix (m, n) and a matrix (n, k), not shapes "
            f"{x.shape} and {tuple(y.shape)}"
        )
    rows, columns = x._index
    return _added_up(x._stored.unsqueeze(1) * y[columns], rows, x.shape[0])


def _multiple(x: Any, y: Any) -> Any:
    if isinstance(y, SparseTensor):
        x, y = y, x
    if isinstance(y, SparseTensor):
        return _both_stored(x, y)
    if not np.ndim(y):
        return x._with(x._stored * y)
    if tuple(np.broadcast_shapes(x.shape, tuple(y.shape))) != tuple(x.shape):
        return NotImplemented
    x = x.coalesce()
    return x._with(x._stored * y.expand(x.shape)[tuple(x._index)])


def _both_stored(x: SparseTensor, y: SparseTensor) -> Any:
    """The products of the elements that both store."""
    if x.shape != y.shape or x.sparse_dim() != y.sparse_dim():
        return NotImplemented
    x, y = x.coalesce(), y.coalesce()
    ours, theirs = (np.asarray(t._flat()[0].cpu().numpy()) for t in (x, y))
    found = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)[1:]
    left, right = (as_tensor(places.astype(np.int64), device=x.device) for places in found)
    return SparseTensor(x._index[:, left], x._stored[left] * y._stored[right], x.shape, True)


def _sum_of_two(x: Any, y: Any) -> Any:
    """Both lists of elements, one after the other; beside an ordinary tensor, an ordinary one."""
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return _dense(x) + _dense(y)
    if not (isinstance(x, SparseTensor) and isinstance(y, SparseTensor)) or x.shape != y.shape:
        return NotImplemented
    index, values = cat([x._index, y._index], 1), cat([x._stored, y._stored])
    return SparseTensor(index, values, x.shape)


def _dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, SparseTensor) else x


_RULES: dict[str, Callable[..., Any]] = {
    "add": _sum_of_two,
    "sub": lambda x, y: _sum_of_two(x, -y),
    "neg": lambda x: x._with(-x._stored),
    "mul": _multiple,
    "div": lambda x, y: x * (1 / y) if isinstance(x, SparseTensor) else NotImplemented,
    "matmul": _product,
}
# Ops of one tensor that are 0 at 0: those of the stored elements.
_KEEP_ZEROS = {
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "expm1", "floor", "leaky_relu", "log1p",
    "relu", "round", "sgn", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
}  # fmt: skip


# -- the functions ---------------------------------------------------------------------------------


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
    if index.ndim != 2 or values.ndim < 1 or index.shape[1] != values.shape[0]:
        raise ValueError(
            "sparse_coo_tensor: indices have a row for each dimension and a column for each value, "
            f"not shape {tuple(index.shape)} for values of shape {tuple(values.shape)}"
        )
    places = numbers_of(index)
    if size is None:
        if places is None or not places.size:
            raise ValueError("sparse_coo_tensor: the size cannot be found out. Fix: pass size.")
        size = (*(int(n) + 1 for n in places.max(axis=1)), *values.shape[1:])
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
    return SparseTensor(index, values, shape, bool(is_coalesced))


def mm(sparse: Any, dense: Any) -> Tensor:
    """The product of a sparse matrix and a matrix, also known as `gradwalk.spmm`."""
    return sparse @ dense


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta × mat + alpha × (mat1 @ mat2), for a sparse matrix mat1."""
    return beta * mat + alpha * (mat1 @ mat2)


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
    return shifted, _added_up(shifted.exp(), places, count)[places]


def _legacy(name: str, dtype: str) -> Callable[..., SparseTensor]:
    def make(indices: Any, values: Any, size: Any = None) -> SparseTensor:
        return sparse_coo_tensor(indices, values, size, dtype=np.dtype(dtype))

    make.__name__ = name
    make.__doc__ = f"`sparse_coo_tensor` of {dtype}, as PyTorch's first years called it."
    return make


FloatTensor = _legacy("FloatTensor", "float32")
DoubleTensor = _legacy("DoubleTensor", "float64")
spmm = mm


@public(method=True, namespaces="")
def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """The elements that are not 0, as a sparse tensor."""
    dims = input.ndim if sparse_dim is None else sparse_dim
    if not 0 < dims <= input.ndim:
        raise ValueError(f"to_sparse of {input.ndim} dimension(s) with sparse_dim={sparse_dim}")
    kept = (input.detach() != 0).flatten(dims).any(-1) if dims < input.ndim else input.detach() != 0
    places = kept.nonzero()
    index = places.T.contiguous()
    return SparseTensor(index, input[tuple(index)], tuple(input.shape), coalesced=True)
