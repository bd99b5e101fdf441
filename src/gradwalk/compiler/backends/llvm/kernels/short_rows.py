"""Short rows: many rows of a few numbers each, such as the classes of a classifier.

A vector along such a row would be mostly empty. Here the lanes are neighbouring rows instead, and
the row itself is unrolled: each of its numbers is a vector of its own.
"""

from __future__ import annotations

import functools

from gradwalk.compiler.backends.llvm.emit.combine import combine
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector
from gradwalk.compiler.backends.llvm.emit.vector_builder import lanes_for
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder
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
        dtypes = [s.dtype for s in loops.steps if not isinstance(s, (Store, Number))]
        self.lanes = lanes_for(dtypes, vector_bytes)
        self.varies = loops.varies()
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
        self.values: dict[int, list[Vector]] = {}  # one per number of the row, or one for all
        for k, step in enumerate(self.steps):
            count = self.length if self.varies[k] else 1
            match step:
                case Load(access, dtype):
                    self.values[k] = [
                        self.load_access(access, dtype, *self._place(access, j), self.mask)
                        for j in range(count)
                    ]
                case Position(dimension):
                    self.values[k] = [self._position(dimension, j) for j in range(count)]
                case Apply():
                    self.values[k] = [
                        self.apply(step, functools.partial(self._at, j=j), self.lanes, self.mask)
                        for j in range(count)
                    ]
                case Reduce(how, arg, dtype):
                    parts = (self._at(arg, j).to(dtype) for j in range(self.length))
                    both = functools.partial(combine, how)
                    self.values[k] = [functools.reduce(both, parts, self.identity(step))]
                case Store(access, arg):
                    for j in range(count):
                        place = self._place(access, j)
                        self.store_access(access, self._at(arg, j), *place, self.mask)

    def _at(self, k: int, j: int) -> Vector:
        """The value of a step at one number of the row."""
        step = self.steps[k]
        if isinstance(step, Number):
            kind = Type(step.dtype, self.lanes)
            return Vector(self, kind, kind.constant(step.value))
        values = self.values[k]
        return values[j if len(values) > 1 else 0]

    def _position(self, dimension: int, j: int) -> Vector:
        if dimension <= self.side:
            return self.position(self.indices[dimension], dimension == self.side)
        kind = Type(INT64.dtype, self.lanes)
        return Vector(self, kind, kind.constant(j))

    def _place(self, access: int, j: int) -> tuple[I64, I64]:
        """The offset of one number of the rows in an array, and its stride from row to row."""
        strides = self.strides[access]
        return self.add(self.starts[access], self.multiply(j, strides[-1])), strides[self.side]
