"""Scans: running sums and extremes, out[i] = out[i − 1] and x[i] combined, along one axis.

Each element waits for the one before it, so lanes and threads lie along the other dimensions: a
thread takes blocks of neighbouring rows, one per lane, and goes through all of them at once, from
the first element to the last, as NumPy does.

Arrays of the block: out, x.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    element_pointer,
    first_lanes,
    lanes_for,
    load_along,
    store_along,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.plan.buffers import Place

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """Loops over (others..., side, axis): lanes lie along the side."""

    how: str  # sum, amax or amin
    dtypes: tuple[np.dtype[Any], np.dtype[Any]]  # of out and x
    lengths: tuple[int, ...]
    strides: tuple[Strides, Strides]


def scan_of(how: str, out: Place, x: Place, axis: int) -> Scan:
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
    f = KernelWriter(2)
    *others, side, length = [f.runtime(n) for n in scan.lengths]
    strides = [
        [_stride(f, s, along_lanes=d == len(others)) for d, s in enumerate(each)]
        for each in scan.strides
    ]
    lanes = 1 if scan.lengths[-2] == 1 else lanes_for(scan.dtypes, vector_bytes)
    blocks = f.set(f"sdiv i64 {f.add(side, str(lanes - 1))}, {lanes}")
    first, end = f.share(functools.reduce(f.multiply, [*others, blocks]))
    with f.loop(first, end) as unit:
        row = f.set(f"udiv i64 {unit.index}, {blocks}")
        start = f.multiply(f.set(f"urem i64 {unit.index}, {blocks}"), str(lanes))
        at = [start]
        for size in reversed(others):
            at.insert(0, f.set(f"urem i64 {row}, {size}"))
            row = f.set(f"udiv i64 {row}, {size}")
        mask = first_lanes(f, f.set(f"sub i64 {side}, {start}"), lanes) if lanes > 1 else None
        starts = [f.add(*(f.multiply(i, s) for i, s in zip(at, each))) for each in strides]
        kind = Kind(scan.dtypes[0], lanes)
        nothing = kind.constant(_start(scan.how, kind.dtype))
        with f.loop("0", length, carried=[(kind.text, nothing)]) as loop:
            places = [
                element_pointer(f, base, dtype, f.add(begin, f.multiply(loop.index, each[-1])))
                for base, dtype, begin, each in zip(f.bases, scan.dtypes, starts, strides)
            ]
            value = load_along(f, places[1], strides[1][-2], Kind(scan.dtypes[1], lanes), mask)
            total = Value(f, kind, loop.carried[0])
            total = combine(scan.how, total, value.to(kind.dtype))
            store_along(f, total, places[0], strides[0][-2], mask)
            loop.carry(total.text)
    return f.kernel()


def _start(how: str, dtype: np.dtype[Any]) -> float:
    """What changes nothing, not even the sign of a zero."""
    return -0.0 if how == "sum" and dtype.kind == "f" else identity(how, dtype)


def _stride(f: KernelWriter, stride: int, *, along_lanes: bool) -> str:
    """Strides as text: along the lanes 0 and 1 are written in; the others are read."""
    return str(stride) if along_lanes and stride in (0, 1) else f.runtime(stride)
