"""Lanes: what a batched array holds, the values of all samples side by side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.shape.reshaping import expand_op, reshape

Shape = tuple[int, ...]


class Lanes:
    """The values of all samples: `inner` has them along its first axis. If `batched` is false, all
    samples share the one value `inner`.

    `inner` is an array, or a Tensor where an outer transform follows it. `shape` is that of one
    sample.
    """

    __slots__ = ("batched", "dtype", "inner", "shape")

    def __init__(self, inner: Any, batched: bool) -> None:
        self.inner = inner
        self.batched = batched
        shape: Shape = inner.shape
        self.shape = shape[1:] if batched else shape
        self.dtype: np.dtype[Any] = inner.dtype

    @property
    def size(self) -> int:
        """The number of elements of one sample."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)


def aligned(operand: Any, rank: int) -> Any:
    """An operand for a rule that broadcasts: a batched one has `rank` axes after the first, and
    the others broadcast against those as they are."""
    if operand.__class__ is not Lanes:
        return operand
    missing = rank - operand.ndim
    if not operand.batched or missing <= 0:
        return operand.inner
    size = operand.inner.shape[0]
    return reshape(operand.inner, shape=(size, *(1,) * missing, *operand.shape))


def spread(operand: Lanes, size: int, rank: int | None = None) -> Any:
    """An operand with the samples along its first axis, repeated if they share one value; without
    a copy. With `rank`, that many axes follow."""
    rank = operand.ndim if rank is None else rank
    ones = (1,) * (rank - operand.ndim)
    if operand.batched:
        return aligned(operand, rank)
    lifted = reshape(operand.inner, shape=(1, *ones, *operand.shape))
    return expand_op(lifted, shape=(size, *ones, *operand.shape))
