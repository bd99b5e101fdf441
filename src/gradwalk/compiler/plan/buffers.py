"""Where arrays live: buffers, and places in them with an offset and strides.

A view op makes no kernel: its output is the same buffer seen with other strides. NumPy itself says
which: the op's forward is run on a stand-in with the same strides that nobody reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.ops.core.op import Shape
from gradwalk.ops.shape.reshaping import reshape

Strides = tuple[int, ...]
ALIGNMENT = 64


@dataclass(eq=False)
class Buffer:
    """Memory of a program: a part of the arena, or an array of its own (`slot` ≥ 0)."""

    size: int  # bytes
    slot: int = -1
    offset: int = 0  # bytes, in the arena
    readers: list[int] = field(default_factory=list)  # positions in the schedule
    writers: list[int] = field(default_factory=list)

    @property
    def in_arena(self) -> bool:
        """Whether the memory plan gives it its place."""
        return self.slot < 0


@dataclass(frozen=True, eq=False)
class Place:
    """An array: a buffer, the element it starts at, and the strides in elements."""

    buffer: Buffer
    dtype: np.dtype[Any]
    shape: Shape
    strides: Strides
    offset: int = 0  # elements

    def broadcast(self, shape: Shape) -> Strides:
        """The strides with which it is read as an array of a larger shape."""
        lead = len(shape) - len(self.shape)
        own = zip(self.shape, self.strides, strict=True)
        return (0,) * lead + tuple(0 if n == 1 else s for n, s in own)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie one after the other, in order."""
        return self.strides == contiguous_strides(self.shape) or 0 in self.shape


def contiguous_strides(shape: Shape) -> Strides:
    """Strides of an array in order; 0 for dimensions of length 1."""
    found, step = [], 1
    for n in reversed(shape):
        found.append(0 if n == 1 else step)
        step *= n
    return tuple(reversed(found))


def fresh(term: Term, slot: int = -1) -> Place:
    """New memory for a term."""
    buffer = Buffer(max(term.size, 1) * term.dtype.itemsize, slot)
    return Place(buffer, term.dtype, term.shape, contiguous_strides(term.shape))


def views(call: Call, base: Place) -> list[Place] | None:
    """The outputs of a view op as places in its operand's buffer; None if it has to copy."""
    stand_in = _stand_in(base)
    if call.op is reshape:
        try:
            found: Any = np.reshape(stand_in, call.attrs["shape"], copy=False)
        except ValueError:
            return None
    else:
        found = call.op.forward(stand_in, *call.args[1:], **call.attrs)
    start = stand_in.__array_interface__["data"][0]
    places = []
    for array in found if call.op.multiple else (found,):
        if array.base is None and array is not stand_in:
            return None
        offset = array.__array_interface__["data"][0] - start if array.size else 0
        strides = tuple(0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
        places.append(Place(base.buffer, base.dtype, array.shape, strides, base.offset + offset))
    return places


def reshaped(place: Place, shape: Shape) -> Place | None:
    """The same memory as an array of another shape; None if strides cannot say that."""
    stand_in = _stand_in(place)
    try:
        found = np.reshape(stand_in, shape, copy=False)
    except ValueError:
        return None
    strides = tuple(0 if n == 1 else s for n, s in zip(found.shape, found.strides, strict=True))
    return Place(place.buffer, place.dtype, tuple(shape), strides, place.offset)


def sliced(place: Place, axis: int, start: int, length: int) -> Place:
    """A part along one axis."""
    shape = (*place.shape[:axis], length, *place.shape[axis + 1 :])
    offset = place.offset + start * place.strides[axis]
    strides = tuple(0 if n == 1 else s for n, s in zip(shape, place.strides, strict=True))
    return Place(place.buffer, place.dtype, shape, strides, offset)


def spread(place: Place, shape: Shape) -> Place:
    """The same array as one of a larger shape, to which it broadcasts."""
    if place.shape == shape:
        return place
    extra = max(len(place.shape) - len(shape), 0)  # leading dimensions of length 1
    own = Place(place.buffer, place.dtype, place.shape[extra:], place.strides[extra:])
    return Place(place.buffer, place.dtype, shape, own.broadcast(shape), place.offset)


def same(first: Place, second: Place) -> bool:
    """Whether two places are the same memory in the same order."""
    return (
        first.buffer is second.buffer
        and first.offset == second.offset
        and first.shape == second.shape
        and first.strides == second.strides
    )


def _stand_in(place: Place) -> np.ndarray[Any, Any]:
    """An array of bytes with these strides; its memory is never touched."""
    ways = [max(n - 1, 0) * s for n, s in zip(place.shape, place.strides, strict=True)]
    before = -sum(way for way in ways if way < 0)
    span = 1 + sum(map(abs, ways))
    memory = np.empty(span, np.int8)[before:]
    return np.lib.stride_tricks.as_strided(memory, place.shape, place.strides)


def bytes_of(place: Place) -> int:
    """How much memory one pass over its elements touches."""
    read = math.prod(n for n, s in zip(place.shape, place.strides, strict=True) if s)
    return read * place.dtype.itemsize
