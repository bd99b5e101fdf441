"""Short rows: many rows of a few numbers each, such as the classes of a classifier.

A vector along such a row would be mostly empty. Here the lanes are neighbouring rows instead, and
the row itself is written out: each of its numbers is a vector of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    apply_op,
    element_pointer,
    first_lanes,
    kernel_like,
    lanes_for,
    load_along,
    store_along,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.plan.loop_nest import (
    Apply,
    Draw,
    Load,
    Loops,
    Number,
    Pick,
    Position,
    Reduce,
    Store,
)

LONGEST = 16


def are_short_rows(loops: Loops, vector_bytes: int) -> bool:
    """Whether rows are short and many enough to go side by side."""
    if not loops.outer or not loops.reduces or len(loops.row) > 1 or loops.row[0] > LONGEST:
        return False
    takes_all = not any(isinstance(s, (Pick, Draw)) for s in loops.steps)
    return loops.outer[-1] * 4 >= vector_bytes and takes_all


def short_rows_kernel(loops: Loops, vector_bytes: int) -> Kernel:
    """The kernel of some loops with short rows."""
    return kernel_like(loops, vector_bytes, lambda: _ShortRows(loops, vector_bytes).write())


class _ShortRows:
    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        self.loops = loops
        (self.length,) = loops.row
        dtypes = [s.dtype for s in loops.steps if not isinstance(s, (Store, Number))]
        self.lanes = lanes_for(dtypes, vector_bytes)
        self.varies = loops.varies()
        self.side = len(loops.outer) - 1  # the loop that lanes lie along
        self.f = KernelWriter(len(loops.accesses))

    def write(self) -> Kernel:
        f, loops = self.f, self.loops
        self.strides = [
            [
                str(s) if s == 0 else f.size(loops.size_of_stride(k, d))
                for d, s in enumerate(access.strides)
            ]
            for k, access in enumerate(loops.accesses)
        ]
        sizes = [f.size(d) for d in range(len(loops.outer))]
        up = f.set(f"add i64 {sizes[-1]}, {self.lanes - 1}")
        blocks = f.set(f"sdiv i64 {up}, {self.lanes}")
        first, end = f.share(functools.reduce(f.multiply, [*sizes[:-1], blocks]))
        with f.loop(first, end) as unit:
            block = f.set(f"urem i64 {unit.index}, {blocks}")
            rest = f.set(f"udiv i64 {unit.index}, {blocks}")
            indices: list[str] = []
            for size in reversed(sizes[:-1]):
                indices.insert(0, f.set(f"urem i64 {rest}, {size}"))
                rest = f.set(f"udiv i64 {rest}, {size}")
            row = f.multiply(block, str(self.lanes))
            left = f.set(f"sub i64 {sizes[-1]}, {row}")
            self.indices = [*indices, row]
            self.mask = first_lanes(f, left, self.lanes)
            self.starts = [
                f.add(*(f.multiply(i, s) for i, s in zip(self.indices, strides)))
                for strides in self.strides
            ]
            self._rows()
        return f.kernel()

    def _rows(self) -> None:
        """All steps, for as many rows as there are lanes."""
        self.values: dict[int, list[Value]] = {}  # one per number of the row, or one for all
        for k, step in enumerate(self.loops.steps):
            count = self.length if self.varies[k] else 1
            match step:
                case Load(access, dtype):
                    self.values[k] = [self._load(access, dtype, j) for j in range(count)]
                case Position(dimension):
                    self.values[k] = [self._position(dimension, j) for j in range(count)]
                case Apply():
                    self.values[k] = [self._apply(step, j) for j in range(count)]
                case Reduce(how, arg, dtype):
                    kind = Kind(dtype, self.lanes)
                    start = Value(self.f, kind, kind.constant(identity(how, dtype)))
                    parts = (v.to(dtype) for v in self._all(arg))
                    both = functools.partial(combine, how)
                    self.values[k] = [functools.reduce(both, parts, start)]
                case Store(access, arg):
                    for j in range(count):
                        self._store(access, self._at(arg, j), j)

    def _at(self, k: int, j: int) -> Value:
        """The value of a step at one number of the row."""
        step = self.loops.steps[k]
        if isinstance(step, Number):
            kind = Kind(step.dtype, self.lanes)
            return Value(self.f, kind, kind.constant(step.value))
        found = self.values[k]
        return found[j if len(found) > 1 else 0]

    def _all(self, k: int) -> list[Value]:
        return [self._at(k, j) for j in range(self.length)]

    def _apply(self, step: Apply, j: int) -> Value:
        given: list[Any] = [
            a.value if isinstance(a := self.loops.steps[i], Number) else self._at(i, j)
            for i in step.args
        ]
        return apply_op(self.f, step.op, given, dict(step.attrs), step.dtype, self.lanes, self.mask)

    def _position(self, dimension: int, j: int) -> Value:
        f, kind = self.f, Kind(np.dtype(np.int64), self.lanes)
        if dimension > self.side:
            return Value(f, kind, kind.constant(j))
        spread = Value(f, Kind(kind.dtype), self.indices[dimension]).spread(self.lanes)
        if dimension < self.side:
            return spread
        counted = ", ".join(f"i64 {i}" for i in range(self.lanes))
        return spread + Value(f, kind, f"<{counted}>")

    def _place(self, access: int, j: int) -> str:
        f = self.f
        offset = f.add(self.starts[access], f.multiply(str(j), self.strides[access][-1]))
        return element_pointer(f, f.bases[access], self.loops.accesses[access].dtype, offset)

    def _side_stride(self, access: int) -> str:
        """The stride from row to row; 1 is worth knowing when the kernel is written."""
        stride = self.loops.accesses[access].strides[self.side]
        return self.strides[access][self.side] if stride != 1 else "1"

    def _load(self, access: int, dtype: np.dtype[Any], j: int) -> Value:
        stride = self._side_stride(access)
        return load_along(
            self.f, self._place(access, j), stride, Kind(dtype, self.lanes), self.mask
        )

    def _store(self, access: int, value: Value, j: int) -> None:
        value = value.to(self.loops.accesses[access].dtype)
        store_along(self.f, value, self._place(access, j), self._side_stride(access), self.mask)
