"""Numbers that differ from given ones, and are as valid."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_mask(array: Any) -> bool:
    """Whether an array says which numbers count: booleans, one constant, infinite numbers."""
    if array.dtype.kind == "b" or not array.size:
        return True
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return True
    return bool((array == array.flat[0]).all())


def other_numbers(array: Any, part: Any, noise: np.random.Generator) -> Any:
    """Floats with noise of their own size; other integers of the array, which are valid as ids."""
    if array.dtype.kind == "b":
        return ~part
    if array.dtype.kind in "iu":
        known = np.unique(array)
        if len(known) == 1:
            return part - 1 if known[0] > 0 else part + 1
        steps = noise.integers(1, len(known), part.shape)
        return known[(np.searchsorted(known, part) + steps) % len(known)]
    finite = array[np.isfinite(array)]
    size = float(finite.std()) if finite.size else 0.0
    return part + (size or 1.0) * noise.standard_normal(part.shape).astype(array.dtype)
