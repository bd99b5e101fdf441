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
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.random_bits import random_streams
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector, pairs, renamed
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, reductions_of
from gradwalk.compiler.plan.loop_nest import (
    Apply,
    Load,
    Loops,
    Number,
    Pick,
    Position,
    Reduce,
    Sample,
    Store,
)

LONGEST_SCRATCH = 4096  # elements of a row kept on the stack; longer rows are computed again
UNROLLED = 4  # vectors of a block where the work per vector is short
SHORT_BODY = 8  # steps up to which it is


class _Kept(NamedTuple):
    """Where a value lies that one phase keeps for a later one: in an array that is stored anyway,
    or in scratch memory."""

    access: int | None
    scratch: str = ""


class Rows(LoopsBuilder):
    """The kernel of some loops whose reductions, if any, run along the row."""

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(loops, vector_bytes)
        self.varies = loops.varies()
        self.phases = loops.phases()
        self.order = loops.sum_order()
        self.inner = len(loops.outer) + len(loops.row) - 1  # the vectorized loop
        self.lanes = 1 if loops.row[-1] == 1 else vector_bytes // self.order.width
        self.mask: str | None = None
        self.all_reductions = reductions_of(self.steps)
        self.indices: list[I64] = []  # of the outer loops
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
        self.random = random_streams(self, loops, self.lanes)  # before all loops
        self.kept = self._kept_rows()
        if loops.outer:
            sizes = self.outer_sizes()
            with self.loop(*self.share(self.multiply_all(sizes))) as row:
                self.indices = self.unravel(row.index, sizes)
                self._row(0, self.lengths[-1])
        elif loops.reduces or len(loops.row) > 1 or self.lanes == 1:  # one row, or one number
            with self.when(self.set("icmp eq i64 %thread, 0")):
                self._row(0, self.lengths[-1])
        else:
            self._row(*self.share(self.lengths[-1], unit=4 * self.lanes))
        return self.kernel()

    def _row(self, first: I64, end: I64) -> None:
        self.numbers = {}
        self.starts = [self.dot(self.indices, strides) for strides in self.strides]
        for phase in range(max(self.phases, default=0) + 1):
            for k in range(len(self.steps)):
                if not self.varies[k] and self.phases[k] == phase and k not in self.numbers:
                    self._compute_number(k)
            self._phase(phase, first, end)
        for k, step in enumerate(self.steps):
            if isinstance(step, Store) and not self.varies[k]:
                dtype = self.loops.accesses[step.access].dtype
                self.store(self.numbers[step.arg].to(dtype), self._start(step.access, dtype))

    def _start(self, access: int, dtype: np.dtype[Any], *more: I64) -> str:
        """The address of an array's first element in this row."""
        return self.element(self.bases[access], dtype, self.starts[access], *more)

    def _compute_number(self, k: int) -> None:
        """Compute a value that is one per row."""
        step, numbers = self.steps[k], self.numbers
        match step:
            case Load(access, dtype):
                numbers[k] = self.load(self._start(access, dtype), Type(dtype))
            case Pick(access, _, dtype):
                offset = self._picked_offset(k, step, numbers)
                numbers[k] = self.load(self._start(access, dtype, offset.text), Type(dtype))
            case Number(value, dtype):
                numbers[k] = Vector(self, Type(dtype), Type(dtype).constant(value))
            case Position(dimension):
                numbers[k] = Vector(self, INT64, self.indices[dimension])
            case Apply():
                numbers[k] = self.apply(step, numbers.__getitem__, 1)
            case Sample(access, _, args):
                chances = [numbers[a] for a in args]
                numbers[k] = self.random[k].numbers(self.starts[access], 0, 1, chances)

    # -- one pass over the row ---------------------------------------------------------------------

    def _kept_rows(self) -> dict[int, _Kept]:
        """The values that one phase keeps for a later one, by step."""
        kept: dict[int, _Kept] = {}
        size = math.prod(self.loops.row)
        if not any(self.phases) or len(self.loops.row) > 1:
            return kept
        for k in self._needed_later():
            dtype = self.steps[k].dtype  # type: ignore[union-attr]
            stored = [
                s.access
                for s in self.steps
                if isinstance(s, Store)
                and s.arg == k
                and self.loops.accesses[s.access].dtype == dtype
            ]
            if stored:
                kept[k] = _Kept(stored[0])
            elif size <= LONGEST_SCRATCH and not self._is_cheap(k):
                room = size + self.lanes  # for a whole last vector
                scratch = self.set(f"alloca {Type(dtype).element}, i64 {room}, align 64")
                kept[k] = _Kept(None, scratch)
        return kept

    def _needed_later(self) -> list[int]:
        """Steps whose value along the row a later phase needs."""
        needed: dict[int, None] = {}
        for k, step in enumerate(self.steps):
            if isinstance(step, (Apply, Reduce, Store)) and self.varies[k]:
                args = step.args if isinstance(step, Apply) else (step.arg,)
                for a in args:
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
        self.scratch = {
            k: kept.scratch
            for k, kept in self.kept.items()
            if kept.access is None and self.phases[k] == phase
        }
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
        with self.loop(0, self.lengths[len(indices)], carried=pairs(given)) as loop:
            inside = renamed(given, loop.carried)
            totals = self._nest([*indices, loop.index], inside, first, end)
            loop.carry(*(v.text for v in totals))
        return renamed(given, loop.results)

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
            carried = pairs(accumulators)
            with self.loop(first, end, step, carried, at_least_once=length_known) as loop:
                inside = renamed(accumulators, loop.carried)
                loop.carry(*(v.text for v in vectors(loop.index, inside)))
            totals = renamed(accumulators, loop.results)
        hows = [s.how for s in self.reductions.values()]
        sums = totals[:count]
        for u in range(1, unrolled):
            part = totals[u * count : (u + 1) * count]
            sums = [combine(how, a, b) for how, a, b in zip(hows, sums, part, strict=True)]
        return sums

    # -- one vector --------------------------------------------------------------------------------

    def _vector(self, index: I64, accumulators: list[Vector], mask: str | None) -> list[Vector]:
        """Compute, reduce and store at one place of the row; returns the new accumulators."""
        self.values: dict[int, Vector] = {}
        self.at, self.mask = index, mask
        totals = []
        for step, total in zip(self.reductions.values(), accumulators, strict=True):
            value = self._value(step.arg).to(total.type.dtype)
            if mask is not None:
                kept = Vector(self, value.type.of(np.bool_), mask)
                value = kept.choose(value, value.constant(identity(step.how, total.type.dtype)))
            totals.append(combine(step.how, total, value))
        for k, scratch in self.scratch.items():
            value = self._value(k)
            self.store(value, self.element(scratch, value.type.dtype, index))
        # All is read before anything is written: one of these may be the memory of another.
        for access, value in [(s.access, self._value(s.arg)) for s in self.stores]:
            self.store_access(access, value, *self._place(access), mask)
        return totals

    def _value(self, k: int) -> Vector:
        """The value of a step at this place, in all lanes."""
        if k not in self.values:
            self.values[k] = self._compute(k)
        return self.values[k]

    def _compute(self, k: int) -> Vector:
        if not self.varies[k]:
            return self.numbers[k].spread(self.lanes)
        step = self.steps[k]
        if k in self.kept and self.phases[k] < self.phase:
            kind, kept = Type(step.dtype, self.lanes), self.kept[k]  # type: ignore[union-attr]
            if kept.access is None:
                return self.load(self.element(kept.scratch, kind.dtype, self.at), kind)
            return self.load_access(kept.access, kind.dtype, *self._place(kept.access), self.mask)
        match step:
            case Load(access, dtype):
                return self.load_access(access, dtype, *self._place(access), self.mask)
            case Pick():
                return self._pick(k, step)
            case Position(dimension):
                index = [*self.row_indices, self.at][dimension - len(self.loops.outer)]
                return self.position(index, dimension == self.inner)
            case Apply():
                return self.apply(step, self._value, self.lanes, self.mask)
            case Sample(access, _, args):
                chances = [self._value(a) for a in args]
                return self.random[k].numbers(*self._place(access), self.lanes, chances)
        raise TypeError(f"{step} has no value along the row")

    def _place(self, access: int) -> tuple[I64, I64]:
        """The offset of this place in an array, and the array's stride along the row."""
        strides = self.strides[access][len(self.loops.outer) :]
        inside = self.dot([*self.row_indices, self.at], strides)
        return self.add(self.starts[access], inside), strides[-1]

    def _pick(self, k: int, step: Pick) -> Vector:
        """Elements at indices that were loaded: one after the other, or gathered."""
        apart = any(self.varies[p.index] for p in step.picked)
        read: Callable[[int], Vector] = self._value if apart else self.numbers.__getitem__
        given = {p.index: read(p.index) for p in step.picked}
        start, stride = self._place(step.access)
        pointer = self.element(self.bases[step.access], step.dtype, start)
        offset = self._picked_offset(k, step, given)
        kind = Type(step.dtype, self.lanes)
        if not apart or self.lanes == 1:
            pointer = self.element(pointer, step.dtype, offset.text)
            return self.load_along(pointer, stride, kind, self.mask)
        if stride != 0:
            offset = offset + self.lane_offsets(stride, self.lanes)
        return self.gather(pointer, offset, kind, self.mask)

    def _picked_offset(self, k: int, step: Pick, given: dict[int, Vector]) -> Vector:
        """How many elements further the indices lead."""
        parts = []
        for number, p in enumerate(step.picked):
            stride, length = self.pick_sizes[k, number]
            index = self.checked_index(given[p.index].to(np.int64), length, self.mask)
            parts.append(index * Vector(self, INT64, stride).spread(index.type.lanes))
        return functools.reduce(Vector.__add__, parts)


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
