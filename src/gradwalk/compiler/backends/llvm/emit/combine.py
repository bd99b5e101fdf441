"""Reductions: what they start from, and how two parts become one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.vector_values import Value


def _lowest(dtype: np.dtype[Any]) -> float:
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min) if dtype.kind != "b" else 0


def _highest(dtype: np.dtype[Any]) -> float:
    return math.inf if dtype.kind == "f" else int(np.iinfo(dtype).max) if dtype.kind != "b" else 1


# What a reduction starts from. A sum starts from +0, as NumPy's does: of −0 alone it is 0.
_IDENTITY: dict[str, Callable[[np.dtype[Any]], float]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "amax": _lowest,
    "amin": _highest,
    "all": lambda dtype: True,
    "any": lambda dtype: False,
}


def combine(how: str, first: Value, second: Value) -> Value:
    """Two parts of a reduction as one; a NaN stays."""
    if how == "sum":
        return first + second
    if how == "prod":
        return first * second
    if how in ("all", "any"):
        return first & second if how == "all" else first | second
    if first.kind.is_float:
        return first.intrinsic("maximum" if how == "amax" else "minimum", second)
    return first.compare("gt" if how == "amax" else "lt", second).choose(first, second)


def identity(how: str, dtype: np.dtype[Any]) -> float:
    """What a reduction starts from, and what is in lanes beyond the end of a row."""
    return _IDENTITY[how](dtype)
