"""Sums over the batch that threads share: a fixed number of partial sums, added up in order.

So results do not depend on the number of threads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Place

PARTS = 8
SMALL = 1 << 16  # numbers up to which a copy of the sums for every part costs little


def joined(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride of several dimensions gone through in order; None if there is none."""
    long = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in itertools.pairwise(long):
        if outer != n * inner:
            return None
    return long[-1][1] if long else 1


def weight_parts(call: Call, x: Place, y: Place) -> int:
    """Into how many parts the batch is cut for the gradient of a convolution's weight.

    A large weight is shared out itself; what the native kernel does not take has one part.
    """
    batch, *_ = x.shape
    suits = (
        x.dtype == y.dtype
        and x.dtype.name in ("float32", "float64")
        and 3 <= len(x.shape) <= 5
        and 0 not in (*x.shape, *y.shape)
        and all(p >= 0 for pair in call.attrs["padding"] for p in pair)
        and joined(y.shape[2:], y.strides[2:]) is not None
    )
    small = call.outputs[0].size <= SMALL
    return min(batch, PARTS) if suits and small else 1
