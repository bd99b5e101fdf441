"""Fusion: which calls become one kernel.

Every call starts as a group of its own. In the order of the program, a call joins the groups of its
operands where one set of loops serves both:

    map      elementwise: the loops run over its output
    rows     a reduction along the last axis (and perhaps others) and what is as large as its input
             or its output
    columns  a reduction that keeps the last axis; consumers of its result come later
    product  a matrix product and elementwise work on its output
    alone    everything else

Two groups may become one only if no third has to run between them: if no path leads from the second
back to the first through another group.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM, checked_index
from gradwalk.compiler.ir.program import Call, Operand, Program, Term, in_order
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.loop_kinds import Kind, classify, kind_of, picking
from gradwalk.compiler.plan.loop_nest import SumOrder
from gradwalk.ops.core.op import Shape

MOST_ARRAYS = 28  # of one kernel: pointers to more do not fit the registers
MOST_CALLS = 128  # of one kernel, so that no function grows with the program
LARGE_SUM = 1 << 15  # elements reduced to one number: too many for a single thread's row


@dataclass(eq=False)
class FusionGroup:
    """Calls that become one kernel."""

    number: int
    kind: Kind
    shape: Shape  # of the loops
    axes: tuple[int, ...] = ()  # of the loops that reductions run over
    calls: list[Call] = field(default_factory=list)
    sources: set[FusionGroup] = field(default_factory=set)  # groups that have to come before
    wholes: list[Call] = field(default_factory=list)  # calls that need all of an operand at once
    first: int = 0  # positions in the program of its first and its last call
    last: int = 0
    level: int = 0  # greater than that of any group that has to come before
    fixed_sums: SumOrder | None = None  # as they were before rematerialization changed the group

    @property
    def row_shape(self) -> Shape:
        """The shape of values that are one number per row."""
        return tuple(1 if i in self.axes else n for i, n in enumerate(self.shape))


class Fusion:
    """The groups of a program."""

    def __init__(self, program: Program, backend: Capabilities) -> None:
        self.program = program
        self.backend = backend
        self.consumers = program.consumers()
        self.ends = set(program.ends())
        self._operands: dict[Call, tuple[Operand, ...]] = {}  # before they were replaced
        self._positions = {call: i for i, call in enumerate(program.calls)}
        self._numbers = len(program.calls)  # of groups
        self.groups: dict[FusionGroup, None] = {}
        self.of: dict[Call, FusionGroup] = {}
        self.users: dict[FusionGroup, set[FusionGroup]] = {}
        for position, call in enumerate(program.calls):
            self._add(position, call)
        self._join_numbers()

    def _add(self, position: int, call: Call) -> None:
        kind, shape, axes = classify(call, self.backend)
        group = FusionGroup(position, kind, shape, axes, [call], first=position, last=position)
        if _needs_whole(call):
            group.wholes = [call]
        self.groups[group] = None
        self.users[group] = set()
        self.of[call] = group
        for term in call.terms:
            if term.call is not None:
                self.depends(group, self.of[term.call])
        # The latest first: a kernel should go on with what was computed just before.
        for source in sorted(group.sources, key=lambda g: -g.last):
            if source in self.groups and self._joins(source, group):
                group = self._merge(source, group)

    def _join_numbers(self) -> None:
        """Merge kernels of single numbers, such as an optimizer's corrections, though nothing
        connects them."""
        single = [g for g in self.groups if g.kind is Kind.MAP and g.shape == ()]
        for position, group in enumerate(single):
            for other in single[position + 1 :]:
                if group in self.groups and other in self.groups and self._joins(group, other):
                    self._merge(group, other)

    def depends(self, group: FusionGroup, source: FusionGroup) -> None:
        """Make `group` run after `source`."""
        group.sources.add(source)
        self.users[source].add(group)
        if group.level <= source.level:
            self._raise(group, source.level + 1)

    def _raise(self, group: FusionGroup, level: int) -> None:
        """Raise a group to a level, and all that come after it to higher ones."""
        waiting = deque([(group, level)])
        while waiting:
            here, level = waiting.popleft()
            if here.level < level:
                assert level <= len(self._positions), "groups wait for one another"
                here.level = level
                waiting += [(user, level + 1) for user in self.users[here] if user.level <= level]

    def leads_to(self, source: FusionGroup, group: FusionGroup, directly: bool = True) -> bool:
        """Whether `group` has to come after `source`; without `directly`, because of a third."""
        if group.level <= source.level:
            return False
        if directly and source in group.sources:
            return True
        waiting = [g for g in group.sources if g.level > source.level]
        seen = set(waiting)
        while waiting:
            here = waiting.pop()
            if source in here.sources:
                return True
            for before in here.sources:
                # Only groups at a higher level can come after the source.
                if before not in seen and before.level > source.level:
                    seen.add(before)
                    waiting.append(before)
        return False

    # -- which groups go together ------------------------------------------------------------------

    def _joins(self, first: FusionGroup, second: FusionGroup) -> bool:
        """Whether two groups can be one kernel; `second` is the later one."""
        if first is second or first.kind not in _FUSED or second.kind not in _FUSED:
            return False
        if not self._same_loops(first, second):
            return False
        if len(first.calls) + len(second.calls) > MOST_CALLS:
            return False
        if any(
            t.call is not None and self.of[t.call] in (first, second)
            for call in (*first.wholes, *second.wholes)
            for t in call.terms
        ):
            return False
        few = len(first.calls) + len(second.calls) < MOST_ARRAYS // 3
        if not few and self.arrays([*first.calls, *second.calls]) > MOST_ARRAYS:
            return False
        return not (
            self.leads_to(first, second, directly=False)
            or self.leads_to(second, first, directly=False)
        )

    def _same_loops(self, first: FusionGroup, second: FusionGroup) -> bool:
        kinds = {first.kind, second.kind}
        if Kind.PRODUCT in kinds:
            other = first if first.kind is Kind.MAP else second
            fits = kinds == {Kind.PRODUCT, Kind.MAP} and first.shape == second.shape
            # Its kernel does not gather, and its epilogue cannot report an error.
            return fits and not other.wholes and not any(map(may_fail, other.calls))
        if Kind.COLUMNS in kinds:
            if first.wholes or second.wholes:
                return False  # its kernel does not gather, either
            if first.kind is Kind.COLUMNS:
                # Its results exist only at the end: no consumer of them can join.
                uses = {t for c in second.calls for t in c.terms}
                if any(o in uses for c in first.calls for o in c.outputs if _reduces(c)):
                    return False
                return first.shape == second.shape and second.axes in ((), first.axes)
            return first.kind is Kind.MAP and first.shape == second.shape
        if first.kind is Kind.MAP and second.kind is Kind.MAP:
            return first.shape == second.shape
        if first.axes and second.axes:
            return first.axes == second.axes and first.shape == second.shape
        rows, other = (first, second) if first.axes else (second, first)
        if rows is first and math.prod(rows.row_shape) == 1 and math.prod(rows.shape) > LARGE_SUM:
            return False
        return other.shape == rows.shape or (rows is first and other.shape == rows.row_shape)

    def arrays(self, calls: list[Call]) -> int:
        """The number of arrays that a kernel of these calls reads and writes."""
        inside = {o for c in calls for o in c.outputs}
        outside = {t for c in calls for t in c.terms if t not in inside}
        return len(outside) + len(self.stored(calls))

    def stored(self, calls: list[Call]) -> list[Term]:
        """The outputs of some calls that other calls, or the caller, read."""
        inside = set(calls)
        return [
            o for c in calls for o in c.outputs
            if o in self.ends or not inside.issuperset(self.consumers.get(o, ()))
        ]  # fmt: skip

    def _merge(self, first: FusionGroup, second: FusionGroup) -> FusionGroup:
        """Merge the second group into the first."""
        if first.kind is Kind.MAP and second.kind is not Kind.MAP:
            first.kind, first.shape, first.axes = second.kind, second.shape, second.axes
        in_order = first.last < second.first
        first.calls += second.calls
        if not in_order:
            first.calls.sort(key=self._positions.__getitem__)
        first.wholes += second.wholes
        first.first = min(first.first, second.first)
        first.last = max(first.last, second.last)
        for call in second.calls:
            self.of[call] = first
        del self.groups[second]
        for source in second.sources:
            self.users[source].discard(second)
            if source is not first:
                self.depends(first, source)
        first.sources.discard(second)
        for user in self.users.pop(second):
            user.sources.discard(second)
            if user is not first:
                self.depends(user, first)
        self.users[first].discard(second)
        return first

    def move(self, calls: list[Call], group: FusionGroup, target: FusionGroup) -> None:
        """Move some calls of a group to a later one."""
        moved = set(calls)
        group.calls = [c for c in group.calls if c not in moved]
        group.wholes = [c for c in group.wholes if c not in moved]
        target.calls = sorted([*target.calls, *calls], key=self._positions.__getitem__)
        target.wholes += [c for c in calls if _needs_whole(c)]
        for call in calls:
            self.of[call] = target
            for term in call.terms:
                if term.call is not None and self.of[term.call] is not target:
                    self.depends(target, self.of[term.call])

    # -- changes to the program (rematerialization.py) ---------------------------------------------

    def add_group(self, kind: Kind, shape: Shape, first: int) -> FusionGroup:
        """Add an empty group at this position of the program."""
        self._numbers += 1
        group = FusionGroup(self._numbers, kind, shape, first=first, last=first)
        self.groups[group] = None
        self.users[group] = set()
        return group

    def add_calls(self, calls: list[Call], group: FusionGroup) -> None:
        """Add new calls to a group."""
        for call in calls:
            classify(call, self.backend)
            self.of[call] = group
            self._positions[call] = group.first
            for term in call.terms:
                self.consumers.setdefault(term, []).append(call)
                if term.call is not None and self.of[term.call] is not group:
                    self.depends(group, self.of[term.call])
        group.calls = in_order([*group.calls, *calls])

    def replace(self, call: Call, old: Term, new: Term) -> None:
        """Make a call read another term."""
        for operand in call.terms:
            if operand is old:
                self.consumers[old].remove(call)
                self.consumers.setdefault(new, []).append(call)
        self._operands.setdefault(call, call.args)
        call.take(tuple(new if a is old else a for a in call.args))
        assert new.call is not None
        group, source = self.of[call], self.of[new.call]
        if source is group:
            group.calls = in_order(group.calls)
        else:
            self.depends(group, source)

    def prune(self, term: Term) -> None:
        """Remove the call that makes an unused term, and the calls that only it needs."""
        call = term.call
        if call is None or call not in self.of:
            return
        if any(out in self.ends or self.consumers.get(out) for out in call.outputs):
            return
        group = self.of.pop(call)
        group.calls.remove(call)
        for operand in call.terms:
            self.consumers[operand].remove(call)
        if not group.calls:
            del self.groups[group]
            for source in group.sources:
                self.users[source].discard(group)
            for user in self.users.pop(group):
                user.sources.discard(group)
        for operand in call.terms:
            self.prune(operand)

    def renew_program(self) -> None:
        """Make a program of the present calls."""
        calls = list(self.of)
        if calls != self.program.calls:
            self.program = self.program.with_calls(in_order(calls), {})

    def exchange_operands(self) -> None:
        """Undo what `replace` did to the calls of the program; do it again the next time."""
        for call, args in self._operands.items():
            self._operands[call] = call.args
            call.take(args)

    def in_order(self) -> list[FusionGroup]:
        """The groups in topological order, near that of the program.

        Single numbers come as early as possible: an optimizer's corrections, which the program
        computes late, would otherwise delay every update, and keep alive all that it reads.
        """

        def key(group: FusionGroup) -> tuple[int, int, FusionGroup]:
            return (group.first if group.shape else -1), group.number, group

        left = {group: len(group.sources) for group in self.groups}
        ready = [key(g) for g, count in left.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            *_, group = heapq.heappop(ready)
            order.append(group)
            for user in self.users[group]:
                left[user] -= 1
                if not left[user]:
                    heapq.heappush(ready, key(user))
        assert len(order) == len(self.groups), "groups wait for one another"
        return order

    def put_after(self, group: FusionGroup, others: list[FusionGroup]) -> bool:
        """Make a group wait for others; return False, and do nothing, if one has to wait for it."""
        if any(self.leads_to(group, other) for other in others):
            return False
        for other in others:
            self.depends(group, other)
        return True


_FUSED = (Kind.MAP, Kind.ROWS, Kind.COLUMNS, Kind.PRODUCT)


def _needs_whole(call: Call) -> bool:
    """Whether a call reads its operands elsewhere than at the element it computes."""
    random = call.op in ELEMENTWISE_RANDOM  # from the state of a generator
    return random or picking(call) is not None or kind_of(call) is Kind.PRODUCT


def may_fail(call: Call) -> bool:
    """Whether a call may raise."""
    return call.op is checked_index


def _reduces(call: Call) -> bool:
    return kind_of(call) in (Kind.ROWS, Kind.COLUMNS)
