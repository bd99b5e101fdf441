"""Sums over the batch that threads share: a fixed number of partial sums, added up in order, so
that results do not depend on the number of threads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.compiler.plan.loop_kinds import is_native_convolution

PARTS = 8
SMALL = 1 << 16  # numbers up to which a copy of the sums for every part costs little


def joined(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of several dimensions merged into one; None if they cannot be merged."""
    long = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in itertools.pairwise(long):
        if outer != n * inner:
            return None
    return long[-1][1] if long else 1


def weight_parts(call: Call, x: Slice, y: Slice) -> int:
    """Into how many parts to cut the batch for the gradient of a convolution's weight: one if
    threads share the weight, because it is large, or if NumPy computes it."""
    native = is_native_convolution(call) and joined(y.shape[2:], y.strides[2:]) is not None
    small = call.outputs[0].size <= SMALL
    return min(x.shape[0], PARTS) if native and small else 1
