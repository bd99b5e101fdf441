"""Draws that are like a tensor: PyTorch's stream draws in the order of the tensor's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.random.mersenne import MersenneStream
from gradwalk.tensors.apply import row_major


def drawn_like(x: Any, stream: Any, draw: Callable[[tuple[int, ...]], Any]) -> Any:
    """`draw(shape of x)`, with PyTorch's stream in the order in which x lies in memory."""
    axes = memory_order(x, stream)
    if axes is None:
        return draw(tuple(x.shape))
    return draw(tuple(x.shape[axis] for axis in axes)).transpose(np.argsort(axes))


def memory_order(x: Any, stream: Any) -> list[int] | None:
    """The dimensions of a tensor from the slowest to the fastest; None if that is their order, or
    if another stream draws."""
    if not isinstance(stream, MersenneStream):
        return None
    if not isinstance(x._array, np.ndarray) or x._array.flags.c_contiguous:
        return None
    row_major(x)
    strides = x._array.strides
    if any(stride <= 0 for stride in strides):
        return None
    alone = [i for i, n in enumerate(x.shape) if n == 1]  # their strides mean nothing
    axes = sorted((i for i in range(x.ndim) if i not in alone), key=lambda i: -strides[i])
    return None if axes == sorted(axes) else alone + axes
