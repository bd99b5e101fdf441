"""Scans: running sums and extremes, out[i] = out[i − 1] and x[i] combined, along one axis.

Each element waits for the one before it, so lanes and threads lie along the other dimensions: a
thread takes blocks of neighbouring rows, one per lane, and goes through all of them at once, from
the first element to the last, as NumPy does.

Arrays of the block: out, x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, pairs, renamed
from gradwalk.compiler.backends.llvm.emit.vector_builder import lanes_for
from gradwalk.compiler.plan.buffers import Slice

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """Loops over (others..., side, axis): lanes lie along the side."""

    how: str  # sum, amax or amin
    dtypes: tuple[np.dtype[Any], np.dtype[Any]]  # of out and x
    lengths: tuple[int, ...]
    strides: tuple[Strides, Strides]


def scan_of(how: str, out: Slice, x: Slice, axis: int) -> Scan:
    """The loops of a scan; the side is a dimension along which memory is in order, or the last."""
    others = [i for i, n in enumerate(out.shape) if i != axis and n != 1]
    in_order = [i for i in others if out.strides[i] == 1 and x.strides[i] in (0, 1)]
    side = (in_order or others)[-1:]
    order = [i for i in others if i not in side] + side

    def arranged(given: Sequence[int], missing: int) -> Strides:
        kept = [given[i] for i in order] if side else [missing]
        return (*kept, given[axis])

    strides = (arranged(out.strides, 0), arranged(x.strides, 0))
    return Scan(how, (out.dtype, x.dtype), arranged(out.shape, 1), strides)


def scan_kernel(scan: Scan, vector_bytes: int) -> Kernel:
    """The kernel of a scan."""
    f = KernelBuilder(2)
    *others, side, length = [f.runtime(n) for n in scan.lengths]
    # Strides 0 and 1 along the lanes are written into the text; the others are read.
    strides: list[list[I64]] = [
        [s if d == len(others) and s in (0, 1) else f.runtime(s) for d, s in enumerate(each)]
        for each in scan.strides
    ]
    lanes = 1 if scan.lengths[-2] == 1 else lanes_for(scan.dtypes, vector_bytes)
    blocks = f.set(f"sdiv i64 {f.add(side, lanes - 1)}, {lanes}")
    sizes = [*others, blocks]
    with f.loop(*f.share(f.multiply_all(sizes))) as unit:
        *at, block = f.unravel(unit.index, sizes)
        first = f.multiply(block, lanes)
        mask = f.first_lanes(f.subtract(side, first), lanes) if lanes > 1 else None
        starts = [f.dot([*at, first], each) for each in strides]
        kind = Type(scan.dtypes[0], lanes)
        start = Vector(f, kind, kind.constant(_start(scan.how, kind.dtype)))
        with f.loop(0, length, carried=pairs([start])) as loop:
            out, x = (
                f.element(base, dtype, f.add(begin, f.multiply(loop.index, each[-1])))
                for base, dtype, begin, each in zip(
                    f.bases, scan.dtypes, starts, strides, strict=True
                )
            )
            value = f.load_along(x, strides[1][-2], Type(scan.dtypes[1], lanes), mask)
            (total,) = renamed([start], loop.carried)
            total = combine(scan.how, total, value.to(kind.dtype))
            f.store_along(total, out, strides[0][-2], mask)
            loop.carry(total.text)
    return f.kernel()


def _start(how: str, dtype: np.dtype[Any]) -> float:
    """A first total that changes nothing, not even the sign of a zero."""
    return -0.0 if how == "sum" and dtype.kind == "f" else identity(how, dtype)
