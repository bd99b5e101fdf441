"""Short rows: many rows of a few numbers each, such as the classes of a classifier.

A vector along such a row would be mostly empty. Here the lanes are neighbouring rows instead, and
the row itself is unrolled: each of its numbers is a vector of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, combine
from gradwalk.compiler.plan.loop_nest import Apply, Load, Loops, Number, Position, Reduce, Store

LONGEST = 16
TAKEN = (Load, Number, Position, Apply, Reduce, Store)  # neither picks nor random numbers


def are_short_rows(loops: Loops, vector_bytes: int) -> bool:
    """Whether rows are short and many enough to go side by side."""
    if not loops.outer or not loops.reduces or len(loops.row) > 1 or loops.row[0] > LONGEST:
        return False
    takes_all = all(isinstance(s, TAKEN) for s in loops.steps)
    return loops.sum_order().side * 4 >= vector_bytes and takes_all


class ShortRows(LoopsBuilder):
    """The kernel of some loops with short rows."""

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(loops, vector_bytes)
        (self.length,) = loops.row
        self.side = len(loops.outer) - 1  # the loop that lanes lie along

    def write(self) -> Kernel:
        """The kernel; threads share blocks of neighbouring rows."""
        self.strides = self.read_strides(self.side)
        *others, side = self.outer_sizes()
        up = self.set(f"add i64 {side}, {self.lanes - 1}")
        blocks = self.set(f"sdiv i64 {up}, {self.lanes}")
        sizes: list[I64] = [*others, blocks]
        with self.loop(*self.share(self.multiply_all(sizes))) as unit:
            *indices, block = self.unravel(unit.index, sizes)
            row = self.multiply(block, self.lanes)
            self.indices = [*indices, row]
            self.mask = self.first_lanes(self.subtract(side, row), self.lanes)
            self.starts = [self.dot(self.indices, strides) for strides in self.strides]
            self._rows()
        return self.kernel()

    def _rows(self) -> None:
        """All steps, for as many rows as there are lanes."""
        self.values = {}  # of each step a list: one value per number of the row, or one for all
        for k, step in enumerate(self.steps):
            along = self._along(self.length if self.varies[k] else 1)
            if isinstance(step, Reduce):
                parts = (self.value(step.arg).to(step.dtype) for _ in self._along(self.length))
                both = functools.partial(combine, step.how)
                self.values[k] = [functools.reduce(both, parts, self.identity(step))]
            elif isinstance(step, Store):
                for _ in along:
                    self.store_access(step, self.value(step.arg))
            elif not isinstance(step, Number):
                self.values[k] = [self.compute(k, step) for _ in along]

    def _along(self, count: int) -> Iterator[None]:
        """Go to each number of the row in turn."""
        for j in range(count):
            self.j = j
            yield

    def value(self, k: int) -> Vector:
        step = self.steps[k]
        if isinstance(step, Number):
            return self.compute(k, step)
        values: list[Vector] = self.values[k]
        return values[self.j if len(values) > 1 else 0]

    def position(self, dimension: int) -> Vector:
        if dimension <= self.side:
            return self.index(self.indices[dimension], dimension == self.side)
        return self.constant(Type(INT64.dtype, self.lanes), self.j)

    def place(self, access: int) -> tuple[I64, I64]:
        strides = self.strides[access]
        return self.add(self.starts[access], self.multiply(self.j, strides[-1])), strides[self.side]
