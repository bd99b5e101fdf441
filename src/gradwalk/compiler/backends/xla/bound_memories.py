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

    def state(self, here: DeviceMachine) -> list[Any]:
        """The values of what the call changes, to be donated."""
        if self._plain:
            return _own([memory._term for memory in self._changed])
        return _own([_current(memory, here) for memory in self._changed])

    def others(self, here: DeviceMachine) -> list[Any]:
        """The values of what it only reads."""
        if self._plain:
            return [memory._term for memory in self._kept]
        return [_current(memory, here) for memory in self._kept]

    def put(self, values: Sequence[Any]) -> None:
        """Replace the values of what the call changed."""
        if not self._plain:
            for memory, value in zip(self._changed, values, strict=True):
                _put(memory, value)
            return
        for memory, value in zip(self._changed, values, strict=True):
            memory._term = value
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
