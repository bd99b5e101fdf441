"""Scans: running sums and extremes, out[i] = out[i − 1] and x[i] combined, along one axis.

Each element waits for the one before it, so lanes and threads lie along the other dimensions: a
thread takes blocks of neighbouring rows, one per lane, and goes through all of them at once, from
the first element to the last, as NumPy does.

Arrays of the block: out, x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type, lanes_for
from gradwalk.compiler.backends.llvm.kernels.loops import combine, identity
from gradwalk.compiler.plan.buffers import Slice


def scan_kernel(how: str, places: Sequence[Slice], axis: int, vector_bytes: int) -> Kernel:
    """The kernel of a scan; `how` is sum, amax or amin.

    Loops are over (others..., side, axis). Lanes lie along the side: a dimension along which memory
    is in order, or the last.
    """
    out, x = places
    others = [i for i, n in enumerate(out.shape) if i != axis and n != 1]
    in_order = [i for i in others if out.strides[i] == 1 and x.strides[i] in (0, 1)]
    side = (in_order or others)[-1:]
    order = [i for i in others if i not in side] + side

    def arranged(given: Sequence[int], missing: int) -> list[int]:
        return [*([given[i] for i in order] if side else [missing]), given[axis]]

    f = KernelBuilder(2)
    *sizes, count, length = f.runtimes(*arranged(out.shape, 1))
    # Strides 0 and 1 along the lanes are written into the text; the others are read.
    strides: list[list[I64]] = [
        [s if d == len(sizes) and s in (0, 1) else f.runtime(s) for d, s in enumerate(each)]
        for each in (arranged(out.strides, 0), arranged(x.strides, 0))
    ]
    lanes = lanes_for((out.dtype, x.dtype), vector_bytes) if side else 1
    kind = Type(out.dtype, lanes)
    blocks = [*sizes, f.set(f"sdiv i64 {f.add(count, lanes - 1)}, {lanes}")]
    with f.loop(*f.share(f.multiply_all(blocks))) as unit:
        *at, block = f.unravel(unit.index, blocks)
        first = f.multiply(block, lanes)
        mask = f.first_lanes(f.subtract(count, first), lanes) if lanes > 1 else None
        starts = [f.dot([*at, first], each) for each in strides]
        start = f.constant(kind, _start(how, kind.dtype))
        with f.loop(0, length, carried=[start]) as loop:
            to, source = (
                f.element(base, place.dtype, f.add(begin, f.multiply(loop.index, each[-1])))
                for base, place, begin, each in zip(f.bases, (out, x), starts, strides, strict=True)
            )
            value = f.load_along(source, strides[1][-2], Type(x.dtype, lanes), mask)
            total = combine(how, loop.carried[0], value.to(kind.dtype))
            f.store_along(total, to, strides[0][-2], mask)
            loop.carry(total)
    return f.kernel()


def _start(how: str, dtype: np.dtype[Any]) -> float:
    """A first total that changes nothing, not even the sign of a zero."""
    return -0.0 if how == "sum" and dtype.kind == "f" else identity(how, dtype)
