"""Where arrays live: buffers, and slices of them with an offset and strides.

A view op needs no kernel: its output is the same buffer with other strides. NumPy computes them:
the op's forward runs on a stand-in with the same strides, whose numbers are never read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.index.indexing import getitem, put, setitem, write_view
from gradwalk.ops.shape.rearranging import diagonal_op, diagonal_put
from gradwalk.ops.shape.reshaping import reshape

Strides = tuple[int, ...]
ALIGNMENT = 64


class Window(NamedTuple):
    """What a loop sees of a buffer: at each iteration it moves on by `step` elements, and returns
    to where it began after `period` iterations (0: never)."""

    of: Buffer
    step: int = 0
    period: int = 0

    def moved(self, iteration: Any) -> Any:
        """How many elements it has moved when an iteration begins."""
        return self.step * (iteration % self.period if self.period else iteration)


@dataclass(eq=False)
class Buffer:
    """Memory of a program: a part of the arena, or an array of its own (`slot` ≥ 0); or, in a loop,
    a window on a buffer from outside."""

    size: int  # bytes
    slot: int = -1
    offset: int = 0  # bytes, in the arena
    readers: list[int] = field(default_factory=list)  # positions in the schedule
    writers: list[int] = field(default_factory=list)
    window: Window | None = None

    @property
    def memory(self) -> Buffer:
        """The buffer that has the memory."""
        return self if self.window is None else self.window.of

    @property
    def in_arena(self) -> bool:
        """Whether the memory plan decides on its offset."""
        return self.memory.slot < 0


@dataclass(frozen=True, eq=False)
class Slice:
    """An array in a buffer: the element it starts at, and its strides in elements."""

    buffer: Buffer
    dtype: np.dtype[Any]
    shape: Shape
    strides: Strides
    offset: int = 0  # elements

    def broadcast(self, shape: Shape) -> Strides:
        """The strides for reading it as an array of a larger shape."""
        lead = len(shape) - len(self.shape)
        own = zip(self.shape, self.strides, strict=True)
        return (0,) * lead + tuple(0 if n == 1 else s for n, s in own)

    @property
    def contiguous(self) -> bool:
        """Whether the elements are C-contiguous."""
        return self.strides == contiguous_strides(self.shape) or 0 in self.shape


def contiguous_strides(shape: Shape) -> Strides:
    """The strides of a C-contiguous array; 0 for dimensions of length 1."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(0 if n == 1 else step)
        step *= n
    return tuple(reversed(strides))


def allocate(shape: Shape, dtype: np.dtype[Any], slot: int = -1) -> Slice:
    """New memory for an array."""
    buffer = Buffer(max(math.prod(shape), 1) * dtype.itemsize, slot)
    return Slice(buffer, dtype, shape, contiguous_strides(shape))


def fresh(term: Term, slot: int = -1) -> Slice:
    """New memory for a term."""
    return allocate(term.shape, term.dtype, slot)


def views(call: Call, base: Slice) -> list[Slice] | None:
    """The outputs of a view op as slices of its operand's buffer; None if it has to copy."""
    if call.op is reshape:
        seen = reshaped(base, call.attrs["shape"])
        return None if seen is None else [seen]
    stand_in = _stand_in(base)
    outputs = call.op.forward(stand_in, *call.args[1:], **call.attrs)
    arrays = outputs if call.op.multiple else (outputs,)
    if any(array.base is None and array is not stand_in for array in arrays):
        return None
    return [_seen_as(array, stand_in, base) for array in arrays]


def reshaped(base: Slice, shape: Shape) -> Slice | None:
    """The same memory as an array of another shape; None if no strides describe that."""
    stand_in = _stand_in(base)
    try:
        return _seen_as(np.reshape(stand_in, shape, copy=False), stand_in, base)
    except ValueError:
        return None


def _seen_as(array: Any, stand_in: Any, base: Slice) -> Slice:
    start = stand_in.__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - start if array.size else 0
    strides = _without_ones(array.shape, array.strides)
    return Slice(base.buffer, base.dtype, array.shape, strides, base.offset + offset)


def _without_ones(shape: Shape, strides: Strides) -> Strides:
    """Strides with 0 for dimensions of length 1."""
    return tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))


def seen_in_loop(base: Slice, step: int = 0, period: int = 0) -> Slice:
    """An array as the body of a loop sees it, in its first iteration."""
    return replace(base, buffer=Buffer(0, window=Window(base.buffer.memory, step, period)))


def row_of(base: Slice, number: int) -> Slice:
    """One row of an array, without its dimension."""
    offset = base.offset + number * base.strides[0]
    return Slice(base.buffer, base.dtype, base.shape[1:], base.strides[1:], offset)


def sliced(base: Slice, axis: int, start: int, length: int) -> Slice:
    """A part along one axis."""
    shape = (*base.shape[:axis], length, *base.shape[axis + 1 :])
    offset = base.offset + start * base.strides[axis]
    return Slice(base.buffer, base.dtype, shape, _without_ones(shape, base.strides), offset)


def spread(base: Slice, shape: Shape) -> Slice:
    """The same array broadcast to a larger shape."""
    if base.shape == shape:
        return base
    extra = max(len(base.shape) - len(shape), 0)  # leading dimensions of length 1
    own = Slice(base.buffer, base.dtype, base.shape[extra:], base.strides[extra:])
    return Slice(base.buffer, base.dtype, shape, own.broadcast(shape), base.offset)


def same(first: Slice, second: Slice) -> bool:
    """Whether two slices are the same memory in the same order."""
    return (
        first.buffer is second.buffer
        and first.offset == second.offset
        and first.shape == second.shape
        and first.strides == second.strides
    )


def _stand_in(base: Slice) -> np.ndarray[Any, Any]:
    """An array of bytes with these strides, whose memory is never touched."""
    reaches = [max(n - 1, 0) * s for n, s in zip(base.shape, base.strides, strict=True)]
    before = -sum(reach for reach in reaches if reach < 0)
    memory = np.empty(1 + sum(map(abs, reaches)), np.int8)[before:]
    return np.lib.stride_tricks.as_strided(memory, base.shape, base.strides)


def bytes_of(base: Slice) -> int:
    """How much memory one pass over its elements touches."""
    read = math.prod(n for n, s in zip(base.shape, base.strides, strict=True) if s)
    return read * base.dtype.itemsize


# -- ops that write the part of an array that a view of it covers ----------------------------------


# The rest of their result is that of their first operand.
CHANGES = (setitem, write_view)
Views = Iterator[tuple[Op, dict[str, Any], int]]


def written_part(call: Call, whole: Slice) -> Slice | None:
    """The part of the result that a call writes; None if no strides describe it."""
    part = whole
    for op, attrs, which in _chain(call):
        seen = views(Call(op, (0,), attrs, []), part)
        if seen is None:
            return None
        part = seen[which if op.multiple else 0]
    return part


def writes_a_part(call: Call) -> bool:
    """Whether a call writes a view of its result, known without any index array."""
    if call.op in (put, setitem):
        return len(call.args) == (1 if call.op is put else 2)
    if call.op is write_view:
        return written_part(call, fresh(call.outputs[0])) is not None
    return call.op is diagonal_put


def _chain(call: Call) -> Views:
    """The views that lead from the result to the part."""
    if call.op is write_view:
        yield from call.attrs["chain"]
    elif call.op is diagonal_put:
        yield diagonal_op, {name: call.attrs[name] for name in ("offset", "axes")}, 0
    else:
        yield getitem, {"index": call.attrs["index"]}, 0
