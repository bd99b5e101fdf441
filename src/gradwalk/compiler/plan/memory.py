"""The memory plan: one arena in which buffers that are never needed at the same time share a place.

A buffer is alive from the entry of the schedule that writes it first to the last that reads it.
Buffers are placed in the order in which they come to life, each in the smallest gap it fits.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from gradwalk.compiler.plan.places import ALIGNMENT, Buffer


class Living(NamedTuple):
    """A buffer that has its place: where it begins and ends, and the last entry that touches it."""

    start: int
    end: int
    last: int


def place_in_arena(buffers: Iterable[Buffer]) -> int:
    """Give every buffer its offset; returns the size of the arena in bytes."""
    lives = sorted(((_life(b), b) for b in buffers if b.in_arena), key=lambda life: life[0])
    alive: list[Living] = []  # in the order of their offsets
    size = now = 0
    for (first, last), buffer in lives:
        if first > now:
            alive, now = [living for living in alive if living.last >= first], first
        room = -(-buffer.size // ALIGNMENT) * ALIGNMENT
        buffer.offset = _gap(alive, room)
        insort(alive, Living(buffer.offset, buffer.offset + room, last))
        size = max(size, buffer.offset + room)
    return size


def _life(buffer: Buffer) -> tuple[int, int]:
    """The first and the last entry that touch it."""
    touched = [*buffer.writers, *buffer.readers]
    return min(touched), max(touched)


def _gap(alive: list[Living], room: int) -> int:
    """The offset of the smallest gap between living buffers that has the room."""
    best, best_gap = -1, 0
    end = 0
    for start, behind, _ in alive:  # which do not overlap
        gap = start - end
        if gap >= room and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = behind
    return end if best < 0 else best
