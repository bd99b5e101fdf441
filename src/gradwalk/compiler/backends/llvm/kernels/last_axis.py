"""Picks along the last dimension: gather_last, by an array of indices, and its transpose.

Threads share the lead, that is all other dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import one_stride
from gradwalk.compiler.plan.buffers import Slice


class _PickBuilder(KernelBuilder):
    """A kernel of picks being written: `count` indices for each row of `length` numbers."""

    def __init__(self, rows: Slice, indices: Slice) -> None:
        super().__init__(3)
        if rows.dtype.name not in ("float32", "float64") or indices.dtype != np.int64:
            raise NoKernel(f"picking {rows.dtype} by {indices.dtype}")
        if rows.shape[:-1] != indices.shape[:-1]:
            raise NoKernel("not one row for each row of indices")
        self.lead = math.prod(rows.shape[:-1])
        self.count, self.length = self.runtimes(indices.shape[-1], rows.shape[-1])

    @contextmanager
    def rows(self, *places: Slice) -> Iterator[list[str]]:
        """All rows: where each of these arrays has its row."""
        if any(p.strides[-1] != 1 and p.shape[-1] > 1 for p in places):
            raise NoKernel("rows that are not contiguous")
        strides = [self.runtime(one_stride(p.shape[:-1], p.strides[:-1])) for p in places]
        with self.loop(*self.share(self.runtime(self.lead))) as row:
            yield [
                self.element(base, place.dtype, self.multiply(row.index, stride))
                for base, place, stride in zip(self.bases, places, strides, strict=True)
            ]


def gather_last_kernel(places: Sequence[Slice], vector_bytes: int) -> Kernel:
    """Arrays: the picked numbers, the rows, the indices (int64)."""
    _, rows, indices = places
    f = _PickBuilder(rows, indices)
    dtype, lanes = rows.dtype, vector_bytes // 8
    each_row = f.rows(*places)
    with each_row as (out, row, row_indices), f.loop(0, f.count, lanes) as column:
        mask = f.first_lanes(f.subtract(f.count, column.index), lanes)
        place = f.element(row_indices, INT64.dtype, column.index)
        index = f.load(place, Type(INT64.dtype, lanes), mask)
        index = f.checked_index(index, f.length, mask)
        numbers = f.gather(row, index, Type(dtype, lanes), mask)
        f.store(numbers, f.element(out, dtype, column.index), mask)
    return f.kernel()


def scatter_last_kernel(places: Sequence[Slice], apart: bool, vector_bytes: int) -> Kernel:
    """Arrays: the rows, which are cleared, the numbers to be added to them, the indices (int64);
    `apart`: no place of a row is met twice."""
    rows, _, indices = places
    f = _PickBuilder(rows, indices)
    dtype = rows.dtype
    several = vector_bytes // 8  # indices that are checked together
    size = f.runtime(rows.shape[-1] * dtype.itemsize)
    full = f.set(f"and i64 {f.count}, {-several}")
    with f.rows(*places) as (row, numbers, row_indices):
        f.clear(row, size)
        for start, stop, lanes in ((0, full, several), (full, f.count, 1)):
            with f.loop(start, stop, lanes) as column:
                place = f.element(row_indices, INT64.dtype, column.index)
                index = f.checked_index(f.load(place, Type(INT64.dtype, lanes)), f.length)
                place = f.element(numbers, dtype, column.index)
                values = f.load(place, Type(dtype, lanes))
                for lane in range(lanes):
                    value = values.lane(lane)
                    place = f.element(row, dtype, index.lane(lane).text)
                    f.store(value if apart else f.load(place, value.type) + value, place)
    return f.kernel()
