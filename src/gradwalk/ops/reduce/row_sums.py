"""Sums along rows and columns of arrays, as products with ones where that is quicker.

NumPy adds up a short last axis, or many rows, several times slower than BLAS multiplies by ones.
Long rows stay with NumPy, whose pairwise sum loses fewer digits.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

Axes = tuple[int, ...]

_add: Any = np.add  # whose types tell calls apart by the value of `keepdims`
SHORT = 1024  # a row up to this long is summed by BLAS


@functools.lru_cache(maxsize=64)
def _ones(count: int, dtype: np.dtype[Any]) -> Any:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def total(x: Any, axis: Axes, keepdims: bool = False, dtype: Any = None) -> Any:
    """`np.sum`, whose way to the same call takes as long as the sum of a small array."""
    if x.__class__ is np.ndarray:
        return _add.reduce(x, axis, dtype, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=dtype)


def sum_last(x: Any) -> Any:
    """The sum over the last axis, which keeps length 1."""
    count = x.shape[-1]
    if 0 < count <= SHORT and x.dtype.char in "fd" and x.flags.c_contiguous:
        flat = x.reshape(-1, count) @ _ones(count, x.dtype)
        return flat.reshape(*x.shape[:-1], 1)
    return total(x, (-1,), True)


def sum_leading(x: Any, kept: int) -> Any:
    """The sum over all but the last `kept` axes."""
    lead = x.ndim - kept
    rest = x.shape[lead:]
    count, width = math.prod(x.shape[:lead]), math.prod(rest)
    # BLAS adds row by row, as NumPy does here, with the same precision.
    if count > 1 and width > 7 and x.dtype.char in "fd" and x.flags.c_contiguous:
        return (_ones(count, x.dtype) @ x.reshape(count, width)).reshape(rest)
    return total(x, tuple(range(lead)))


def sum_over(x: Any, axes: Axes) -> Any:
    """The sum over `axes`, which keep length 1."""
    kept = x.ndim - len(axes)
    if x.__class__ is not np.ndarray:  # while it is traced: no product with ones
        return np.sum(x, axis=axes, keepdims=True)
    if axes == (x.ndim - 1,):
        return sum_last(x)
    if axes == tuple(range(len(axes))) and kept:
        return sum_leading(x, kept).reshape(*(1,) * len(axes), *x.shape[len(axes) :])
    return total(x, axes, True)


def dot_over(x: Any, y: Any, axes: Axes) -> Any:
    """The sum of x × y over `axes`, which keep length 1."""
    if axes == (x.ndim - 1,) and x.__class__ is np.ndarray:
        return np.vecdot(x, y)[..., None]
    return sum_over(x * y, axes)
