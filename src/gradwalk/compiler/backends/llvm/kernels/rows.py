"""Rows: kernels that run along rows, in one pass or, where reductions are used again, in several.

For each row of the outer loops (shared out among the threads) the row is gone through once per
phase: phase 0 reads arrays and reduces, phase 1 may use what was reduced, and so on; softmax has
three. A value that a later phase needs again is computed again if that is cheap, read back if it
was stored anyway, and otherwise kept in a row of scratch memory on the stack.

The row is taken in vectors: blocks of several with accumulators of their own (sums in a fixed
order: lanes, then accumulators, then a tree over the lanes), single vectors, a masked rest.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap
from gradwalk.compiler.backends.llvm.emit.function_text import Loop
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    apply_op,
    checked_index,
    element_pointer,
    first_lanes,
    gather,
    kernel_like,
    lanes_for,
    load,
    load_along,
    store,
    store_along,
)
from gradwalk.compiler.backends.llvm.emit.random_bits import drawings
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

LONGEST_SCRATCH = 4096  # elements of a row kept on the stack; longer rows are computed again
UNROLLED = 4  # vectors of a block where the work per vector is short
SHORT_BODY = 8  # steps up to which it is


def rows_kernel(loops: Loops, vector_bytes: int) -> Kernel:
    """The kernel of some loops whose reductions, if any, run along the row."""
    return kernel_like(loops, vector_bytes, lambda: _Rows(loops, vector_bytes).write())


class _Rows:
    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        self.loops = loops
        self.steps = loops.steps
        self.varies = loops.varies()
        self.phases = loops.phases()
        self.last_phase = max(self.phases, default=0)
        moving = [
            step.dtype
            for step, varies in zip(self.steps, self.varies, strict=True)
            if varies and not isinstance(step, Store)
        ]
        self.inner = len(loops.outer) + len(loops.row) - 1  # the vectorised loop
        length = loops.row[-1]
        self.lanes = 1 if length == 1 else lanes_for(moving, vector_bytes)
        self.f = KernelWriter(len(loops.accesses))
        self.mask: str | None = None
        self.numbers: dict[int, Value] = {}  # values that are one per row, once computed
        self.baked = loops.bakes_row

    # -- the frame: threads, outer loops, phases ---------------------------------------------------

    def write(self) -> Kernel:
        f, loops = self.f, self.loops
        outer = len(loops.outer)
        self.lengths = [
            str(n) if self.baked else f.size(outer + d) for d, n in enumerate(loops.row)
        ]
        self.strides = [self._strides(a, access.strides) for a, access in enumerate(loops.accesses)]
        self.pick_sizes = self._pick_sizes()
        self.draws = drawings(f, loops, self.lanes)  # before all loops
        self.kept = self._kept_rows()
        self.indices: list[str] = []
        if loops.outer:
            sizes = [f.size(d) for d in range(outer)]
            count = functools.reduce(f.multiply, sizes)
            first, end = f.share(count)
            with f.loop(first, end) as row:
                self.indices = self._apart(row.index, sizes)
                self._row("0", self.lengths[-1])
        elif loops.reduces or len(loops.row) > 1 or self.lanes == 1:  # one row, or one number
            mine = f.set("icmp eq i64 %thread, 0")
            with f.when(mine):
                self._row("0", self.lengths[-1])
        else:
            first, end = f.share(self.lengths[-1], unit=4 * self.lanes)
            self._row(first, end)
        return f.kernel()

    def _strides(self, access: int, strides: tuple[int, ...]) -> list[str]:
        """Strides as text: 0 and, along the row, 1 are written in; the others are read."""
        return [
            str(s)
            if s == 0 or (s == 1 and d == self.inner)
            else self.f.size(self.loops.size_of_stride(access, d))
            for d, s in enumerate(strides)
        ]

    def _pick_sizes(self) -> dict[tuple[int, int], tuple[str, str]]:
        """Stride and length of every picked index."""
        found = {}
        for k, step in enumerate(self.steps):
            for number in range(len(step.picked) if isinstance(step, Pick) else 0):
                place = self.loops.size_of_pick(k, number)
                found[k, number] = self.f.size(place), self.f.size(place + 1)
        return found

    def _apart(self, row: str, sizes: list[str]) -> list[str]:
        """The index of each outer loop from the number of the row."""
        found = []
        for size in reversed(sizes[1:]):
            found.append(self.f.set(f"urem i64 {row}, {size}"))
            row = self.f.set(f"udiv i64 {row}, {size}")
        return [row, *reversed(found)]

    def _row(self, first: str, end: str) -> None:
        self.numbers = {}
        f = self.f
        self.starts = [
            f.add(*(f.multiply(i, s) for i, s in zip(self.indices, strides)))
            for strides in self.strides
        ]
        for phase in range(self.last_phase + 1):
            self._numbers_of(phase)
            self._phase(phase, first, end)
        for k, step in enumerate(self.steps):
            if isinstance(step, Store) and not self.varies[k]:
                self._store_number(step)

    def _numbers_of(self, phase: int) -> None:
        """The values of this phase that are one per row."""
        f = self.f
        for k, step in enumerate(self.steps):
            if self.varies[k] or self.phases[k] != phase or k in self.numbers:
                continue
            match step:
                case Load(access, dtype):
                    place = element_pointer(f, f.bases[access], dtype, self.starts[access])
                    self.numbers[k] = load(f, place, Kind(dtype))
                case Pick(access, _, dtype):
                    offset = self._picked_offset(k, step, self.numbers)
                    start = f.add(self.starts[access], offset.text)
                    place = element_pointer(f, f.bases[access], dtype, start)
                    self.numbers[k] = load(f, place, Kind(dtype))
                case Number(value, dtype):
                    self.numbers[k] = Value(f, Kind(dtype), Kind(dtype).constant(value))
                case Position(dimension):
                    self.numbers[k] = Value(f, Kind(np.dtype(np.int64)), self.indices[dimension])
                case Apply(op, args, attrs, dtype):
                    given = [self._argument(a, self.numbers[a]) for a in args]
                    self.numbers[k] = apply_op(f, op, given, dict(attrs), dtype, 1)
                case Draw(access, _, args):
                    chances = [self.numbers[a] for a in args]
                    self.numbers[k] = self.draws[k].numbers(self.starts[access], "0", 1, chances)

    def _argument(self, step: int, value: Value) -> Any:
        """A constant stays a Python number, so that a spelling may look at it."""
        found = self.steps[step]
        return found.value if isinstance(found, Number) else value

    def _store_number(self, step: Store) -> None:
        access = self.loops.accesses[step.access]
        place = element_pointer(
            self.f, self.f.bases[step.access], access.dtype, self.starts[step.access]
        )
        store(self.f, self.numbers[step.arg].to(access.dtype), place)

    # -- one pass over the row ---------------------------------------------------------------------

    def _kept_rows(self) -> dict[int, tuple[str, int]]:
        """Values kept from one phase for a later one: step -> (base, access or -1 for scratch)."""
        kept: dict[int, tuple[str, int]] = {}
        size = math.prod(self.loops.row)
        if not self.last_phase or len(self.loops.row) > 1:
            return kept
        for k in self._needed_later():
            stored = [
                s.access
                for s in self.steps
                if isinstance(s, Store) and s.arg == k
                and self.loops.accesses[s.access].dtype == self.steps[k].dtype  # type: ignore[union-attr]
            ]  # fmt: skip
            if stored:
                kept[k] = self.f.bases[stored[0]], stored[0]
            elif size <= LONGEST_SCRATCH and not self._is_cheap(k):
                kind = Kind(self.steps[k].dtype)  # type: ignore[union-attr]
                room = size + self.lanes
                kept[k] = self.f.set(f"alloca {kind.element}, i64 {room}, align 64"), -1
        return kept

    def _needed_later(self) -> list[int]:
        """Steps of which a later phase asks for the value along the row."""
        found: dict[int, None] = {}
        for k, step in enumerate(self.steps):
            if isinstance(step, (Apply, Reduce, Store)) and self.varies[k]:
                args = step.args if isinstance(step, Apply) else (step.arg,)
                for a in args:
                    earlier = self.phases[a] < self.phases[k] and self.varies[a]
                    if earlier and isinstance(self.steps[a], (Apply, Draw)):
                        found[a] = None
            if isinstance(step, Reduce) and self.phases[step.arg] < self.phases[k] - 1:
                found[step.arg] = None
        return list(found)

    def _is_cheap(self, k: int, depth: int = 0) -> bool:
        """Whether computing a value again costs less than reading it back."""
        step = self.steps[k]
        if not isinstance(step, Apply) or not self.varies[k]:
            return not isinstance(step, Draw) or not self.varies[k]
        return (
            depth < 3 and is_cheap(step.op) and all(self._is_cheap(a, depth + 1) for a in step.args)
        )

    def _targets(self, phase: int) -> tuple[list[int], list[int]]:
        """What this pass is for: steps to reduce, and steps to store (or keep)."""
        reductions = [
            k
            for k, step in enumerate(self.steps)
            if isinstance(step, Reduce) and self.phases[k] == phase + 1
        ]
        stores = [
            k
            for k, step in enumerate(self.steps)
            if isinstance(step, Store) and self.varies[k] and self.phases[k] == phase
        ]
        return reductions, stores

    def _phase(self, phase: int, first: str, end: str) -> None:
        reductions, stores = self._targets(phase)
        scratch = [k for k, (_, a) in self.kept.items() if a < 0 and self.phases[k] == phase]
        if not reductions and not stores and not scratch:
            return
        self.phase, self.reductions, self.stores, self.scratch = phase, reductions, stores, scratch
        start = [self._identity(k) for k in reductions]
        totals = self._nest(len(self.loops.outer), [], start, first, end)
        for k, total in zip(reductions, totals, strict=True):
            self.numbers[k] = self._across(self.steps[k].how, total)  # type: ignore[union-attr]

    def _nest(
        self, dimension: int, indices: list[str], given: list[Value], first: str, end: str
    ) -> list[Value]:
        """The loops of the row, the innermost in vectors; returns the accumulators."""
        if dimension == self.inner:
            return self._vectors(indices, given, first, end)
        f = self.f
        carried = [(v.kind.text, v.text) for v in given]
        length = self.lengths[dimension - len(self.loops.outer)]
        with f.loop("0", length, carried=carried) as loop:
            inside = [Value(f, v.kind, t) for v, t in zip(given, loop.carried, strict=True)]
            found = self._nest(dimension + 1, [*indices, loop.index], inside, first, end)
            loop.carry(*(v.text for v in found))
        return [Value(f, v.kind, t) for v, t in zip(given, loop.results, strict=True)]

    def _vectors(self, indices: list[str], given: list[Value], first: str, end: str) -> list[Value]:
        f, lanes = self.f, self.lanes
        work = sum(1 for s, v in zip(self.steps, self.varies, strict=True) if v)
        unrolled = UNROLLED if given and work <= SHORT_BODY else 1
        totals = given
        if not self.baked:
            whole = f.set(f"sub i64 {end}, {first}")
            rest = f.set(f"urem i64 {whole}, {lanes}") if lanes > 1 else "0"
            middle = f.set(f"sub i64 {end}, {rest}") if lanes > 1 else end
            totals = self._run(indices, totals, first, middle, 1)
            if lanes > 1:
                some = f.set(f"icmp ne i64 {rest}, 0")
                with f.when(some):  # without reductions: nothing is carried out of it
                    self._turn(indices, middle, totals, first_lanes(f, rest, lanes))
            return totals
        length = int(end)
        block = unrolled * lanes
        blocks = length // block * block
        singles = length // lanes * lanes
        if blocks and unrolled > 1:
            totals = self._run(indices, totals, "0", str(blocks), unrolled)
        else:
            blocks = 0
        if singles > blocks:
            totals = self._run(indices, totals, str(blocks), str(singles), 1)
        if singles < length:
            mask = first_lanes(f, str(length - singles), lanes)
            totals = self._turn(indices, str(singles), totals, mask)
        return totals

    def _run(
        self, indices: list[str], given: list[Value], first: str, end: str, unrolled: int
    ) -> list[Value]:
        """Whole vectors from `first` to `end`, `unrolled` in each turn."""
        f, lanes = self.f, self.lanes
        extra = [self._identity(k) for k in self.reductions] * (unrolled - 1)
        accumulators = [*given, *extra]
        carried = [(v.kind.text, v.text) for v in accumulators]
        once = first.isdigit() and end.isdigit()
        if once and int(end) - int(first) == unrolled * lanes:
            found = self._turns(indices, first, accumulators, unrolled)
        else:
            step = str(unrolled * lanes)
            with f.loop(first, end, step, carried, at_least_once=once) as loop:
                inside = self._carried(accumulators, loop)
                found = self._turns(indices, loop.index, inside, unrolled)
                loop.carry(*(v.text for v in found))
            found = [Value(f, v.kind, t) for v, t in zip(accumulators, loop.results, strict=True)]
        count = len(given)
        totals = found[:count]
        for u in range(1, unrolled):
            part = found[u * count : (u + 1) * count]
            totals = [self._both(k, a, b) for k, a, b in zip(self.reductions, totals, part)]
        return totals

    def _carried(self, accumulators: list[Value], loop: Loop) -> list[Value]:
        return [Value(self.f, v.kind, t) for v, t in zip(accumulators, loop.carried, strict=True)]

    def _turns(
        self, indices: list[str], index: str, accumulators: list[Value], unrolled: int
    ) -> list[Value]:
        count = len(self.reductions)
        found: list[Value] = []
        for u in range(unrolled):
            at = self.f.add(index, str(u * self.lanes))
            found += self._turn(indices, at, accumulators[u * count : (u + 1) * count], None)
        return found

    # -- one vector --------------------------------------------------------------------------------

    def _turn(
        self, indices: list[str], index: str, accumulators: list[Value], mask: str | None
    ) -> list[Value]:
        """Compute, reduce and store at one place of the row; returns the new accumulators."""
        self.values: dict[int, Value] = {}
        self.at, self.mask, self.row_indices = index, mask, [*indices, index]
        totals = []
        for k, total in zip(self.reductions, accumulators, strict=True):
            step = self.steps[k]
            assert isinstance(step, Reduce)
            value = self._value(step.arg).to(total.kind.dtype)
            if mask is not None:
                kept = Value(self.f, value.kind.of(np.bool_), mask)
                value = kept.choose(value, value.constant(identity(step.how, total.kind.dtype)))
            totals.append(self._both(k, total, value))
        for k in self.scratch:
            place = element_pointer(self.f, self.kept[k][0], self.steps[k].dtype, index)  # type: ignore[union-attr]
            store(self.f, self._value(k), place)  # room for a whole last vector is there
        # All is read before anything is written: one of these may be the memory of another.
        stores = [s for s in (self.steps[k] for k in self.stores) if isinstance(s, Store)]
        for step, value in [(s, self._value(s.arg)) for s in stores]:
            self._store(step.access, value)
        return totals

    def _value(self, k: int) -> Value:
        """The value of a step at this place, in all lanes."""
        found = self.values.get(k)
        if found is None:
            found = self.values[k] = self._compute(k)
        return found

    def _compute(self, k: int) -> Value:
        if not self.varies[k]:
            return self.numbers[k].spread(self.lanes)
        if k in self.kept and self.phases[k] < self.phase:
            base, access = self.kept[k]
            return self._read_back(k, base, access)
        step = self.steps[k]
        match step:
            case Load(access, dtype):
                return self._load(access, dtype)
            case Pick():
                return self._pick(k, step)
            case Position(dimension):
                kind = Kind(np.dtype(np.int64), self.lanes)
                place = self.row_indices[dimension - len(self.loops.outer)]
                spread = Value(self.f, Kind(kind.dtype), place).spread(self.lanes)
                if dimension != self.inner or self.lanes == 1:
                    return spread
                counted = ", ".join(f"i64 {i}" for i in range(self.lanes))
                return spread + Value(self.f, kind, f"<{counted}>")
            case Apply(op, args, attrs, dtype):
                given = [
                    a.value if isinstance(a := self.steps[i], Number) else self._value(i)
                    for i in args
                ]
                return apply_op(self.f, op, given, dict(attrs), dtype, self.lanes, self.mask)
            case Draw(access, _, args):
                at = self._offset(access), self.strides[access][-1], self.lanes
                return self.draws[k].numbers(*at, [self._value(a) for a in args])
        raise TypeError(f"{step} has no value along the row")

    def _read_back(self, k: int, base: str, access: int) -> Value:
        kind = Kind(self.steps[k].dtype, self.lanes)  # type: ignore[union-attr]
        if access >= 0:
            return self._load(access, kind.dtype)
        return load(self.f, element_pointer(self.f, base, kind.dtype, self.at), kind)

    def _offset(self, access: int) -> str:
        """How many elements lie between the start of an array and this place."""
        strides = self.strides[access][len(self.loops.outer) :]
        inside = [self.f.multiply(i, s) for i, s in zip(self.row_indices, strides)]
        return self.f.add(self.starts[access], *inside)

    def _place(self, access: int) -> tuple[str, str]:
        """The pointer to this place in an array, and the array's stride along the row."""
        f, dtype = self.f, self.loops.accesses[access].dtype
        place = element_pointer(f, f.bases[access], dtype, self._offset(access))
        return place, self.strides[access][-1]

    def _load(self, access: int, dtype: np.dtype[Any]) -> Value:
        pointer, stride = self._place(access)
        return load_along(self.f, pointer, stride, Kind(dtype, self.lanes), self.mask)

    def _pick(self, k: int, step: Pick) -> Value:
        """Elements at indices that were loaded: one after the other, or gathered."""
        f = self.f
        given = {
            p.index: self._value(p.index) if self.varies[p.index] else self.numbers[p.index]
            for p in step.picked
        }
        apart = any(self.varies[p.index] for p in step.picked)
        kind = Kind(step.dtype, self.lanes)
        pointer, stride = self._place(step.access)
        if not apart:
            offset = self._picked_offset(k, step, given)
            pointer = element_pointer(f, pointer, step.dtype, offset.text)
            return load_along(f, pointer, stride, kind, self.mask)
        given = {k: v.spread(self.lanes) for k, v in given.items()}
        offset = self._picked_offset(k, step, given)
        if stride != "0" and self.lanes > 1:
            steps = Value(f, Kind(offset.kind.dtype), stride).spread(self.lanes)
            counted = ", ".join(f"i64 {i}" for i in range(self.lanes))
            offset = offset + steps * Value(f, offset.kind, f"<{counted}>")
        if self.lanes == 1:
            return load(f, element_pointer(f, pointer, step.dtype, offset.text), kind)
        return gather(f, pointer, offset, kind, self.mask)

    def _picked_offset(self, k: int, step: Pick, given: dict[int, Value]) -> Value:
        """How many elements further the indices lead; those out of range are told and read as 0."""
        total: Value | None = None
        for number, p in enumerate(step.picked):
            stride_text, length = self.pick_sizes[k, number]
            index = checked_index(self.f, given[p.index].to(np.int64), length, self.mask)
            stride = Value(self.f, Kind(index.kind.dtype), stride_text)
            part = index * stride.spread(index.kind.lanes)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _store(self, access: int, value: Value) -> None:
        pointer, stride = self._place(access)
        value = value.to(self.loops.accesses[access].dtype)
        store_along(self.f, value, pointer, stride, self.mask)

    # -- reductions --------------------------------------------------------------------------------

    def _identity(self, k: int) -> Value:
        step = self.steps[k]
        assert isinstance(step, Reduce)
        kind = Kind(step.dtype, self.lanes)
        return Value(self.f, kind, kind.constant(identity(step.how, step.dtype)))

    def _both(self, k: int, first: Value, second: Value) -> Value:
        return combine(self.steps[k].how, first, second)  # type: ignore[union-attr]

    def _across(self, how: str, value: Value) -> Value:
        """All lanes as one number, halves first."""
        f, lanes = self.f, value.kind.lanes
        while lanes > 1:
            half = lanes // 2
            kind, smaller = value.kind, Kind(value.kind.dtype, half)
            parts = []
            for start in (0, half):
                numbers = ", ".join(f"i32 {start + i}" for i in range(half))
                if half > 1:
                    text = f.set(
                        f"shufflevector {kind.text} {value.text}, {kind.text} poison, "
                        f"<{half} x i32> <{numbers}>"
                    )
                else:
                    text = f.set(f"extractelement {kind.text} {value.text}, i64 {start}")
                parts.append(Value(f, smaller, text))
            value, lanes = combine(how, *parts), half
        return value
