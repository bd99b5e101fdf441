"""Columns: reductions that keep the innermost dimension, such as the gradient of a bias.

Each thread takes some blocks of columns, a few vectors wide, and goes through all rows with one
accumulator per vector: every column is added up from the first row to the last, as in NumPy. What
is computed on the way may be stored as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Vector
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, combine
from gradwalk.compiler.plan.loop_nest import Apply, Load, Loops, Store

WIDEST = 4  # vectors in a block of columns


class Columns(LoopsBuilder):
    """The kernel of some loops with `reduced` dimensions."""

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(loops, vector_bytes)
        stores = [s for s in self.steps if isinstance(s, Store)]
        self.inside = [s for s in stores if s.arg not in self.reductions]
        self.at_end = [s for s in stores if s.arg in self.reductions]
        self.inner: list[I64] = []  # indices of the reduced loops
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
        columns = [self.add(column, u * self.lanes) for u in range(self.width)]
        self.vectors = list(zip(columns, masks, strict=True))
        given = [self.identity(s) for _ in range(self.width) for s in self.reductions.values()]
        totals = self._nest([], given)
        self.inner = [0 for _ in self.reduced]
        for values in self._each_vector(totals):
            for s in self.at_end:
                self.store_access(s, values[s.arg])

    def _each_vector(self, totals: list[Vector]) -> Iterator[dict[int, Vector]]:
        """Go to each vector of the block in turn; yield its accumulators by reduction."""
        count = len(self.reductions)
        for u, (column, mask) in enumerate(self.vectors):
            self.column, self.mask = column, mask
            yield dict(zip(self.reductions, totals[u * count : (u + 1) * count], strict=True))

    def _nest(self, inner: list[I64], given: list[Vector]) -> list[Vector]:
        """The loops over what is reduced; returns the accumulators."""
        if len(inner) == len(self.reduced):
            self.inner = inner
            return [v for totals in self._each_vector(given) for v in self._vector(totals)]
        with self.loop(0, self.reduced[len(inner)], carried=given) as loop:
            loop.carry(*self._nest([*inner, loop.index], loop.carried))
        return loop.results

    def _vector(self, totals: dict[int, Vector]) -> list[Vector]:
        """Compute, store and reduce one vector; returns its new accumulators."""
        self.values = {}
        for k, step in enumerate(self.steps):
            if isinstance(step, (Load, Apply)):
                self.value(k)
        for s in self.inside:
            self.store_access(s, self.value(s.arg))
        return [
            combine(step.how, totals[k], self.value(step.arg).to(step.dtype))
            for k, step in self.reductions.items()
        ]

    def place(self, access: int) -> tuple[I64, I64]:
        strides = self.strides[access]
        return self.dot([*self.indices, *self.inner, self.column], strides), strides[-1]
