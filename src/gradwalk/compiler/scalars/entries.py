"""The entries of a tape: the offsets of numbers in the arena, and the kernels that compute them.

Offsets count numbers from the beginning of the arena. Every offset is written once per replay, so
all rows that need the same numbers side by side share what was collected for one.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.kernels import scalar_tape
from gradwalk.compiler.scalars.flat_graph import Offsets
from gradwalk.compiler.scalars.kernels import Kernels

PLUS_ZERO, MINUS_ZERO = 0, -(2**63)  # as bits; −0 + x is x, also if x is −0


class Entries:
    """Entries in the order in which they run. Begins with the constants, then `begin`."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.lanes = kernels.lanes
        self.block = scalar_tape.BLOCK * self.lanes
        self.calls: Counter[str] = Counter()
        self.entries: list[int] = []
        self.size = 0  # of the arena so far
        self._first_numbers: list[float] = []  # the constants, with which the arena begins
        self._constants: dict[bytes, int] = {}
        self._collected: dict[bytes, int] = {}
        self._calls_at: list[tuple[int, str]] = []  # positions of the kernels' addresses
        self.zeros = self._constant_row(0.0)
        self.ones = self._constant_row(1.0)

    def _constant_row(self, number: float) -> int:
        first = self.constant(number)
        self._first_numbers += [number] * (self.block - 1)
        return first

    def constant(self, number: float) -> int:
        """The offset of a fixed number; new ones only before `begin`."""
        bits = struct.pack("d", number)
        offset = self._constants.get(bits)
        if offset is None:
            offset = self._constants[bits] = len(self._first_numbers)
            self._first_numbers.append(number)
        return offset

    def begin(self) -> None:
        """End the constants."""
        self.size = len(self._first_numbers)

    def room(self, count: int) -> int:
        """Space for a row: whole, aligned vectors; for a single number just that."""
        if count == 1:
            self.size += 1
            return self.size - 1
        first = -(-self.size // self.lanes) * self.lanes
        self.size = first + -(-count // self.lanes) * self.lanes
        return first

    def arena(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Memory for a replay, with the constants in it. Vectors may be read past its last row."""
        whole = np.zeros(self.size + self.block + self.lanes)
        skipped = -whole.ctypes.data // 8 % self.lanes  # rows begin where vectors do
        arena = whole[skipped:]
        arena[: len(self._first_numbers)] = self._first_numbers
        return arena

    def finished(self, addresses: dict[str, int]) -> Offsets:
        """The entries with the addresses of their kernels, and the end."""
        entries = np.array([*self.entries, 0], np.int64)
        for position, kernel in self._calls_at:
            entries[position] = addresses[kernel]
        return entries

    # -- calls of kernels --------------------------------------------------------------------------

    def call(self, kernel: str, *arguments: int) -> None:
        """Add one entry."""
        self.calls[kernel] += 1
        self._calls_at.append((len(self.entries), kernel))
        self.entries += (0, 2 + len(arguments), *arguments)

    def collect(self, offsets: Offsets) -> Offsets:
        """Copy the numbers at these offsets, (rows, lanes), to rows; return where they begin."""
        keys = [row.tobytes() for row in offsets]
        new: dict[bytes, int] = {}
        for number, key in enumerate(keys):
            if key not in self._collected:
                new.setdefault(key, number)
        if new:
            count = offsets.shape[1]
            length = -(-count // self.lanes) * self.lanes
            full = np.full((len(new), length), self.zeros)
            full[:, :count] = offsets[list(new.values())]
            first = self.room(full.size)
            self.collect_to(first, full.ravel())
            self._collected.update(zip(new, range(first, first + full.size, length), strict=True))
        return np.array([self._collected[key] for key in keys], np.int64)

    def collect_to(self, row: int, offsets: Offsets) -> None:
        """Copy the numbers at these offsets side by side, from `row` on."""
        self.call(self.kernels.collect(), 8 * row, len(offsets), *(8 * offsets).tolist())

    def map(self, kernel: str, operands: list[Offsets]) -> Offsets:
        """Call a kernel on rows, collected where needed; return the offsets of its results."""
        count = len(operands[0])
        rows = [int(offsets[0]) for offsets in operands]
        apart = [k for k, offsets in enumerate(operands) if not (np.diff(offsets) == 1).all()]
        if apart:
            collected = self.collect(np.array([operands[k] for k in apart]))
            for k, row in zip(apart, collected.tolist(), strict=True):
                rows[k] = row
        row = self.room(count)
        self.call(kernel, 8 * row, -(-count // self.lanes), count, *(8 * r for r in rows))
        return row + np.arange(count)

    def map_one(self, kernel: str, operands: list[int]) -> int:
        """Call a kernel on single numbers; return the offset of its result."""
        row = self.room(1)
        self.call(kernel, 8 * row, 1, 1, *[8 * offset for offset in operands])
        return row

    def fold_one(self, pairs: Sequence[int], start: int) -> int:
        """The sum of products a₀·b₀ + ... of the numbers at a₀, b₀, a₁, b₁, ..."""
        row = self.room(1)
        kernel = self.kernels.fold(0)
        self.call(kernel, 8 * row, start, len(pairs) // 2, *[8 * offset for offset in pairs])
        return row

    def fold(self, a: Offsets, b: Offsets, start: int) -> Offsets:
        """Sums of products of the numbers at a and b, (lanes, terms) both; return their offsets."""
        count = len(a)
        if count == 1:
            return np.array([self.fold_one(np.stack((a[0], b[0]), 1).ravel().tolist(), start)])
        row = self.room(count)
        for first in range(0, count, self.block):
            last = first + self.block
            self._fold_block(row + first, a[first:last], b[first:last], start)
        return row + np.arange(count)

    def _fold_block(self, row: int, a: Offsets, b: Offsets, start: int) -> None:
        steps_a, steps_b = np.diff(a, axis=0), np.diff(b, axis=0)
        same_a, same_b = ~steps_a.any(0), ~steps_b.any(0)  # one number for all lanes
        row_a, row_b = (steps_a == 1).all(0), (steps_b == 1).all(0)
        # One number times one number: as ones times a number, if one of them is 1.
        ones_a, ones_b = a[0] == self.ones, b[0] == self.ones
        by_one = same_a & same_b & (ones_a | ones_b)
        # The factor that is one number for all lanes goes second.
        swap = (same_a & ~same_b) | (by_one & ones_b & ~ones_a)
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        row_a, row_b = np.where(swap, row_b, row_a), np.where(swap, row_a, row_b)
        same_b = np.where(swap, same_a, same_b)
        first_a, first_b = a[0].copy(), b[0].copy()
        for first, factors, apart in (
            (first_a, a, ~(row_a | by_one)),
            (first_b, b, ~(row_b | same_b)),
        ):
            if apart.any():
                first[apart] = self.collect(factors[:, apart].T.copy())
        marks = np.where(same_b, 0, scalar_tape.ROW_MARK)
        pairs = np.stack((8 * first_a, 8 * first_b + marks), 1).ravel().tolist()
        vectors = -(-len(a) // self.lanes)
        self.call(self.kernels.fold(vectors), 8 * row, start, a.shape[1], *pairs)
