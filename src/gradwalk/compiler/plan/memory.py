"""The memory plan: one arena in which buffers that are never needed at the same time share a place.

A buffer is alive from the entry of the schedule that writes it first to the last that reads it.
Buffers are placed in the order in which they come to life, each in the smallest gap it fits.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradwalk.compiler.plan.places import ALIGNMENT, Buffer


def place_in_arena(buffers: Iterable[Buffer]) -> int:
    """Give every buffer its offset; returns the size of the arena in bytes."""
    waiting = sorted((b for b in buffers if b.in_arena), key=_life)
    alive: list[Buffer] = []
    size = 0
    for buffer in waiting:
        first, _ = _life(buffer)
        alive = [b for b in alive if _life(b)[1] >= first]
        buffer.offset = _gap(alive, _room(buffer))
        alive.append(buffer)
        size = max(size, buffer.offset + _room(buffer))
    return size


def _life(buffer: Buffer) -> tuple[int, int]:
    """The first and the last entry that touch it."""
    touched = [*buffer.writers, *buffer.readers]
    return min(touched), max(touched)


def _room(buffer: Buffer) -> int:
    return -(-buffer.size // ALIGNMENT) * ALIGNMENT


def _gap(alive: list[Buffer], room: int) -> int:
    """The offset of the smallest gap between living buffers that has the room."""
    best, best_gap = -1, 0
    end = 0
    for buffer in sorted(alive, key=lambda b: b.offset):
        gap = buffer.offset - end
        if gap >= room and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, buffer.offset + _room(buffer))
    return end if best < 0 else best
