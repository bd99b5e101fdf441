"""The plan of a program: its kernels in order, with all their arrays.

slot 0       the arena
slot 1       the status block
slot 2       runtime scalars, read and written back
others       arguments, memories, constants, results
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradwalk.compiler.ir.loops import body_of, shape_of
from gradwalk.compiler.ir.program import (
    Argument,
    Call,
    Constant,
    Layout,
    Memory,
    Operand,
    Program,
    Scalar,
    Term,
    copied,
)
from gradwalk.compiler.plan.arena import place_in_arena
from gradwalk.compiler.plan.buffers import (
    CHANGES,
    Buffer,
    Slice,
    allocate,
    fresh,
    row_of,
    same,
    seen_in_loop,
    spread,
    views,
)
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.fusion import Fusion, FusionGroup
from gradwalk.compiler.plan.loop_kinds import Kind, picking
from gradwalk.compiler.plan.loop_nest import Loops
from gradwalk.compiler.plan.lowering import (
    ProductSteps,
    copy_loops,
    fill_loops,
    loops_of,
    product_of,
    weight_parts,
)
from gradwalk.compiler.plan.placement import Requests, changes_in_place, part_of, updates_in_place
from gradwalk.compiler.plan.rematerialization import rematerialize
from gradwalk.compiler.plan.sinking import sink
from gradwalk.ops.network.convolution import conv_weight
from gradwalk.ops.shape.reshaping import concatenate

ARENA, STATUS, SCALARS, FIRST = 0, 1, 2, 3
CLEARLY_LESS = 0.875  # of the bytes at the peak before: such an arena has shrunk


Work = Loops | ProductSteps | Call  # a call: what has a generator of its own, or runs as NumPy


@dataclass(eq=False)
class LoopRun:
    """A loop of the schedule: the entries with it, which follow one another, run `count` times."""

    call: Call
    count: int


@dataclass(eq=False)
class Entry:
    """One kernel of the schedule: what it computes, what it reads and what it writes."""

    work: Work
    operands: list[Slice]  # the arrays of its block, in the order its generator takes them
    reads: list[Slice]
    writes: list[Slice]
    line: Any = None  # of the user's program
    calls: Sequence[Call] = ()  # that were fused into it; none if it only copies or fills
    terms: dict[Term, Slice] = field(default_factory=dict)  # where those read and write
    loop: LoopRun | None = None

    @property
    def times(self) -> int:
        """How often it runs."""
        return 1 if self.loop is None else self.loop.count


@dataclass(eq=False)
class Plan:
    """What a backend turns into code."""

    program: Program  # after rematerialization: some calls may be there twice
    entries: list[Entry] = field(default_factory=list)
    arena: int = 0  # bytes
    arguments: list[tuple[Term, int]] = field(default_factory=list)  # source term, slot
    memories: list[tuple[Term, int]] = field(default_factory=list)
    constants: list[tuple[Term, int]] = field(default_factory=list)
    results: list[tuple[Term, int]] = field(default_factory=list)
    scalars: int = 0  # how many runtime scalars are read; those that are written lie behind them
    scalar_updates: int = 0
    # Of a rematerialized program: the bytes that were alive at the peak before, and the plan for it
    # as it was.
    peak_before: int = 0
    plain: Callable[[], Plan] | None = None

    @property
    def may_be_larger(self) -> bool:
        """Whether the arena may be larger than without rematerialization: fewer bytes at the peak
        may be packed worse."""
        return self.plain is not None and self.arena > CLEARLY_LESS * self.peak_before


def plan(program: Program, layout: Layout, backend: Capabilities) -> Plan:
    """Decide on kernels, their order and all memory."""
    owned = program if program.owned else copied(program)
    fusion = _fused(owned, backend)
    peak = rematerialize(fusion)
    made = _Planner(fusion, layout).run()
    if peak is not None:

        def plain() -> Plan:
            fusion.exchange_operands()
            original = copied(owned)
            fusion.exchange_operands()
            return _Planner(_fused(original, backend), layout).run()

        made.peak_before, made.plain = peak, plain
    return made


def _fused(program: Program, backend: Capabilities) -> Fusion:
    fusion = Fusion(program, backend)
    sink(fusion)
    return fusion


class _Planner:
    def __init__(self, fusion: Fusion, layout: Layout) -> None:
        self.layout = layout
        self.fusion = fusion
        self.program = self.fusion.program
        self.plan = Plan(self.program)
        self.slices: dict[Term, Slice] = {}
        self.slots = FIRST
        self.scalars = Buffer(0, SCALARS)

    def run(self) -> Plan:
        self._sources()
        self._targets()
        for group in self.fusion.in_order():
            if group.kind is Kind.VIEW:
                self._view(group.calls[0])
            elif group.kind is Kind.JOIN:
                self._join(group.calls[0])
            elif group.kind is Kind.LOOP:
                self._loop(group.calls[0])
            else:
                self._kernel(group)
        self._finish()
        return self.plan

    # -- where things are --------------------------------------------------------------------------

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _sources(self) -> None:
        for term in self.program.sources():
            source = term.source
            if isinstance(source, Scalar):
                memory = Slice(self.scalars, term.dtype, (), (), source.number)
                self.plan.scalars = max(self.plan.scalars, source.number + 1)
            else:
                memory = fresh(term, self._slot())
                if term in self.layout:
                    memory = replace(memory, strides=self.layout[term])
                listed = {
                    Constant: self.plan.constants,
                    Argument: self.plan.arguments,
                    Memory: self.plan.memories,
                }[type(source)]
                listed.append((term, memory.buffer.slot))
            self.slices[term] = memory

    def _targets(self) -> None:
        """Decide where results and updates are computed, before the kernels are planned."""
        requests = Requests(self.program, self.slices)
        for term in self.program.results:  # a term that is there twice is copied at the end
            slot = self._slot()
            self.plan.results.append((term, slot))
            requests.grant(term, fresh(term, slot))
        for source, value in self.program.updates:
            target = self._target(source)
            if isinstance(source.source, Scalar):
                requests.grant(value, target)
            elif value not in self.slices and updates_in_place(self.fusion, source, value):
                self.slices[value] = target
        requests.for_joins(lambda call: changes_in_place(self.fusion, call))
        requests.for_reshapes()

    def _target(self, source: Term) -> Slice:
        """Where the new value of a source goes: over the old one, or behind the scalars read."""
        if not isinstance(source.source, Scalar):
            return self.slices[source]
        self.plan.scalar_updates += 1
        return Slice(
            self.scalars, source.dtype, (), (), self.plan.scalars + self.plan.scalar_updates - 1
        )

    def _where(self, term: Term) -> Slice:
        memory = self.slices.get(term)
        if memory is None:
            memory = self.slices[term] = fresh(term)
        return memory

    # -- entries -----------------------------------------------------------------------------------

    def _view(self, call: Call) -> None:
        operand = call.terms[0]
        base = self._where(operand)
        seen = views(call, base)
        if seen is None:  # a reshape that strides cannot describe: copy the operand in order
            seen = views(call, self._copy(base, fresh(operand)))
            assert seen is not None
        self.slices |= zip(call.outputs, seen, strict=True)

    def _join(self, call: Call) -> None:
        """Copy the pieces that were not computed in place; fill what no piece covers."""
        (out,) = call.outputs
        whole = self._where(out)
        if part_of(call, len(call.args) - 1, whole) is None:  # no such view of these strides
            whole = fresh(out)
        if call.op is not concatenate and call.op not in CHANGES:
            self._fill(call.attrs.get("value", 0), whole)
        for position, operand in enumerate(call.args):
            part = part_of(call, position, whole)
            assert part is not None
            if not isinstance(operand, Term):
                self._fill(operand, part)
                continue
            source = spread(self._where(operand), part.shape)
            if not same(source, part):
                self._copy(source, part)
        if not same(whole, self._where(out)):
            self._copy(whole, self._where(out))

    def _copy(self, source: Slice, target: Slice) -> Slice:
        if 0 not in target.shape:  # a loop of no iterations still writes what is one number for all
            loops, operands = copy_loops(source, target)
            self._add(Entry(loops, operands, [source], [target]))
        return target

    def _fill(self, value: float, target: Slice) -> None:
        if 0 not in target.shape:
            loops, operands = fill_loops(value, target)
            self._add(Entry(loops, operands, [], [target]))

    def _add(self, entry: Entry) -> None:
        self.plan.entries.append(entry)

    def _kernel(self, group: FusionGroup) -> None:
        stored = self.fusion.stored(group.calls)
        if not any(term.size for term in stored):
            for term in stored:
                self._where(term)
            return
        inside = {o for c in group.calls for o in c.outputs}
        outside = dict.fromkeys(t for c in group.calls for t in c.terms if t not in inside)
        work: Work
        if group.kind in (Kind.MAP, Kind.ROWS, Kind.COLUMNS):
            work, operands = loops_of(group, stored, self._where)
        elif group.kind is Kind.PRODUCT:
            work = product_of(group, stored, self._where)
            operands = [work.left, work.right, *work.outputs, *work.extras]
        else:
            (work,) = group.calls
            if work.op is conv_weight:
                return self._weight_gradient(work)
            operands = (
                self._scattered(work)
                if group.kind is Kind.SCATTER
                else [self._where(t) for t in (*work.outputs, *work.terms)]
            )
        scatters = group.kind is Kind.SCATTER  # what is scattered may be a copy of a term
        reads = operands[1:] if scatters else [self._where(t) for t in outside]
        written = dict.fromkeys((*stored, *group.calls[0].outputs))
        writes = [self._where(t) for t in written if t in self.slices]
        terms = {t: self._where(t) for t in (*outside, *stored)}
        self._add(Entry(work, operands, reads, writes, group.calls[0].line, group.calls, terms))

    def _scattered(self, call: Call) -> list[Slice]:
        """Prepare what a scatter adds to or writes to. Return that, what is scattered (in an order
        that its kernel takes), and the indices."""
        terms = list(call.terms)
        target = self._where(call.outputs[0])
        if call.op not in CHANGES:
            self._fill(0, target)
        else:
            base = self._where(terms.pop(0))
            if not same(base, target):
                self._copy(base, target)
        pick = picking(call)
        assert pick is not None
        lead, rest = target.shape[: pick.lead], target.shape[pick.lead + pick.count :]
        given = spread(self._where(terms[0]), (*lead, *pick.shape, *rest))
        row = Slice(given.buffer, given.dtype, rest, given.strides[len(given.shape) - len(rest) :])
        if any(row.strides) and not row.contiguous:
            given = self._copy(given, allocate(given.shape, given.dtype))
        return [target, given, *(self._where(t) for t in terms[1:])]

    def _weight_gradient(self, call: Call) -> None:
        """Sum over each part of the batch, then over the parts."""
        (out,) = call.outputs
        operands = [self._where(t) for t in call.terms]
        target = self._where(out)
        count = weight_parts(call, *operands)
        shape = (count, *out.shape)
        if count == 1:
            parts = Slice(target.buffer, out.dtype, shape, (0, *target.strides), target.offset)
        else:
            parts = allocate(shape, out.dtype)
        terms = {out: parts, **dict(zip(call.terms, operands, strict=True))}
        self._add(Entry(call, [parts, *operands], operands, [parts], call.line, [call], terms))
        if count > 1:
            loops, operands = copy_loops(parts, target, summed=True)
            self._add(Entry(loops, operands, [parts], [target], call.line))

    def _loop(self, call: Call) -> None:
        """Plan the body of a loop once, on windows that move over the arrays.

        A state is written next to where it is read: in the next row of its history, or in the other
        of two rows, if only the last is wanted.
        """
        run, body = shape_of(call), body_of(call)
        onward = -1 if run.reverse else 1
        arrays = len(body.results) - len(run.histories)

        def rows(whole: Slice, first: int) -> Slice:
            return seen_in_loop(row_of(whole, first), onward * whole.strides[0])

        given = [rows(self._where(_term(a)), run.row(0)) for a in call.args[: run.rows]]
        targets = [rows(self._where(out), run.row(0)) for out in call.outputs[:arrays]]
        states = zip(
            call.args[run.rows : run.fixed], call.outputs[arrays:], run.histories, strict=True
        )
        for first, out, history in states:
            if history:
                whole = self._where(out)
                begin = run.row_before(0)
                given.append(rows(whole, begin))
                targets.append(rows(whole, run.row_after(0)))
            else:
                whole, begin = allocate((2, *out.shape), out.dtype), 0
                step = whole.strides[0]
                given.append(seen_in_loop(row_of(whole, 0), step, 2))
                targets.append(seen_in_loop(row_of(whole, 1), -step, 2))
                self.slices[out] = row_of(whole, run.count % 2)
            self._copy(self._where(_term(first)), row_of(whole, begin))
        given += [seen_in_loop(self._where(_term(a))) for a in call.args[run.fixed :]]
        inner = _BodyPlanner(self, body, given, targets)
        repeated = LoopRun(call, run.count)
        for entry in inner.run().entries:
            entry.loop = repeated
            self._add(entry)

    def _finish(self) -> None:
        """Copy results and updates that were computed elsewhere."""
        for term, slot in self.plan.results:
            if self.slices[term].buffer.slot != slot:
                self._copy(self.slices[term], fresh(term, slot))
        self.plan.scalar_updates = 0
        pairs = [(self._target(s), self.slices[v]) for s, v in self.program.updates]
        waiting = [(target, value) for target, value in pairs if not same(target, value)]
        # Read all before the first is overwritten: two memories may swap their values.
        sources = {id(t.buffer) for t, _ in waiting if t.buffer is not self.scalars}
        saved = []
        for target, value in waiting:
            if id(value.buffer) in sources:
                value = self._copy(value, allocate(target.shape, target.dtype))
            saved.append((target, value))
        for target, value in saved:
            self._copy(value, target)


class _BodyPlanner(_Planner):
    """The kernels of one iteration of a loop, on memory that the plan around it provides."""

    def __init__(
        self, outer: _Planner, body: Program, given: list[Slice], targets: list[Slice]
    ) -> None:
        owned = body if body.owned else copied(body)
        super().__init__(_fused(owned, outer.fusion.backend), {})
        self.outer, self.given, self.targets = outer, given, targets

    def _slot(self) -> int:
        return self.outer._slot()

    def _sources(self) -> None:
        for term in self.program.sources():
            if isinstance(term.source, Constant):
                memory = fresh(term, self._slot())
                self.outer.plan.constants.append((term, memory.buffer.slot))
                self.slices[term] = memory
            else:
                assert isinstance(term.source, Argument)
                self.slices[term] = self.given[term.source.number]

    def _targets(self) -> None:
        requests = Requests(self.program, self.slices)
        for term, target in zip(self.program.results, self.targets, strict=True):
            requests.grant(term, target)
        requests.for_joins(lambda call: changes_in_place(self.fusion, call))
        requests.for_reshapes()

    def _finish(self) -> None:
        for term, target in zip(self.program.results, self.targets, strict=True):
            if not same(self._where(term), target):
                self._copy(self._where(term), target)


def _term(operand: Operand) -> Term:
    assert isinstance(operand, Term)
    return operand


def place_arrays(plan: Plan) -> None:
    """Decide on the offsets in the arena, after kernels have added their scratch memory."""
    spans: dict[LoopRun, list[int]] = {}
    for position, entry in enumerate(plan.entries):
        if entry.loop is not None:
            spans[entry.loop] = [*spans.get(entry.loop, [position])[:1], position]
    for position, entry in enumerate(plan.entries):
        for memory in entry.reads:
            memory.buffer.memory.readers += _uses(memory, position, entry, spans)
        for memory in entry.writes:
            memory.buffer.memory.writers += _uses(memory, position, entry, spans)
    buffers = dict.fromkeys(p.buffer.memory for e in plan.entries for p in (*e.reads, *e.writes))
    plan.arena = place_in_arena(buffers)


def _uses(
    memory: Slice, position: int, entry: Entry, spans: dict[LoopRun, list[int]]
) -> Sequence[int]:
    """When an entry uses an array: one from outside of a loop, as long as that runs."""
    if memory.buffer.window is None or entry.loop is None:
        return (position,)
    return spans[entry.loop]
