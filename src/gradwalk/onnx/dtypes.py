"""ONNX's numbers for dtypes, and ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bfloat16

_DTYPES: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
_OTHERS = {
    8: "string", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
    19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
    24: "float8e8m0",
}  # fmt: skip
_CODES = {name: code for code, name in _DTYPES.items()}


def dtype_of(code: int, what: str) -> np.dtype[Any]:
    """The dtype of ONNX's number; `what` has it, for the error."""
    name = _DTYPES.get(int(code))
    if name is None:
        raise TypeError(
            f"{what} is of type {_OTHERS.get(int(code), f'number {code}')}, which gradwalk has "
            "not: its tensors hold floats, integers and booleans of 8 bits and more"
        )
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def code_of(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a dtype."""
    return _CODES[dtype.name]
