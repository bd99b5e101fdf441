"""The properties of a tensor, and new tensors like it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from gradwalk.engine.errors import name_of
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.handles import ACCUMULATED, RemovableHandle, registered
from gradwalk.graph.storage import (
    TypedStorage,
    UntypedStorage,
    offset_of,
    row_strides,
    strided_zeros,
)
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.shape.reshaping import sizes_of
from gradwalk.tensors.apply import row_major
from gradwalk.tensors.conversions import are_sizes
from gradwalk.tensors.devices import device, device_of
from gradwalk.tensors.leaves import LeafOptions, filled, leaf, like, makes_leaf
from gradwalk.tensors.size import Size

if TYPE_CHECKING:
    from gradwalk.tensors.tensor import Tensor


class Properties:
    """The methods and properties of a Tensor that record nothing."""

    __slots__ = ()
    _array: np.ndarray[Any, Any]
    hooks: Any

    def _shared(self: Any, name: str = "") -> Any:
        """The memory, for others to use; of `name(...)`, which cannot be compiled."""
        if name:
            self._leaves_as(name)
        row_major(self)
        return self._array

    def _attributes(self: Any) -> dict[str, Any]:
        """What the program has set on this tensor."""
        return {key: value for key, value in vars(self).items() if not hasattr(type(self), key)}

    def _give_attributes(self, copied: Any, memo: dict[Any, Any]) -> None:
        vars(copied).update(deepcopy(self._attributes(), memo))

    def __str__(self: Any) -> str:
        if isinstance(self._array, AbstractArray):  # a compiled function would print it only once
            self._leaves_as("the text")
        return repr(self)

    def __format__(self: Any, spec: str) -> str:
        if self.ndim or (not spec and type(self).__name__ != "Tensor"):
            return object.__format__(self, spec)
        return format(self.item(), spec)

    def __complex__(self: Any) -> complex:
        return complex(self.item())

    def __float__(self: Any) -> float:
        return float(self.item())

    def __int__(self: Any) -> int:
        return int(self.item())

    def register_post_accumulate_grad_hook(
        self: Any, hook: Callable[[Any], None]
    ) -> RemovableHandle:
        """Call `hook` with this leaf after a backward pass has added to its `.grad`.

        >>> import gradwalk as gw
        >>> x = gw.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (3 * x).sum().backward()
        tensor([3., 3.])
        """
        if not self.requires_grad or not self.is_leaf:
            why = "it is no leaf" if self.requires_grad else "it needs no gradient"
            raise RuntimeError(
                f"a hook on {name_of(self)} after its gradient was added would never run: {why}"
            )
        return registered(self, ACCUMULATED, hook)

    @property
    def shape(self) -> Size:
        """The length of each dimension."""
        return Size(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._array.dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self._array.nbytes

    @property
    def device(self) -> device:
        """Where its elements are."""
        return device_of(self._array)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours, per dimension or along one."""
        row_major(self)
        if not self._array.size and self._array.base is None:  # NumPy has any numbers there
            strides = row_strides(self.shape)
        else:
            strides = tuple(s // self._array.itemsize for s in self._array.strides)
        return strides if dim is None else strides[dim]

    @property
    def _cdata(self) -> int:
        """Which tensor this is, a number that programs compare."""
        return id(self)

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        row_major(self)
        return 0 if not self._array.size else int(self._array.__array_interface__["data"][0])

    # -- memory ------------------------------------------------------------------------------------

    def _is_view(self: Any) -> bool:
        return self._view is not None

    @property
    def _base(self: Any) -> Any:
        return None if self._view is None else self._view.base

    def _in_memory(self: Any, name: str) -> np.ndarray[Any, Any]:
        """The array, for functions that ask where its elements lie."""
        array: Any = self._shared(name)
        if getattr(array, "depth", 0):
            raise RuntimeError(
                f"{name} of {name_of(self)} inside vmap: a sample has no memory of its own.\n"
                "Fix: call it outside, or use reshape"
            )
        if isinstance(array, AbstractArray):
            raise TypeError(
                f"{name} of {name_of(self)} on {self.device}: only tensors in the memory of the "
                "CPU have a storage.\nFix: x.cpu()"
            )
        return array

    def storage_offset(self) -> int:
        """How many elements of its storage lie before its first one."""
        return offset_of(self._in_memory("storage_offset()"))

    def untyped_storage(self) -> UntypedStorage:
        """The memory that it shares with its views, as bytes."""
        return UntypedStorage(self._in_memory("untyped_storage()"))

    def storage(self) -> TypedStorage:
        """The memory that it shares with its views, as elements."""
        return TypedStorage(self._in_memory("storage()"))

    _typed_storage = storage

    def _shown_as(self: Any, dtype: Any) -> Any:
        """The same bytes as elements of another dtype, cut off from the graph."""
        shown, array = self._cut("view"), self._in_memory("view(dtype)").view(dtype)
        if not array.flags.aligned:
            raise RuntimeError(
                f"view({array.dtype}): the elements of {name_of(self)} do not begin where "
                f"{array.dtype} may.\nFix: .clone() it first."
            )
        shown._set(array, None, 0)
        return shown

    def is_set_to(self, tensor: Any) -> bool:
        """Whether another tensor shows the same memory in the same shape."""
        same = self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape
        return same and self.stride() == tensor.stride() and self.numel() > 0

    def dim_order(self) -> tuple[int, ...]:
        """The dimensions, from the one with the largest stride to the one with the smallest."""
        return tuple(sorted(range(self.ndim), key=lambda i: -self.stride(i)))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in order; a format is a hint, and changes nothing."""
        row_major(self)
        return self._array.flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return is_floating(self.dtype)

    def is_signed(self) -> bool:
        """Whether the elements can be negative."""
        return is_floating(self.dtype) or self.dtype.kind in "ic"

    def is_inference(self) -> bool:
        """False: `inference_mode` is `no_grad`, and makes ordinary tensors."""
        return False

    is_sparse = is_quantized = is_meta = is_sparse_csr = is_nested = is_mkldnn = is_mps = False
    layout = "torch.strided"  # `gradwalk.strided`

    def to_dense(self) -> Self:
        """The tensor itself: it is dense."""
        return self

    def record_stream(self, stream: Any) -> None:
        """Nothing: JAX knows what uses the memory of a device."""

    @property
    def is_cpu(self) -> bool:
        """Whether its elements are in the memory of the CPU."""
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether its elements are on a GPU."""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The number of its device; −1 on the CPU."""
        return -1 if self.is_cpu else self.device.index or 0

    # -- tensors like this one ---------------------------------------------------------------------

    def new(self, *data: Any, size: Any = None, device: Any = None) -> Tensor:
        """The legacy form: `x.new(2, 3)` has that shape, `x.new([2, 3])` those elements."""
        if size is not None and not data:
            return self.new_zeros(size, device=device)
        if not data or are_sizes(data):
            return self.new_zeros(*data or (0,), device=device)
        if len(data) > 1:
            raise TypeError("new(...) takes sizes or one block of numbers, not several")
        return self.new_tensor(data[0], device=device)

    @makes_leaf
    def new_tensor(self, data: Any, **options: Unpack[LeafOptions]) -> Tensor:
        """The data, copied, in the dtype of this tensor.

        >>> import gradwalk as gw
        >>> gw.ones(1, dtype=gw.float64).new_tensor([1, 2])
        tensor([1., 2.], dtype=gradwalk.float64)
        """
        if hasattr(data, "_array"):
            data._leaves_as("new_tensor(...)")
            data = data._array
        array = np.array(data)
        return filled(
            lambda _, dtype: array.astype(dtype, copy=False), array.shape, **like(self, options)
        )

    @makes_leaf
    def new_zeros(self, *sizes: Any, size: Any = None, **options: Unpack[LeafOptions]) -> Tensor:
        """Zeros in the dtype of this tensor."""
        return filled(np.zeros, sizes_of(sizes, size), **like(self, options))

    new_empty = new_zeros  # as `empty`: so that nothing depends on chance

    @makes_leaf
    def new_empty_strided(self, size: Any, stride: Any, **options: Unpack[LeafOptions]) -> Tensor:
        """`empty_strided` in the dtype of this tensor."""
        chosen = like(self, options)
        return leaf(strided_zeros(size, stride, chosen["dtype"]), **chosen)

    @makes_leaf
    def new_ones(self, *sizes: Any, size: Any = None, **options: Unpack[LeafOptions]) -> Tensor:
        """Ones in the dtype of this tensor."""
        return filled(np.ones, sizes_of(sizes, size), **like(self, options))

    @makes_leaf
    def new_full(self, size: Any, fill_value: Any, **options: Unpack[LeafOptions]) -> Tensor:
        """One value in the dtype of this tensor."""
        fill = partial(np.full, fill_value=fill_value)
        return filled(fill, sizes_of((size,)), **like(self, options))
