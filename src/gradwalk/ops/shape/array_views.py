"""Views of arrays. NumPy's functions spend more time on finding the method of a small array than
the method takes."""

from __future__ import annotations

from typing import Any

import numpy as np


def reshaped(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape) if x.__class__ is np.ndarray else np.reshape(x, shape)


def transposed(x: Any, *, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes) if x.__class__ is np.ndarray else np.transpose(x, axes)


def repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """`np.broadcast_to`, in a tenth of its time for small arrays of floats in row-major order."""
    if x.__class__ is not np.ndarray or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    steps = [0] * lead
    for n, step, wanted in zip(x.shape, x.strides, shape[max(lead, 0) :], strict=False):
        if n != wanted and n != 1:
            lead = -1
        steps.append(step if n == wanted else 0)
    if lead < 0 or min(shape, default=0) < 0:
        return np.broadcast_to(x, shape)  # which says what does not fit
    out = np.ndarray(shape, x.dtype, x, 0, steps)
    out.flags.writeable = False
    return out
