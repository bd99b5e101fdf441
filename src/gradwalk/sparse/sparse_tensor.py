"""The sparse tensor: what it holds, and how operations reach it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gradwalk.engine.modes import current
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Operators
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.tensors.creation import as_tensor, zeros
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor

if TYPE_CHECKING:
    from gradwalk.sparse.compressed import CompressedRows

Dims = int | tuple[int, ...]
RULES: dict[str, Callable[..., Any]] = {}  # what an op does with sparse tensors, by its name
CONVERSIONS = {
    "half", "bfloat16", "float", "double", "cfloat", "cdouble", "bool", "byte", "char", "short",
    "int", "long",
}  # fmt: skip


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

    is_sparse: ClassVar[bool] = True
    is_sparse_csr: ClassVar[bool] = False
    layout: ClassVar[str] = "torch.sparse_coo"
    has_own_rules = True  # which ops beside ordinary tensors ask for

    def __init__(
        self, indices: Tensor, values: Tensor, shape: tuple[int, ...], coalesced: bool | None = None
    ) -> None:
        self._index = indices  # (sparse dimensions, elements)
        self._stored = values  # (elements, *dense dimensions)
        self.shape = shape
        self._coalesced = indices.shape[1] < 2 if coalesced is None else coalesced

    def _with(self, values: Tensor) -> Self:
        """The same places with other values."""
        return type(self)(self._index, values, self.shape, self._coalesced)

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

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Say whether every element is stored once, in order."""
        self._coalesced = coalesced
        return self

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

    ndimension = dim

    def type(self, dtype: Any = None) -> Any:
        """PyTorch's name of the class, such as `torch.sparse.FloatTensor`; or a conversion."""
        if dtype is not None:
            return self.to(dtype)
        return str(self._stored.type()).replace("torch.", "torch.sparse.")

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
        return type(self)(self._index.clone(), self._stored.clone(), self.shape, self._coalesced)

    def to(self, *args: Any, **options: Any) -> SparseTensor:
        """Convert the values to a dtype, or move the tensor to a device."""
        values = self._stored.to(*args, **options)
        if values is self._stored:
            return self
        return type(self)(self._index.to(values.device), values, self.shape, self._coalesced)

    def cpu(self) -> SparseTensor:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> SparseTensor:
        """On a GPU."""
        return self.to("cuda" if device is None else device)

    def __getattr__(self, name: str) -> Any:
        if name in CONVERSIONS:
            return lambda: self._with(getattr(self._stored, name)())
        if name.endswith("_") and not name.startswith("_") and hasattr(self, name[:-1]):
            return lambda *args, **options: self._become(getattr(self, name[:-1])(*args, **options))
        if not hasattr(Tensor, name):
            raise AttributeError(f"a sparse tensor has no attribute '{name}'")
        raise AttributeError(f"a sparse tensor has no '{name}'. Fix: x.to_dense().{name}")

    def _parts(self) -> tuple[Any, ...]:
        """What a file holds of it, in PyTorch's order."""
        return self._index, self._stored, Size(self.shape), self._coalesced

    def __bool__(self) -> bool:
        return bool(self.to_dense())

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
        return added_up(self._stored, places, count).reshape(self.shape)

    def coalesce(self) -> SparseTensor:
        """The same tensor, with every element stored once and in order."""
        if self._coalesced:
            return self
        places, _ = self._flat()
        kept, member = places.unique(return_inverse=True)
        lengths = self.shape[: self.sparse_dim()]
        numbers = np.asarray(kept.cpu().numpy())
        rows = np.array(np.unravel_index(numbers, lengths) if lengths else [], np.int64)
        index = as_tensor(rows.reshape(len(lengths), len(numbers)), device=self.device)
        values = added_up(self._stored, member, kept.shape[0])
        return SparseTensor(index, values, self.shape, coalesced=True)

    def to_sparse_csr(self) -> CompressedRows:
        """The same matrix with compressed rows."""
        from gradwalk.sparse.compressed import compressed

        return compressed(self)

    def t(self) -> SparseTensor:
        """The transpose of a matrix; a vector stays as it is."""
        return self if self.ndim < 2 else self.transpose(0, 1)

    T = property(t)

    def transpose(self, dim0: Any, dim1: int | None = None) -> SparseTensor:
        """Two dimensions swapped; given one argument, the order of all of them."""
        if dim1 is None:
            return self.permute(*dim0)
        order = list(range(self.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return self.permute(*order)

    def to_sparse(self, sparse_dim: int | None = None, **options: Any) -> Any:
        """Itself, or one whose indices describe another number of dimensions."""
        kept = options.get("layout") in (None, self.layout) and not options.get("blocksize")
        if kept and sparse_dim in (None, self.sparse_dim()):
            return self
        return self.to_dense().to_sparse(sparse_dim, **options)

    def to_sparse_coo(self) -> SparseTensor:
        """Itself: this is its layout."""
        return self

    def __rmatmul__(self, other: Any) -> Any:
        return self._apply(matmul_op, (other, self), {})

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """What operators and functions of ordinary tensors do with a sparse one."""
        known = RULES.get(op.name)
        result = NotImplemented if known is None else known(*args, **attrs)
        if result is NotImplemented:
            raise refused(op.name)
        return result

    # -- in place ----------------------------------------------------------------------------------

    def _become(self, other: SparseTensor) -> SparseTensor:
        """Hold what another one holds, as the result of a change in place."""
        if self._stored.requires_grad and self._stored.is_leaf and current().grad_enabled:
            raise RuntimeError(
                "a sparse tensor that asks for a gradient is changed in place. "
                "Fix: change it under no_grad(), or use what the operation returns"
            )
        return self._hold(other)

    def _hold(self, other: SparseTensor) -> SparseTensor:
        self._index, self._stored = other._index, other._stored
        self.shape, self._coalesced = other.shape, other._coalesced
        return self

    def copy_(self, src: SparseTensor, non_blocking: bool = False) -> SparseTensor:
        """Hold a copy of what another sparse tensor holds."""
        if not isinstance(src, SparseTensor):
            raise TypeError(
                f"copy_ of a {type(src).__name__} to a sparse tensor. Fix: .to_sparse()"
            )
        if tuple(src.shape) != tuple(self.shape):
            raise ValueError(f"copy_ of shape {tuple(src.shape)} to shape {tuple(self.shape)}")
        return self._become(src.to(self.dtype).clone())

    def zero_(self) -> SparseTensor:
        """Store no element."""
        return self._become(self._empty())

    def _empty(self) -> Self:
        """One of the same shape, dtype and device that stores no element."""
        return type(self)(self._index[:, :0], self._stored[:0].detach(), self.shape, True)


for _operator in ("add", "sub", "mul", "truediv"):
    setattr(
        SparseTensor,
        f"__i{_operator}__",
        lambda self, other, name=f"__{_operator}__": self._become(getattr(self, name)(other)),
    )


def rule(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what the op of this name does with sparse tensors; NotImplemented where it cannot."""

    def registered(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES[name] = function
        return function

    return registered


def refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name} of a sparse tensor is not supported. Fix: call .to_dense() first, or compute with "
        "its .values() and make a sparse tensor of the result."
    )


def added_up(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Values added up by their place, from 0 to `count` − 1."""
    empty = zeros(count, *values.shape[1:], dtype=values.dtype, device=values.device)
    return empty.index_add(0, places, values)
