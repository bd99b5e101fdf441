"""Rows: kernels that run along rows, in one pass or, where reductions are used again, in several.

For each row of the outer loops (shared among the threads) the kernel goes through the row once per
phase: phase 0 reads arrays and reduces, phase 1 may use what was reduced, and so on; softmax has
three. A value that a later phase needs is computed again if that is cheap, read back if it was
stored anyway, and otherwise kept in a row of scratch memory on the stack.

The row is taken in vectors: blocks of several with accumulators of their own (sums in a fixed
order: lanes, then accumulators, then a tree over the lanes), single vectors, a masked rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.random_bits import RandomStream
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, combine, identity
from gradwalk.compiler.plan.loop_nest import (
    Apply,
    Loops,
    Pick,
    Reduce,
    Sample,
    Step,
    Store,
    operands_of,
)

LONGEST_SCRATCH = 4096  # elements of a row kept on the stack; longer rows are computed again
UNROLLED = 4  # vectors of a block where the work per vector is short
SHORT_BODY = 8  # steps up to which it is


class Rows(LoopsBuilder):
    """The kernel of some loops whose reductions, if any, run along the row."""

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(loops, vector_bytes)
        self.phases = loops.phases()
        self.order = loops.sum_order()
        self.inner = len(loops.outer) + len(loops.row) - 1  # the vectorized loop
        self.lanes = 1 if loops.row[-1] == 1 else vector_bytes // self.order.width
        self.all_reductions = self.reductions
        self.indices: list[I64] = []  # of the outer loops
        self.row_indices: list[I64] = []  # of the loops of the row but the last, which is at `at`
        self.at: I64 = 0
        self.numbers: dict[int, Vector] = {}  # values that are one per row, once computed

    # -- the frame: threads, outer loops, phases ---------------------------------------------------

    def write(self) -> Kernel:
        """The kernel; threads share rows, or parts of a single row without reductions."""
        loops, outer = self.loops, len(self.loops.outer)
        self.lengths: list[I64] = [
            n if loops.bakes_row else self.size(outer + d) for d, n in enumerate(loops.row)
        ]
        self.strides = self.read_strides(self.inner)
        self.pick_sizes: dict[tuple[int, int], tuple[str, str]] = {}  # stride and length
        for k, step in enumerate(self.steps):
            for number in range(len(step.picked) if isinstance(step, Pick) else 0):
                place = loops.size_of_pick(k, number)
                self.pick_sizes[k, number] = self.size(place), self.size(place + 1)
        self.random = {  # before all loops
            k: RandomStream(
                self, loops, s, self.bases[s.access], self.size(loops.size_of_skip(k)), self.lanes
            )
            for k, s in enumerate(self.steps)
            if isinstance(s, Sample)
        }
        self._keep_rows()
        if loops.outer:
            sizes = self.outer_sizes()
            with self.loop(*self.share(self.multiply_all(sizes))) as row:
                self.indices = self.unravel(row.index, sizes)
                self._row(0, self.lengths[-1])
        elif loops.reduces or len(loops.row) > 1 or self.lanes == 1:  # one row, or one number
            with self.when(self.compare("eq", "%thread", 0)):
                self._row(0, self.lengths[-1])
        else:
            self._row(*self.share(self.lengths[-1], unit=4 * self.lanes))
        return self.kernel()

    def _row(self, first: I64, end: I64) -> None:
        self.numbers = {}
        self.starts = [self.dot(self.indices, strides) for strides in self.strides]
        for phase in range(max(self.phases, default=0) + 1):
            with self._one_per_row():
                for k, step in enumerate(self.steps):
                    known = k in self.numbers or isinstance(step, (Reduce, Store))
                    if not (known or self.varies[k]) and self.phases[k] == phase:
                        self.numbers[k] = self.compute(k, step)
            self._phase(phase, first, end)
        with self._one_per_row():
            for k, step in enumerate(self.steps):
                if isinstance(step, Store) and not self.varies[k]:
                    self.store_access(step, self.numbers[step.arg])

    @contextmanager
    def _one_per_row(self) -> Iterator[None]:
        """Compute single numbers, at the beginning of the row."""
        lanes, self.lanes, self.mask, self.values = self.lanes, 1, None, {}
        self.at, self.row_indices = 0, [0] * (len(self.loops.row) - 1)
        yield
        self.lanes = lanes

    # -- one pass over the row ---------------------------------------------------------------------

    def _keep_rows(self) -> None:
        """Decide what one phase keeps for a later one, and where: in an array that is stored
        anyway, or in scratch memory."""
        self.stored: dict[int, int] = {}  # accesses, by step
        self.kept: dict[int, str] = {}  # scratch memory
        if not any(self.phases) or len(self.loops.row) > 1:
            return
        (size,) = self.loops.row
        arrays = self.loops.accesses
        stores = [s for s in self.steps if isinstance(s, Store)]
        for k in self._needed_later():
            dtype = self.steps[k].dtype  # type: ignore[union-attr]
            whole = [s.access for s in stores if s.arg == k and arrays[s.access].dtype == dtype]
            if whole:
                self.stored[k] = whole[0]
            elif size <= LONGEST_SCRATCH and not self._is_cheap(k):
                room = size + self.lanes  # for a whole last vector
                self.kept[k] = self.set(f"alloca {Type(dtype).element}, i64 {room}, align 64")

    def _needed_later(self) -> list[int]:
        """Steps whose value along the row a later phase needs."""
        needed: dict[int, None] = {}
        for k, step in enumerate(self.steps):
            if isinstance(step, (Apply, Reduce, Store)) and self.varies[k]:
                for a in operands_of(step):
                    earlier = self.phases[a] < self.phases[k] and self.varies[a]
                    if earlier and isinstance(self.steps[a], (Apply, Sample)):
                        needed[a] = None
            if isinstance(step, Reduce) and self.phases[step.arg] < self.phases[k] - 1:
                needed[step.arg] = None
        return list(needed)

    def _is_cheap(self, k: int, depth: int = 0) -> bool:
        """Whether computing a value again costs less than reading it back."""
        step = self.steps[k]
        if not isinstance(step, Apply) or not self.varies[k]:
            return not isinstance(step, Sample) or not self.varies[k]
        return (
            depth < 3 and is_cheap(step.op) and all(self._is_cheap(a, depth + 1) for a in step.args)
        )

    def _phase(self, phase: int, first: I64, end: I64) -> None:
        """One pass: the reductions, stores and kept values that belong to this phase."""
        self.phase = phase
        self.reductions = {
            k: step for k, step in self.all_reductions.items() if self.phases[k] == phase + 1
        }
        self.stores = [
            step
            for k, step in enumerate(self.steps)
            if isinstance(step, Store) and self.varies[k] and self.phases[k] == phase
        ]
        self.scratch = {k: row for k, row in self.kept.items() if self.phases[k] == phase}
        if not self.reductions and not self.stores and not self.scratch:
            return
        totals = self._nest([], [self.identity(s) for s in self.reductions.values()], first, end)
        for (k, step), total in zip(self.reductions.items(), totals, strict=True):
            self.numbers[k] = _across(step.how, total)

    def _nest(self, indices: list[I64], given: list[Vector], first: I64, end: I64) -> list[Vector]:
        """The loops of the row, the innermost in vectors; returns the accumulators."""
        if len(indices) == len(self.loops.row) - 1:
            self.row_indices = indices
            return self._vectors(given, first, end)
        with self.loop(0, self.lengths[len(indices)], carried=given) as loop:
            loop.carry(*self._nest([*indices, loop.index], loop.carried, first, end))
        return loop.results

    def _vectors(self, totals: list[Vector], first: I64, end: I64) -> list[Vector]:
        lanes = self.lanes
        if not isinstance(end, int):  # one stretch of any length, and no reductions
            if lanes == 1:
                return self._run(totals, first, end, 1)
            rest = self.set(f"urem i64 {self.subtract(end, first)}, {lanes}")
            middle = self.subtract(end, rest)
            self._run(totals, first, middle, 1)
            with self.when(self.differ(rest, 0)):
                self._vector(middle, totals, self.first_lanes(rest, lanes))
            return totals
        unrolled = UNROLLED if totals and self.order.body <= SHORT_BODY else 1
        block = unrolled * lanes
        blocks = end // block * block if unrolled > 1 else 0
        singles = end // lanes * lanes
        if blocks:
            totals = self._run(totals, 0, blocks, unrolled)
        if singles > blocks:
            totals = self._run(totals, blocks, singles, 1)
        if singles < end:
            totals = self._vector(singles, totals, self.first_lanes(end - singles, lanes))
        return totals

    def _run(self, given: list[Vector], first: I64, end: I64, unrolled: int) -> list[Vector]:
        """Whole vectors from `first` to `end`, `unrolled` in each iteration."""
        step, count = unrolled * self.lanes, len(given)
        extra = [self.identity(s) for s in self.reductions.values()] * (unrolled - 1)
        accumulators = [*given, *extra]

        def vectors(index: I64, inside: list[Vector]) -> list[Vector]:
            totals: list[Vector] = []
            for u in range(unrolled):
                at = self.add(index, u * self.lanes)
                totals += self._vector(at, inside[u * count : (u + 1) * count], None)
            return totals

        length_known = isinstance(first, int) and isinstance(end, int)
        if isinstance(first, int) and end == first + step:
            totals = vectors(first, accumulators)
        else:
            with self.loop(first, end, step, accumulators, at_least_once=length_known) as loop:
                loop.carry(*vectors(loop.index, loop.carried))
            totals = loop.results
        hows = [s.how for s in self.reductions.values()]
        sums = totals[:count]
        for u in range(1, unrolled):
            part = totals[u * count : (u + 1) * count]
            sums = [combine(how, a, b) for how, a, b in zip(hows, sums, part, strict=True)]
        return sums

    # -- one vector --------------------------------------------------------------------------------

    def _vector(self, index: I64, accumulators: list[Vector], mask: str | None) -> list[Vector]:
        """Compute, reduce and store at one place of the row; returns the new accumulators."""
        self.values = {}
        self.at, self.mask = index, mask
        totals = []
        for step, total in zip(self.reductions.values(), accumulators, strict=True):
            value = self.value(step.arg).to(total.type.dtype)
            if mask is not None:
                kept = Vector(self, value.type.of(np.bool_), mask)
                value = kept.choose(value, value.constant(identity(step.how, total.type.dtype)))
            totals.append(combine(step.how, total, value))
        for k, scratch in self.scratch.items():
            value = self.value(k)
            self.store(value, self.element(scratch, value.type.dtype, index))
        # All is read before anything is written: one of these may be the memory of another.
        for store, value in [(s, self.value(s.arg)) for s in self.stores]:
            self.store_access(store, value)
        return totals

    def compute(self, k: int, step: Step) -> Vector:
        if k in self.numbers:
            return self.numbers[k].spread(self.lanes)
        if k in self.stored and self.phases[k] < self.phase:
            return self.load_access(self.stored[k], step.dtype)  # type: ignore[union-attr]
        if k in self.kept and self.phases[k] < self.phase:
            kind = Type(step.dtype, self.lanes)  # type: ignore[union-attr]
            return self.load(self.element(self.kept[k], kind.dtype, self.at), kind)
        match step:
            case Pick():
                return self._pick(k, step)
            case Sample(access, _, args):
                chances = [self.value(a) for a in args]
                return self.random[k].numbers(*self.place(access), self.lanes, chances)
        return super().compute(k, step)

    def position(self, dimension: int) -> Vector:
        index = [*self.indices, *self.row_indices, self.at][dimension]
        return self.index(index, dimension == self.inner)

    def place(self, access: int) -> tuple[I64, I64]:
        strides = self.strides[access][len(self.loops.outer) :]
        inside = self.dot([*self.row_indices, self.at], strides)
        return self.add(self.starts[access], inside), strides[-1]

    def _pick(self, k: int, step: Pick) -> Vector:
        """Elements at indices that were loaded: one after the other, or gathered."""
        apart = any(self.varies[p.index] for p in step.picked)
        read: Callable[[int], Vector] = self.value if apart else self.numbers.__getitem__
        given = [read(p.index) for p in step.picked]
        start, stride = self.place(step.access)
        pointer = self.element(self.bases[step.access], step.dtype, start)
        parts = []
        for number, index in enumerate(given):
            size, length = self.pick_sizes[k, number]
            index = self.checked_index(index.to(np.int64), length, self.mask)
            parts.append(index * Vector(self, INT64, size).spread(index.type.lanes))
        offset = functools.reduce(Vector.__add__, parts)
        kind = Type(step.dtype, self.lanes)
        if not apart or self.lanes == 1:
            pointer = self.element(pointer, step.dtype, offset.text)
            return self.load_along(pointer, stride, kind, self.mask)
        if stride != 0:
            offset = offset + self.lane_offsets(stride, self.lanes)
        return self.gather(pointer, offset, kind, self.mask)


def _across(how: str, value: Vector) -> Vector:
    """All lanes as one number, halves first."""
    lanes = value.type.lanes
    while lanes > 1:
        lanes //= 2
        if lanes > 1:
            halves = [value.shuffled(range(start, start + lanes)) for start in (0, lanes)]
        else:
            halves = [value.lane(0), value.lane(1)]
        value = combine(how, *halves)
    return value
