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
from gradwalk.compiler.scalars.kernels import Kernels

PLUS_ZERO, MINUS_ZERO = 0, -(2**63)  # as bits; −0 + x is x, also if x is −0
Offsets = Sequence[int]


class Entries:
    """Entries in the order in which they run. Begins with the constants, then `begin`."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.lanes = kernels.lanes
        self.block = scalar_tape.BLOCK * self.lanes
        self.entries: list[int] = []
        self.size = 0  # of the arena so far
        self._first_numbers: list[float] = []  # the constants, with which the arena begins
        self._constants: dict[bytes, int] = {}
        self._collected: dict[tuple[int, ...], int] = {}
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
        first = self._whole_vectors(self.size)
        self.size = first + self._whole_vectors(count)
        return first

    def _whole_vectors(self, count: int) -> int:
        return -(-count // self.lanes) * self.lanes

    def arena(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Memory for a replay, with the constants in it. Vectors may be read past its last row."""
        whole = np.zeros(self.size + self.block + self.lanes)
        skipped = -whole.ctypes.data // 8 % self.lanes  # rows begin where vectors do
        arena = whole[skipped:]
        arena[: len(self._first_numbers)] = self._first_numbers
        return arena

    def finished(self, addresses: dict[str, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The entries with the addresses of their kernels, and the end."""
        entries = np.array([*self.entries, 0], np.int64)
        entries[[position for position, _ in self._calls_at]] = [
            addresses[name] for _, name in self._calls_at
        ]
        return entries

    def calls(self) -> Counter[str]:
        """How often each kernel is called."""
        return Counter(kernel for _, kernel in self._calls_at)

    # -- calls of kernels --------------------------------------------------------------------------

    def call(self, kernel: str, *arguments: int) -> None:
        """Add one entry."""
        self._calls_at.append((len(self.entries), kernel))
        self.entries += (0, 2 + len(arguments), *arguments)

    def collect(self, rows: list[tuple[int, ...]]) -> list[int]:
        """Copy the numbers at these offsets, of as many lanes each, to rows; return where they
        begin."""
        new = dict.fromkeys(row for row in rows if row not in self._collected)
        if new:
            count = len(rows[0])
            length = self._whole_vectors(count)
            padding = (self.zeros,) * (length - count)
            first = self.room(len(new) * length)
            self.collect_to(first, [offset for row in new for offset in (*row, *padding)])
            self._collected |= {row: first + k * length for k, row in enumerate(new)}
        return [self._collected[row] for row in rows]

    def collect_to(self, row: int, offsets: Offsets) -> None:
        """Copy the numbers at these offsets side by side, from `row` on."""
        self.call(self.kernels.collect(), 8 * row, len(offsets), *[8 * o for o in offsets])

    def map_one(self, kernel: str, operands: list[int]) -> int:
        """Call a kernel on single numbers; return the offset of its result."""
        row = self.room(1)
        self.call(kernel, 8 * row, 1, 1, *[8 * offset for offset in operands])
        return row

    def fold_one(self, pairs: list[int], start: int) -> int:
        """A single sum of products a₀·b₀ + ... of the numbers at a₀, b₀, ...; return its offset."""
        row = self.room(1)
        self.call(self.kernels.fold(0), 8 * row, start, len(pairs) // 2, *[8 * o for o in pairs])
        return row

    def map(self, kernel: str, operands: list[tuple[int, ...]]) -> Offsets:
        """Call a kernel on rows, collected where needed; return the offsets of its results."""
        count = len(operands[0])
        if count == 1:
            return (self.map_one(kernel, [offset for (offset,) in operands]),)
        rows = self._rows(operands, list(map(_side_by_side, operands)))
        row = self.room(count)
        vectors = -(-count // self.lanes)
        self.call(kernel, 8 * row, vectors, count, *[8 * r for r in rows])
        return range(row, row + count)

    def fold(self, a: list[tuple[int, ...]], b: list[tuple[int, ...]], start: int) -> Offsets:
        """Sums of products: a and b have the offsets of the factors of each term, of all lanes.
        Return the offsets of the sums."""
        count = len(a[0])
        row = self.room(count)
        for first in range(0, count, self.block):
            lanes = slice(first, first + self.block)
            self._fold_block(row + first, [t[lanes] for t in a], [t[lanes] for t in b], start)
        return range(row, row + count)

    def _fold_block(
        self, row: int, a: list[tuple[int, ...]], b: list[tuple[int, ...]], start: int
    ) -> None:
        """A fold of at most a block of lanes. The first factors of a term are a row; the second are
        a row, or one number for all lanes."""
        firsts, seconds, ones, single = [], [], [], []
        for first, second in zip(a, b, strict=True):
            same_a, same_b = _are_one(first), _are_one(second)
            if same_a and (not same_b or (second[0] == self.ones != first[0])):
                first, second, same_a, same_b = second, first, same_b, same_a
            firsts.append(first)
            seconds.append(second)
            ones.append(same_a and first[0] == self.ones)  # there is a row of these
            single.append(same_b)
        a_at = self._rows(firsts, [one or _side_by_side(t) for t, one in zip(firsts, ones)])
        b_at = self._rows(seconds, [one or _side_by_side(t) for t, one in zip(seconds, single)])
        pairs: list[int] = []
        for a_row, b_row, one in zip(a_at, b_at, single, strict=True):
            pairs += (8 * a_row, 8 * b_row + (0 if one else scalar_tape.ROW_MARK))
        vectors = -(-len(a[0]) // self.lanes)
        self.call(self.kernels.fold(vectors), 8 * row, start, len(single), *pairs)

    def _rows(self, operands: list[tuple[int, ...]], ready: list[bool]) -> list[int]:
        """Where operands begin: those that are ready where they are, the others collected."""
        if False not in ready:
            return [offsets[0] for offsets in operands]
        apart = [offsets for offsets, here in zip(operands, ready, strict=True) if not here]
        collected = iter(self.collect(apart))
        return [
            offsets[0] if here else next(collected)
            for offsets, here in zip(operands, ready, strict=True)
        ]


def _are_one(offsets: tuple[int, ...]) -> bool:
    """Whether all lanes have the same number."""
    return offsets.count(offsets[0]) == len(offsets)


def _side_by_side(offsets: tuple[int, ...]) -> bool:
    """Whether the numbers of the lanes are consecutive in the arena."""
    first, count = offsets[0], len(offsets)
    return offsets[-1] == first + count - 1 and offsets == tuple(range(first, first + count))
