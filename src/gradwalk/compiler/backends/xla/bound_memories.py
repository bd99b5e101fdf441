"""BoundMemories: the memories of a compiled program, as its calls read and replace them.

A program may have hundreds. What they are is looked at once, for as long as they are the same
arrays; a call then only reads and replaces their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.compiler.backends.xla.machine import DeviceMachine
from gradwalk.compiler.backends.xla.packed_state import Pack, packed, state_layout
from gradwalk.graph.reference_counts import LIST_AND_ATTRIBUTE, references


class BoundMemories:
    """Memories of which a call changes some and only reads others."""

    def __init__(
        self, memories: Sequence[Any], changed: Sequence[int], kept: Sequence[int]
    ) -> None:
        self.memories = memories
        self.machine = machine_of(memories)  # None if all are NumPy's arrays
        self._changed = [memories[n] for n in changed]
        self._kept = [memories[n] for n in kept]
        # Whether all of them have their value themselves, rather than as a part of another one.
        self._plain = all(
            m.__class__ is DeviceArray and m.base is None for m in (*self._changed, *self._kept)
        )
        self._pack()

    def _pack(self) -> None:
        """Put small memories together, where that pays."""
        places: list[tuple[int, int] | None] = [None] * len(self._changed)
        self._packs: list[Pack] = []
        if self._plain and self.machine is not None and self.machine.packs_state:
            self._packs, places = packed(self._changed)
        self.layout = state_layout(
            tuple(pack.shapes for pack in self._packs),
            tuple(places) if self._packs else len(places),
        )
        self._single = [m for m, at in zip(self._changed, places, strict=True) if at is None]

    def state(self, here: DeviceMachine) -> list[Any]:
        """What the call changes, to be donated, as its layout says."""
        if not all(pack.intact for pack in self._packs):
            self._pack()
        packs = [pack.array for pack in self._packs]
        if self._plain:
            return [*packs, *_own([memory._term for memory in self._single])]
        return [*packs, *_own([_current(memory, here) for memory in self._single])]

    def values(self, here: DeviceMachine) -> list[Any]:
        """The values of what the call changes, each alone."""
        return [_current(memory, here) for memory in self._changed]

    def others(self, here: DeviceMachine) -> list[Any]:
        """The values of what it only reads."""
        if self._plain:
            return [memory._term for memory in self._kept]
        return [_current(memory, here) for memory in self._kept]

    def put(self, state: Sequence[Any]) -> None:
        """Replace what the call changed."""
        singles = state[len(self._packs) :]
        if not self._plain:
            for memory, value in zip(self._single, singles, strict=True):
                _put(memory, value)
            return
        for pack, array in zip(self._packs, state, strict=False):
            pack.replace(array)
        for memory, value in zip(self._single, singles, strict=True):
            memory.held = value
        for memory in self._changed:
            memory.version += 1


def machine_of(arrays: Sequence[Any]) -> DeviceMachine | None:
    """The machine of the arrays that are on a device."""
    return next((a.machine for a in arrays if isinstance(a, DeviceArray)), None)


def _current(memory: Any, here: DeviceMachine) -> Any:
    """The value of a memory; no other name refers to it but the array's own."""
    if memory.__class__ is DeviceArray and memory.base is None:
        return memory._term
    return here.array(memory).term


def _put(memory: Any, value: Any) -> None:
    """Replace the value of a memory."""
    if isinstance(memory, DeviceArray):
        memory.assign(value)
    else:
        memory[...] = np.asarray(value)


def _own(state: list[Any]) -> list[Any]:
    """Copy what is also used elsewhere (a clone shares its original's value): the arrays returned
    are donated, and gone after the call."""
    if LIST_AND_ATTRIBUTE is None:
        return [jnp.copy(array) for array in state]
    counts = references(state)
    if max(counts, default=0) <= LIST_AND_ATTRIBUTE:
        return state
    return [
        jnp.copy(array) if count > LIST_AND_ATTRIBUTE else array
        for array, count in zip(state, counts, strict=True)
    ]
