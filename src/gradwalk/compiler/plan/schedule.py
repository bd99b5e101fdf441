"""The plan of a program: kernels in order, with all their arrays, in one arena.

slot 0       the arena
slot 1       the status block
slot 2       late-bound numbers, read and written back
then         arguments, memories, constants, results
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwalk.compiler.ir.program import Argument, Call, Constant, Late, Program, Term, copied
from gradwalk.compiler.plan.arena import place_in_arena
from gradwalk.compiler.plan.buffers import (
    Buffer,
    Place,
    contiguous_strides,
    fresh,
    same,
    spread,
    views,
)
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.copy_elision import Wishes, part_of
from gradwalk.compiler.plan.fusion import Fusion, Group
from gradwalk.compiler.plan.loop_kinds import Kind, is_map, picking
from gradwalk.compiler.plan.loop_nest import Loops
from gradwalk.compiler.plan.lowering import (
    ProductSteps,
    copy_loops,
    fill_loops,
    loops_of,
    product_of,
    sum_loops,
)
from gradwalk.compiler.plan.partial_sums import weight_parts
from gradwalk.compiler.plan.partial_writes import CHANGES
from gradwalk.compiler.plan.rematerialization import rematerialise
from gradwalk.compiler.plan.sinking import sink
from gradwalk.ops.network.convolution import conv_weight
from gradwalk.ops.shape.reshaping import concatenate

ARENA, STATUS, LATE, FIRST = 0, 1, 2, 3


Work = Loops | ProductSteps | Call  # a call: what has a generator of its own, or runs as NumPy


@dataclass(eq=False)
class Entry:
    """One kernel of the schedule: what it computes, what it reads and what it writes."""

    work: Work
    places: list[Place]  # the arrays of its block, in the order its generator takes them
    reads: list[Place]
    writes: list[Place]
    line: Any = None  # of the user's program
    calls: Sequence[Call] = ()  # that were fused into it; none: it only copies or fills
    terms: dict[Term, Place] = field(default_factory=dict)  # where those find and leave arrays


@dataclass(eq=False)
class Plan:
    """What the backend turns into code."""

    program: Program  # as it is planned: some calls may be there twice
    entries: list[Entry] = field(default_factory=list)
    arena: int = 0  # bytes
    arguments: list[tuple[Term, int]] = field(default_factory=list)  # source term, slot
    memories: list[tuple[Term, int]] = field(default_factory=list)
    constants: list[tuple[Term, int]] = field(default_factory=list)
    results: list[tuple[Term, int]] = field(default_factory=list)
    late: int = 0  # how many numbers are read; behind them lie those that are written
    late_updates: int = 0


# The strides, in elements, with which an argument or a memory comes.
Layout = dict[Term, tuple[int, ...]]


def plan(program: Program, layout: Layout, backend: Capabilities) -> Plan:
    """Decide on kernels, their order and all memory."""
    return _Planner(program, layout, backend).run()


class _Planner:
    def __init__(self, program: Program, layout: Layout, backend: Capabilities) -> None:
        self.layout = layout
        self.fusion = Fusion(program if program.owned else copied(program), backend)
        sink(self.fusion)
        rematerialise(self.fusion)
        self.program = self.fusion.program
        self.found = Plan(self.program)
        self.places: dict[Term, Place] = {}
        self.slots = FIRST
        self.late = Buffer(0, LATE)

    def run(self) -> Plan:
        self._sources()
        self._targets()
        for group in self.fusion.in_order():
            if group.kind is Kind.VIEW:
                self._view(group.calls[0])
            elif group.kind is Kind.JOIN:
                self._join(group.calls[0])
            else:
                self._kernel(group)
        self._finish()
        return self.found

    # -- where things are --------------------------------------------------------------------------

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _sources(self) -> None:
        for term in self.program.sources():
            source = term.source
            if isinstance(source, Late):
                place = Place(self.late, term.dtype, (), (), source.number)
                self.found.late = max(self.found.late, source.number + 1)
            else:
                place = fresh(term, self._slot())
                if isinstance(source, Constant):
                    self.found.constants.append((term, place.buffer.slot))
                else:
                    listed = (
                        self.found.arguments
                        if isinstance(source, Argument)
                        else self.found.memories
                    )
                    listed.append((term, place.buffer.slot))
                    strides = self.layout.get(term, place.strides)
                    place = Place(place.buffer, term.dtype, term.shape, strides)
            self.places[term] = place

    def _targets(self) -> None:
        """Who wants what where, before the kernels are planned."""
        wishes = Wishes(self.program, self.places)
        for term in self.program.results:  # one that is there twice is copied at the end
            slot = self._slot()
            self.found.results.append((term, slot))
            wishes.grant(term, fresh(term, slot))
        for source, value in self.program.updates:
            target = self._target(source)
            if isinstance(source.source, Late):
                wishes.grant(value, target)
            elif self._in_place(source, value):
                self.places[value] = target
        wishes.for_joins(self._overwrites)
        wishes.for_reshapes()

    def _target(self, source: Term) -> Place:
        """Where the new value of a source goes: over the old one, for a number beside it."""
        if not isinstance(source.source, Late):
            return self.places[source]
        self.found.late_updates += 1
        return Place(self.late, source.dtype, (), (), self.found.late + self.found.late_updates - 1)

    def _is_computed(self, term: Term) -> bool:
        return term.call is not None and self.fusion.of[term.call].kind is not Kind.VIEW

    def _in_place(self, source: Term, value: Term) -> bool:
        """Whether a memory can be overwritten by the kernel that computes its new value.

        Everyone else who reads the old value has to come before; what is copied from it at the end
        would come too late. In the kernel itself the old value may only be read where it is
        written: element by element.
        """
        if not self._is_computed(value) or value in self.places:
            return False
        assert value.call is not None
        if value.dtype != source.dtype or value.shape != source.shape:
            return False
        writer = self.fusion.of[value.call]
        seen = self._views_of(source)
        if any(term in self.fusion.ends for term in seen):
            return False
        readers = dict.fromkeys(
            self.fusion.of[call] for term in seen for call in self.fusion.consumers.get(term, ())
        )
        first = self._first_change(source, value, seen)
        if first is not None:
            return self.fusion.put_after(first, [g for g in readers if g is not first])
        if readers and (writer.kind is Kind.JOIN or value.call.op in CHANGES):
            return False  # its pieces are written before it: by kernels that nobody waits for
        if writer in readers and not _reads_where_it_writes(writer, source, seen):
            return False
        return self.fusion.put_after(writer, [g for g in readers if g is not writer])

    def _first_change(self, source: Term, value: Term, seen: list[Term]) -> Group | None:
        """Where a memory is changed first, if its new value is the old one changed in parts by
        calls that nobody sees between them; None if it is not."""
        call = value.call
        while call is not None and call.op in CHANGES:
            base, *others = call.args
            if any(term in others for term in seen):
                return None  # what is written is read from the same memory
            assert isinstance(base, Term)
            if base is source:
                group = self.fusion.of[call]
                return group if group.kind in (Kind.JOIN, Kind.SCATTER) else None
            if base in self.fusion.ends or self.fusion.consumers[base] != [call]:
                return None
            call = base.call
        return None

    def _overwrites(self, call: Call) -> bool:
        """Whether a call that changes a part of an array may do so in the array's own memory:
        everyone else who reads it comes before."""
        base, *others = call.args
        assert isinstance(base, Term)
        seen = self._views_of(base)
        if not self._is_computed(base) or any(t in others or t in self.fusion.ends for t in seen):
            return False
        writer = self.fusion.of[call]
        readers = (self.fusion.of[c] for t in seen for c in self.fusion.consumers.get(t, ()))
        return self.fusion.put_after(writer, [g for g in readers if g is not writer])

    def _views_of(self, source: Term) -> list[Term]:
        """A source, and all that is the same memory with other strides."""
        found = [source]
        for term in found:
            for call in self.fusion.consumers.get(term, ()):
                if self.fusion.of[call].kind is Kind.VIEW:
                    found += call.outputs
        return found

    def _where(self, term: Term) -> Place:
        place = self.places.get(term)
        if place is None:
            place = self.places[term] = fresh(term)
        return place

    # -- entries -----------------------------------------------------------------------------------

    def _view(self, call: Call) -> None:
        operand = call.args[0]
        assert isinstance(operand, Term)
        base = self._where(operand)
        found = views(call, base)
        if found is None:  # a reshape of what does not lie in order: put it in order first
            base = self._copy(base, fresh(operand))
            found = views(call, base)
            assert found is not None
        for term, place in zip(call.outputs, found, strict=True):
            self.places[term] = place

    def _join(self, call: Call) -> None:
        """Copy the pieces that were not computed in place; clear what no piece covers."""
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

    def _copy(self, source: Place, target: Place) -> Place:
        if 0 not in target.shape:  # a loop of no turns still writes what is one number for all
            loops, places = copy_loops(source, target)
            self.found.entries.append(Entry(loops, places, [source], [target]))
        return target

    def _kernel(self, group: Group) -> None:
        stored = self.fusion.stored(group.calls)
        if not any(term.size for term in stored):
            for term in stored:
                self._where(term)
            return
        inside = {o for c in group.calls for o in c.outputs}
        outside = dict.fromkeys(t for c in group.calls for t in c.terms if t not in inside)
        work: Work
        if group.kind in (Kind.MAP, Kind.ROWS, Kind.COLUMNS):
            work, places = loops_of(group, stored, self._where)
        elif group.kind is Kind.PRODUCT:
            work = product_of(group, stored, self._where)
            places = [work.left, work.right, *work.outputs, *work.extras]
        else:
            (work,) = group.calls
            if work.op is conv_weight:
                return self._weight_gradient(work)
            places = (
                self._scattered(work)
                if group.kind is Kind.SCATTER
                else [self._where(t) for t in (*work.outputs, *work.terms)]
            )
        reads = [self._where(t) for t in outside]
        written = dict.fromkeys((*stored, *group.calls[0].outputs))
        writes = [self._where(t) for t in written if t in self.places]
        terms = {t: self._where(t) for t in (*outside, *stored)}
        entry = Entry(work, places, reads, writes, group.calls[0].line, group.calls, terms)
        self.found.entries.append(entry)

    def _scattered(self, call: Call) -> list[Place]:
        """Prepare what a scatter adds to or writes to; returns that, what is scattered (in an order
        that its kernel takes), and where to."""
        terms = list(call.terms)
        target = self._where(call.outputs[0])
        if call.op not in CHANGES:
            self._fill(0, target)
        else:
            base = self._where(terms.pop(0))
            if not same(base, target):
                self._copy(base, target)
        found = picking(call)
        assert found is not None
        lead, rest = target.shape[: found.lead], target.shape[found.lead + found.count :]
        given = spread(self._where(terms[0]), (*lead, *found.shape, *rest))
        row = Place(given.buffer, given.dtype, rest, given.strides[len(given.shape) - len(rest) :])
        if any(row.strides) and not row.contiguous:
            buffer = Buffer(math.prod(given.shape) * given.dtype.itemsize)
            strides = contiguous_strides(given.shape)
            given = self._copy(given, Place(buffer, given.dtype, given.shape, strides))
        return [target, given, *(self._where(t) for t in terms[1:])]

    def _weight_gradient(self, call: Call) -> None:
        """A sum for each of some parts of the batch, then their sum."""
        (out,) = call.outputs
        operands = [self._where(t) for t in call.terms]
        target = self._where(out)
        count = weight_parts(call, *operands)
        shape = (count, *out.shape)
        if count == 1:
            parts = Place(target.buffer, out.dtype, shape, (0, *target.strides), target.offset)
        else:
            buffer = Buffer(count * out.size * out.dtype.itemsize)
            parts = Place(buffer, out.dtype, shape, contiguous_strides(shape))
        terms = {out: parts, **dict(zip(call.terms, operands, strict=True))}
        first = Entry(call, [parts, *operands], operands, [parts], call.line, [call], terms)
        self.found.entries.append(first)
        if count > 1:
            loops, places = sum_loops(parts, target)
            self.found.entries.append(Entry(loops, places, [parts], [target], call.line))

    def _fill(self, value: float, target: Place) -> None:
        if 0 not in target.shape:
            loops, places = fill_loops(value, target)
            self.found.entries.append(Entry(loops, places, [], [target]))

    def _finish(self) -> None:
        """Results and updates that are not yet where they belong."""
        for term, slot in self.found.results:
            if self.places[term].buffer.slot != slot:
                self._copy(self.places[term], fresh(term, slot))
        self.found.late_updates = 0
        pairs = [(self._target(s), self.places[v]) for s, v in self.program.updates]
        waiting = [(target, value) for target, value in pairs if not same(target, value)]
        # All are read before the first is overwritten: two memories may have changed places.
        sources = {id(t.buffer) for t, _ in waiting if t.buffer is not self.late}
        saved = []
        for target, value in waiting:
            if id(value.buffer) in sources:
                spare = Buffer(math.prod(target.shape) * target.dtype.itemsize)
                middle = Place(spare, target.dtype, target.shape, _ordered(target))
                value = self._copy(value, middle)
            saved.append((target, value))
        for target, value in saved:
            self._copy(value, target)


def _reads_where_it_writes(writer: Group, source: Term, seen: list[Term]) -> bool:
    """Whether a kernel reads a memory only at the element it is about to overwrite: never through
    one of its views, where that element is another."""
    if writer.kind not in (Kind.MAP, Kind.PRODUCT) or writer.shape != source.shape:
        return False
    if any(term in seen[1:] for call in writer.calls for term in call.terms):
        return False
    return all(is_map(call) for call in writer.calls if source in call.terms)


def place_arrays(found: Plan) -> None:
    """Give every buffer of the arena its place; kernels may have added scratch memory before."""
    for position, entry in enumerate(found.entries):
        for place in entry.reads:
            place.buffer.readers.append(position)
        for place in entry.writes:
            place.buffer.writers.append(position)
    buffers = dict.fromkeys(p.buffer for e in found.entries for p in (*e.reads, *e.writes))
    found.arena = place_in_arena(buffers)


def _ordered(place: Place) -> tuple[int, ...]:
    return contiguous_strides(place.shape)
