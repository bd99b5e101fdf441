"""Picks along the last dimension: gather_last, by an array of indices, and its transpose.

Threads share the lead, that is all other dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type


@dataclass(frozen=True)
class Picks:
    """`count` indices for each of `lead` rows of `length` numbers; strides of the lead."""

    dtype: np.dtype[Any]
    lead: int
    count: int
    length: int
    rows: int  # stride of the rows of `length`
    picked: int  # of the rows of `count`
    indices: int


class _PickBuilder(KernelBuilder):
    """A kernel of picks being written."""

    def __init__(self, picks: Picks) -> None:
        super().__init__(3)
        self.picks = picks
        self.count, self.length = self.runtime(picks.count), self.runtime(picks.length)

    @contextmanager
    def rows(self, *strides: int) -> Iterator[list[str]]:
        """All rows: where each of the arrays has its row, with these strides of the lead."""
        dtypes = (self.picks.dtype, self.picks.dtype, INT64.dtype)
        numbers = [self.runtime(s) for s in strides]
        with self.loop(*self.share(self.runtime(self.picks.lead))) as row:
            yield [
                self.element(base, dtype, self.multiply(row.index, stride))
                for base, dtype, stride in zip(self.bases, dtypes, numbers, strict=True)
            ]


def gather_last_kernel(picks: Picks, vector_bytes: int) -> Kernel:
    """Arrays: the picked numbers, the rows, the indices (int64)."""
    f = _PickBuilder(picks)
    lanes = vector_bytes // 8
    each_row = f.rows(picks.picked, picks.rows, picks.indices)
    with each_row as (out, rows, indices), f.loop(0, f.count, lanes) as column:
        mask = f.first_lanes(f.subtract(f.count, column.index), lanes)
        place = f.element(indices, INT64.dtype, column.index)
        index = f.load(place, Type(INT64.dtype, lanes), mask)
        index = f.checked_index(index, f.length, mask)
        picked = f.gather(rows, index, Type(picks.dtype, lanes), mask)
        f.store(picked, f.element(out, picks.dtype, column.index), mask)
    return f.kernel()


def scatter_last_kernel(picks: Picks, apart: bool, vector_bytes: int) -> Kernel:
    """Arrays: the rows, which are cleared, the numbers to be added to them, the indices (int64);
    `apart`: no place of a row is met twice."""
    f = _PickBuilder(picks)
    several = vector_bytes // 8  # indices that are checked together
    size = f.runtime(picks.length * picks.dtype.itemsize)
    full = f.set(f"and i64 {f.count}, {-several}")
    with f.rows(picks.rows, picks.picked, picks.indices) as (rows, given, indices):
        f.clear(rows, size)
        for start, stop, lanes in ((0, full, several), (full, f.count, 1)):
            with f.loop(start, stop, lanes) as column:
                place = f.element(indices, INT64.dtype, column.index)
                index = f.checked_index(f.load(place, Type(INT64.dtype, lanes)), f.length)
                place = f.element(given, picks.dtype, column.index)
                values = f.load(place, Type(picks.dtype, lanes))
                for lane in range(lanes):
                    value = values.lane(lane)
                    place = f.element(rows, picks.dtype, index.lane(lane).text)
                    f.store(value if apart else f.load(place, value.type) + value, place)
    return f.kernel()
