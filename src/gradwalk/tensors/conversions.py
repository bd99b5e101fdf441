"""The methods that convert a tensor to a dtype; their names are Python's and PyTorch's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np


def _conversion(dtype: Any) -> Any:
    """The method that converts to a dtype."""
    convert: Any = lambda self: self.to(dtype)
    convert.__doc__ = f"As {getattr(dtype, '__name__', dtype)}."
    return convert


class Conversions:
    """`x.float()` and its relatives."""

    __slots__ = ()

    float: ClassVar = _conversion(np.float32)
    double: ClassVar = _conversion(np.float64)
    half: ClassVar = _conversion(np.float16)
    bfloat16: ClassVar = _conversion("bfloat16")
    long: ClassVar = _conversion(np.int64)
    int: ClassVar = _conversion(np.int32)
    short: ClassVar = _conversion(np.int16)
    char: ClassVar = _conversion(np.int8)
    byte: ClassVar = _conversion(np.uint8)
    bool: ClassVar = _conversion(np.bool_)
