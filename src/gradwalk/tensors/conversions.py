"""The methods that convert a tensor: to a dtype, a device, a buffer; their names are PyTorch's."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradwalk.ops.core.dtypes import category, dtype_named, get_default_dtype, is_complex_dtype
from gradwalk.ops.shape.reshaping import cast
from gradwalk.tensors.devices import read_to
from gradwalk.tensors.moving import move
from gradwalk.tensors.size import Size

if TYPE_CHECKING:
    from gradwalk.tensors.tensor import Tensor

# PyTorch's legacy names of types of tensors; on a GPU "torch.cuda.FloatTensor".
TYPE_NAMES = {
    "BFloat16Tensor": "bfloat16", "BoolTensor": "bool", "ByteTensor": "uint8",
    "CharTensor": "int8", "ComplexDoubleTensor": "complex128", "ComplexFloatTensor": "complex64",
    "DoubleTensor": "float64", "FloatTensor": "float32",
    "HalfTensor": "float16", "IntTensor": "int32", "LongTensor": "int64", "ShortTensor": "int16",
}  # fmt: skip


def are_sizes(data: tuple[Any, ...]) -> bool:
    """Whether a legacy constructor gets sizes, `Tensor(2, 3)` or a `Size`, and not elements."""
    if len(data) == 1 and isinstance(data[0], Size):
        return True
    return bool(data) and all(isinstance(n, (int, np.integer)) for n in data)


def _conversion(dtype: Any) -> Any:
    """The method that converts to a dtype."""
    convert: Any = lambda self, memory_format=None: self.to(dtype)  # a hint
    convert.__doc__ = f"As {getattr(dtype, '__name__', dtype)}."
    return convert


class Conversions:
    """`x.to(...)`, `x.float()` and their relatives."""

    __slots__ = ()

    def to(self: Any, *args: Any, **keywords: Any) -> Tensor:
        """Another dtype or device: `to(dtype)`, `to("cuda")`, `to("cuda", dtype)`, `to(tensor)`.

        Itself if nothing changes; with `copy`, always a copy. Gradients flow back to where this is.
        """
        wanted, where, copy = read_to(args, keywords)
        moved = self if where is None else move(self, where)
        if wanted is None or wanted == self.dtype:
            return moved.clone() if copy and moved is self else moved
        category(wanted)
        if is_complex_dtype(self.dtype) and wanted.kind not in "cb":
            warnings.warn("a complex tensor loses its imaginary part here", stacklevel=2)
            moved = moved.real
        return cast(moved, dtype=wanted)

    def type_as(self: Any, other: Any) -> Tensor:
        """This in the dtype of `other`, on its device."""
        return self.to(other)

    def cpu(self: Any) -> Tensor:
        """On the CPU; itself if it is there."""
        return self.to("cpu")

    def cuda(self: Any, device: Any = None) -> Tensor:
        """On a GPU; itself if it is there."""
        return self.to("cuda" if device is None else device)

    def view_as(self: Any, other: Any) -> Tensor:
        """`view` with the shape of another tensor."""
        return self.view(*other.shape)

    def type(self: Any, dtype: Any = None, non_blocking: Any = False) -> Any:
        """Another dtype, also by its legacy name; without one, the name of this tensor's type.

        >>> import gradwalk as gw
        >>> gw.ones(2).type(gw.LongTensor).type()
        'torch.LongTensor'
        """
        if dtype is None:
            names = {dtype: name for name, dtype in TYPE_NAMES.items()}
            place = "torch" if self.is_cpu else f"torch.{self.device.type}"
            return f"{place}.{names[self.dtype.name]}"
        if isinstance(dtype, type) and hasattr(dtype, "_array"):
            dtype = get_default_dtype()  # `Tensor`, as a type of numbers
        wanted = getattr(dtype, "type_name", dtype)
        if not isinstance(wanted, str):
            return self.to(dtype)
        place, _, name = wanted.rpartition(".")
        if name not in TYPE_NAMES:
            return self.to(wanted)
        where = place.rpartition(".")[2].replace("torch", "cpu")
        return self.to(where, dtype_named(TYPE_NAMES[name]))

    float: ClassVar = _conversion(np.float32)
    double: ClassVar = _conversion(np.float64)
    half: ClassVar = _conversion(np.float16)
    bfloat16: ClassVar = _conversion("bfloat16")
    cfloat: ClassVar = _conversion(np.complex64)
    cdouble: ClassVar = _conversion(np.complex128)
    long: ClassVar = _conversion(np.int64)
    int: ClassVar = _conversion(np.int32)
    short: ClassVar = _conversion(np.int16)
    char: ClassVar = _conversion(np.int8)
    byte: ClassVar = _conversion(np.uint8)
    bool: ClassVar = _conversion(np.bool_)

    def __dlpack__(self: Any, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self: Any) -> Any:
        return self._array.__dlpack_device__()

    def __buffer__(self: Any, flags: Any) -> memoryview:
        """The memory itself: `memoryview(x)`, from Python 3.12 on."""
        return memoryview(self.numpy())
