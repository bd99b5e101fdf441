"""The memory plan: one arena in which buffers share memory if their lifetimes do not overlap.

A buffer is alive from the entry of the schedule that writes it first to the last that reads it.
The largest are placed first, each in the smallest gap it fits into between those that are alive at
the same time. So the arena is hardly ever larger than the most that is alive at one time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from gradwalk.compiler.plan.buffers import ALIGNMENT, Buffer


class Lifetime(NamedTuple):
    """A buffer in the arena: its first byte and the end, the first and the last entry to use it."""

    start: int
    end: int
    first: int
    last: int


def place_in_arena(buffers: Iterable[Buffer]) -> int:
    """Give every buffer its offset; return the size of the arena in bytes."""
    lives = [(-b.size, *_life(b), b) for b in buffers if b.in_arena]
    placed: list[Lifetime] = []  # in the order of their offsets
    size = 0
    for _, first, last, buffer in sorted(lives, key=lambda life: life[:3]):
        room = -(-buffer.size // ALIGNMENT) * ALIGNMENT
        buffer.offset = _gap(placed, room, first, last)
        insort(placed, Lifetime(buffer.offset, buffer.offset + room, first, last))
        size = max(size, buffer.offset + room)
    return size


def _life(buffer: Buffer) -> tuple[int, int]:
    """The first and the last entry that use it."""
    touched = [*buffer.writers, *buffer.readers]
    return min(touched), max(touched)


def _gap(placed: list[Lifetime], room: int, first: int, last: int) -> int:
    """The offset of the smallest gap that is large enough, between buffers alive at that time."""
    best, best_gap, end = -1, 0, 0
    for start, behind, born, died in placed:
        if born > last or died < first:
            continue
        gap = start - end
        if gap >= room and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        if behind > end:
            end = behind
    return end if best < 0 else best
