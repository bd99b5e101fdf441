"""Columns: reductions that keep the innermost dimension, such as the gradient of a bias.

Each thread takes some blocks of columns, a few vectors wide, and goes through all rows with one
accumulator per vector: every column is added up from the first row to the last, as in NumPy. What
is computed on the way may be stored as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.backends.llvm.emit.combine import combine
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Vector
from gradwalk.compiler.backends.llvm.emit.vector_builder import lanes_for
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, reductions_of
from gradwalk.compiler.plan.loop_nest import Apply, Load, Loops, Number, Store

WIDEST = 4  # vectors in a block of columns


class Columns(LoopsBuilder):
    """The kernel of some loops with `reduced` dimensions."""

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(loops, vector_bytes)
        moving = [s.dtype for s in self.steps if not isinstance(s, (Store, Number))]
        self.lanes = lanes_for(moving, vector_bytes)
        self.reductions = reductions_of(self.steps)
        stores = [s for s in self.steps if isinstance(s, Store)]
        self.inside = [s for s in stores if s.arg not in self.reductions]
        self.at_end = [s for s in stores if s.arg in self.reductions]
        (self.length,) = loops.row
        self.width = max(1, min(WIDEST, self.length // self.lanes))

    def write(self) -> Kernel:
        """The kernel; threads share blocks of columns."""
        inner = len(self.loops.outer) + len(self.loops.reduced)
        self.strides = self.read_strides(inner)
        outer = self.outer_sizes()
        self.reduced = [self.size(d) for d in range(len(outer), inner)]
        block = self.width * self.lanes
        sizes = [*outer, -(-self.length // block)]
        with self.loop(*self.share(self.multiply_all(sizes))) as unit:
            *self.indices, number = self.unravel(unit.index, sizes)
            column = self.multiply(number, block)
            if self.length % block == 0:
                self._block(column, [None] * self.width)
            else:
                self._last_block(column, block)
        return self.kernel()

    def _last_block(self, column: I64, block: int) -> None:
        """A whole block, or what is left: vector by vector, the lanes beyond the end masked."""
        left = self.subtract(self.length, column)
        whole = self.compare("sge", left, block)
        if self.length >= block:
            with self.when(whole):
                self._block(column, [None] * self.width)
        with self.when(self.set(f"xor i1 {whole}, true")):
            rests = [self.subtract(left, u * self.lanes) for u in range(self.width)]
            self._block(column, [self.first_lanes(rest, self.lanes) for rest in rests])

    def _block(self, column: I64, masks: Sequence[str | None]) -> None:
        self.columns = [self.add(column, u * self.lanes) for u in range(self.width)]
        self.masks = masks
        given = [self.identity(s) for _ in range(self.width) for s in self.reductions.values()]
        totals = self._nest([], given)
        for u, values in enumerate(self._by_vector(totals)):
            for s in self.at_end:
                offset, stride = self._place(s.access, [0] * len(self.reduced), u)
                self.store_access(s.access, values[s.arg], offset, stride, masks[u])

    def _by_vector(self, totals: list[Vector]) -> list[dict[int, Vector]]:
        """The accumulators of each vector of the block, by reduction."""
        count = len(self.reductions)
        return [
            dict(zip(self.reductions, totals[u * count : (u + 1) * count], strict=True))
            for u in range(self.width)
        ]

    def _nest(self, indices: list[I64], given: list[Vector]) -> list[Vector]:
        """The loops over what is reduced; returns the accumulators."""
        if len(indices) == len(self.reduced):
            parts = enumerate(self._by_vector(given))
            return [total for u, totals in parts for total in self._vector(indices, u, totals)]
        with self.loop(0, self.reduced[len(indices)], carried=given) as loop:
            loop.carry(*self._nest([*indices, loop.index], loop.carried))
        return loop.results

    def _vector(self, indices: list[I64], u: int, totals: dict[int, Vector]) -> list[Vector]:
        values: dict[int, Vector] = {}
        for k, step in enumerate(self.steps):
            match step:
                case Load(access, dtype):
                    offset, stride = self._place(access, indices, u)
                    values[k] = self.load_access(access, dtype, offset, stride, self.masks[u])
                case Apply():
                    values[k] = self.apply(step, values.__getitem__, self.lanes, self.masks[u])
        for s in self.inside:
            offset, stride = self._place(s.access, indices, u)
            self.store_access(s.access, values[s.arg], offset, stride, self.masks[u])
        return [
            combine(step.how, totals[k], values[step.arg].to(step.dtype))
            for k, step in self.reductions.items()
        ]

    def _place(self, access: int, indices: list[I64], u: int) -> tuple[I64, I64]:
        """The offset of a vector in an array, and the array's stride along the columns."""
        strides = self.strides[access]
        return self.dot([*self.indices, *indices, self.columns[u]], strides), strides[-1]
