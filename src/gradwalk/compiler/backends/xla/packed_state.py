"""Pack: many small memories of a device in one array, so that a call hands over one argument.

JAX takes the host about 2 µs for every array that goes into a program on a GPU, and as much for
every one that comes out. A step with 150 small parameters and Adam has 450 of each, and the device
waits for the host. So a program whose state is many small arrays gets them side by side in one. A
memory then holds a `PackedValue`, and becomes an array of its own only when somebody reads it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FEWEST = 32  # memories that are worth a pack: XLA takes longer to compile with one
MOST_BYTES = (
    16 << 20
)  # of all memories: a larger step keeps the device busy for longer than the host
SINGLE_READS = 4  # of parts, before all of them are made at once

Shape = tuple[int, ...]


class Pack:
    """Memories of one dtype, side by side in one array."""

    def __init__(self, memories: Sequence[Any]) -> None:
        self.shapes: tuple[Shape, ...] = tuple(memory.shape for memory in memories)
        self.array: Any = _joined([memory._term for memory in memories])
        self.intact = True  # no memory was written to by somebody else
        self._parts: dict[int, Any] = {}  # that somebody read, until the array is replaced
        for slot, memory in enumerate(memories):
            memory.held = PackedValue(self, slot)

    def replace(self, array: Any) -> None:
        """A step made new values of all memories."""
        self.array = array
        if self._parts:
            self._parts = {}

    def part(self, slot: int) -> Any:
        """The value of one memory, as an array of its own."""
        parts = self._parts
        if slot not in parts:
            if len(parts) < SINGLE_READS:
                parts[slot] = _part(self.shapes, slot)(self.array)
            else:
                parts.update(enumerate(_all_parts(self.shapes)(self.array)))
        return parts[slot]


class PackedValue:
    """The value that a memory has in a pack. It changes with the pack, so only memories hold it."""

    __slots__ = ("pack", "slot")

    def __init__(self, pack: Pack, slot: int) -> None:
        self.pack = pack
        self.slot = slot

    @property
    def value(self) -> Any:
        return self.pack.part(self.slot)


def packed(memories: Sequence[Any]) -> tuple[list[Pack], list[tuple[int, int] | None]]:
    """The packs of some memories of one device, and for each memory the numbers of its pack and of
    its slot there; None if it stays alone. What is in a pack already stays where it is."""
    packs: list[Pack] = []
    places: list[tuple[int, int] | None] = [None] * len(memories)
    new: dict[np.dtype[Any], list[int]] = {}
    for number, memory in enumerate(memories):
        held = memory.held
        if held.__class__ is not PackedValue or not held.pack.intact:
            new.setdefault(memory.dtype, []).append(number)
            continue
        if held.pack not in packs:
            packs.append(held.pack)
        places[number] = packs.index(held.pack), held.slot
    if sum(memory.nbytes for memory in memories) > MOST_BYTES:
        return packs, places
    for numbers in new.values():
        if len(numbers) >= FEWEST:
            for slot, n in enumerate(numbers):
                places[n] = len(packs), slot
            packs.append(Pack([memories[n] for n in numbers]))
    return packs, places


class StateLayout:
    """How the memories that a program changes are its first argument: packs, then single arrays."""

    def __init__(self, shapes: tuple[Any, ...], places: tuple[Any, ...]) -> None:
        self.shapes = shapes  # of the memories in each pack
        self.places = places  # of each memory that the program changes

    def values(self, state: Sequence[Any]) -> list[Any]:
        """The memories, from the argument."""
        packs = [
            _split(flat, shapes) for flat, shapes in zip(state[: len(self.shapes)], self.shapes)
        ]
        single = iter(state[len(self.shapes) :])
        return [next(single) if at is None else packs[at[0]][at[1]] for at in self.places]

    def state(self, values: Sequence[Any], before: Sequence[Any]) -> list[Any]:
        """The argument with new values of the memories."""
        packs = [
            _split(flat, shapes) for flat, shapes in zip(before[: len(self.shapes)], self.shapes)
        ]
        single = []
        for value, at in zip(values, self.places, strict=True):
            if at is None:
                single.append(value)
            else:
                packs[at[0]][at[1]] = value
        return [*map(_side_by_side, packs), *single]


@functools.lru_cache(maxsize=4096)
def state_layout(shapes: tuple[Any, ...], places: tuple[Any, ...] | int) -> StateLayout:
    """The one layout of its kind, by which compiled programs are found; a number of places: all of
    them are single."""
    return StateLayout(shapes, (None,) * places if isinstance(places, int) else places)


def _split(flat: Any, shapes: tuple[Shape, ...]) -> list[Any]:
    """The parts of a pack."""
    return [_cut(flat, shapes, slot) for slot in range(len(shapes))]


@functools.lru_cache(maxsize=256)
def _starts(shapes: tuple[Shape, ...]) -> list[int]:
    return [0, *itertools.accumulate(map(math.prod, shapes))]


def _cut(flat: Any, shapes: tuple[Shape, ...], slot: int) -> Any:
    starts = _starts(shapes)
    return lax.slice(flat, (starts[slot],), (starts[slot + 1],)).reshape(shapes[slot])


@functools.lru_cache(maxsize=4096)
def _part(shapes: tuple[Shape, ...], slot: int) -> Any:
    return jax.jit(lambda flat: _cut(flat, shapes, slot))


@functools.lru_cache(maxsize=256)
def _all_parts(shapes: tuple[Shape, ...]) -> Any:
    return jax.jit(lambda flat: _split(flat, shapes))


def _side_by_side(values: list[Any]) -> Any:
    return jnp.concatenate([value.ravel() for value in values])


_joined = jax.jit(_side_by_side)
