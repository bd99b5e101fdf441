"""VectorBuilder: loads and stores of vectors.

In memory a bool is a byte, in a register one bit. A mask leaves out lanes: a load puts 0 there, and
neither a load nor a store touches their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector, counting, spread


class VectorBuilder(IRBuilder):
    """A function being written that moves vectors between memory and registers."""

    def element(self, base: str, dtype: np.dtype[Any], *index: I64) -> str:
        """The address of the element whose index is the sum of these terms."""
        total = self.add(*index)
        return base if total == 0 else self.pointer(_in_memory(Type(dtype)).text, base, total)

    def first_lanes(self, count: I64, lanes: int) -> str:
        """A mask of the first `count` lanes."""
        numbers = counting(self, Type(INT64.dtype, lanes))
        limit = spread(self, count, lanes)
        return self.set(f"icmp slt {limit.type.text} {numbers.text}, {limit.text}")

    # -- loads -------------------------------------------------------------------------------------

    def load(self, pointer: str, kind: Type, mask: str | None = None) -> Vector:
        """Load consecutive elements."""
        memory = _in_memory(kind)
        if mask is None:
            text = self.set(f"load {memory.text}, ptr {pointer}, align {kind.dtype.itemsize}")
        else:
            text = self.call(
                memory.text, f"llvm.masked.load.{memory.suffix}.p0", ("ptr", pointer),
                ("i32", kind.dtype.itemsize), (f"<{kind.lanes} x i1>", mask),
                (memory.text, "zeroinitializer"),
            )  # fmt: skip
        return self._in_register(Vector(self, memory, text), kind)

    def gather(self, pointer: str, offsets: Vector, kind: Type, mask: str | None = None) -> Vector:
        """Load elements at the given offsets."""
        memory = _in_memory(kind)
        text = self.call(
            memory.text, f"llvm.masked.gather.{memory.suffix}.v{kind.lanes}p0",
            (f"<{kind.lanes} x ptr>", self._pointers(pointer, offsets, memory)),
            ("i32", kind.dtype.itemsize), (f"<{kind.lanes} x i1>", _lanes(mask)),
            (memory.text, "zeroinitializer"),
        )  # fmt: skip
        return self._in_register(Vector(self, memory, text), kind)

    def load_along(self, pointer: str, stride: I64, kind: Type, mask: str | None = None) -> Vector:
        """Load elements along a dimension of this stride."""
        if kind.lanes == 1:
            return self.load(pointer, kind)
        if stride == 0:
            return self.load(pointer, Type(kind.dtype)).spread(kind.lanes)
        if stride == 1:
            return self.load(pointer, kind, mask)
        return self.gather(pointer, self.lane_offsets(stride, kind.lanes), kind, mask)

    def load_every_second(self, pointer: str, kind: Type, mask: str) -> Vector:
        """Load elements 0, 2, 4, ...: of two consecutive vectors every second lane."""
        lanes = kind.lanes
        halves = []
        for half in range(2):
            chosen = [(half * lanes + i) // 2 if i % 2 == 0 else lanes for i in range(lanes)]
            allowed = Vector(self, kind.of(np.bool_), mask).shuffled(chosen, "zeroinitializer")
            part = self.element(pointer, kind.dtype, half * lanes)
            halves.append(self.load(part, kind, allowed.text))
        return halves[0].shuffled([2 * i for i in range(lanes)], halves[1].text)

    # -- stores ------------------------------------------------------------------------------------

    def store(self, value: Vector, pointer: str, mask: str | None = None) -> None:
        """Store consecutive elements."""
        size, lanes = value.type.dtype.itemsize, value.type.lanes
        value = self._for_memory(value)
        if mask is None:
            self.do(f"store {value.type.text} {value.text}, ptr {pointer}, align {size}")
        else:
            self.call(
                "void", f"llvm.masked.store.{value.type.suffix}.p0", (value.type.text, value.text),
                ("ptr", pointer), ("i32", size), (f"<{lanes} x i1>", mask),
            )  # fmt: skip

    def store_along(
        self, value: Vector, pointer: str, stride: I64, mask: str | None = None
    ) -> None:
        """Store elements along a dimension of this stride."""
        size, lanes = value.type.dtype.itemsize, value.type.lanes
        if lanes == 1 or stride == 1:
            self.store(value, pointer, mask if lanes > 1 else None)
            return
        value = self._for_memory(value)
        pointers = self._pointers(pointer, self.lane_offsets(stride, lanes), value.type)
        self.call(
            "void", f"llvm.masked.scatter.{value.type.suffix}.v{lanes}p0",
            (value.type.text, value.text), (f"<{lanes} x ptr>", pointers), ("i32", size),
            (f"<{lanes} x i1>", _lanes(mask)),
        )  # fmt: skip

    # -- parts -------------------------------------------------------------------------------------

    def lane_offsets(self, stride: I64, lanes: int) -> Vector:
        """The offset of each lane: 0, stride, 2 · stride, ..."""
        strides = spread(self, stride, lanes)
        return strides * counting(self, strides.type)

    def _pointers(self, pointer: str, offsets: Vector, memory: Type) -> str:
        return self.set(
            f"getelementptr {memory.element}, ptr {pointer}, {offsets.type.text} {offsets.text}"
        )

    def _in_register(self, value: Vector, kind: Type) -> Vector:
        return value.compare("ne", 0) if kind.dtype.kind == "b" else value

    def _for_memory(self, value: Vector) -> Vector:
        return value.to(np.uint8) if value.type.dtype.kind == "b" else value


def lanes_for(dtypes: Sequence[np.dtype[Any]], vector_bytes: int) -> int:
    """How many elements of the widest of these dtypes fill a vector."""
    return vector_bytes // max((d.itemsize for d in dtypes if d.kind != "b"), default=4)


def _in_memory(kind: Type) -> Type:
    return kind.of(np.uint8) if kind.dtype.kind == "b" else kind


def _lanes(mask: str | None) -> str:
    return "splat (i1 true)" if mask is None else mask
