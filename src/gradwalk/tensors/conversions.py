"""The methods that convert a tensor to a dtype or a buffer; their names are PyTorch's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gradwalk.ops.core.dtypes import dtype_named

# PyTorch's legacy names of types of tensors; on a GPU "torch.cuda.FloatTensor".
TYPE_NAMES = {
    "BFloat16Tensor": "bfloat16", "BoolTensor": "bool", "ByteTensor": "uint8",
    "CharTensor": "int8", "ComplexDoubleTensor": "complex128", "ComplexFloatTensor": "complex64",
    "DoubleTensor": "float64", "FloatTensor": "float32",
    "HalfTensor": "float16", "IntTensor": "int32", "LongTensor": "int64", "ShortTensor": "int16",
}  # fmt: skip


def are_sizes(data: tuple[Any, ...]) -> bool:
    """Whether a legacy constructor gets sizes, `Tensor(2, 3)`, and not elements."""
    return bool(data) and all(isinstance(n, (int, np.integer)) for n in data)


def _conversion(dtype: Any) -> Any:
    """The method that converts to a dtype."""
    convert: Any = lambda self: self.to(dtype)
    convert.__doc__ = f"As {getattr(dtype, '__name__', dtype)}."
    return convert


class Conversions:
    """`x.float()` and its relatives."""

    __slots__ = ()

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

    def __buffer__(self: Any, flags: Any) -> memoryview:
        """The memory itself: `memoryview(x)`, from Python 3.12 on."""
        return memoryview(self.numpy())
