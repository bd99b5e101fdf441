"""Reductions: what they start from, and how two parts become one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.vector import Vector


def combine(how: str, first: Vector, second: Vector) -> Vector:
    """Two parts of a reduction as one; a NaN stays."""
    match how:
        case "sum":
            return first + second
        case "prod":
            return first * second
        case "all":
            return first & second
        case "any":
            return first | second
    if first.type.is_float:
        return first.intrinsic("maximum" if how == "amax" else "minimum", second)
    return first.compare("gt" if how == "amax" else "lt", second).choose(first, second)


def identity(how: str, dtype: np.dtype[Any]) -> float:
    """What a reduction starts from, and what is in lanes beyond the end of a row."""
    if how in ("amax", "amin"):
        if dtype.kind == "f":
            return -math.inf if how == "amax" else math.inf
        if dtype.kind == "b":
            return how == "amin"
        limits = np.iinfo(dtype)
        return int(limits.min if how == "amax" else limits.max)
    # A sum starts from +0, as NumPy's does: of −0 alone it is 0.
    return {"sum": 0, "prod": 1, "all": True, "any": False}[how]
