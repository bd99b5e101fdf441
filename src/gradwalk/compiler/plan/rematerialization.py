"""Rematerialization: backward recomputes arrays of forward where that is cheap.

An array that forward makes and backward reads stays alive in between, and at the peak of memory
such arrays are most of it. Many are a few elementwise calls away from others that stay anyway: of a
layer norm one array is enough, of a gelu its input. For every array that is alive across the peak
we look for such a chain of calls. A later kernel that reads the array element by element computes
it in registers. One that needs all of it, as a matrix product does, finds it stored again shortly
before, by a kernel that iterates over the same elements.

Calls are copied as they are, and sums keep their order, so results stay the same to the last bit.
The order of a sum may depend on what else its kernel computes (several accumulators where that is
little); a kernel that gets or loses calls therefore keeps the order that it had before.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

from gradwalk.compiler.ir.program import Call, Term, copy_call, replaced
from gradwalk.compiler.plan.buffers import Slice, fresh, views
from gradwalk.compiler.plan.fusion import MOST_ARRAYS, MOST_CALLS, Fusion, FusionGroup, may_fail
from gradwalk.compiler.plan.loop_kinds import Kind, is_map
from gradwalk.compiler.plan.lowering import loops_of

WORTH_IT = 1 << 20  # bytes at the peak: less fits a cache, and costs next to nothing
SMALL = 1 << 14  # bytes: smaller arrays are not considered
OWN_KERNEL = 1 << 16  # bytes of an array that may be stored again by a kernel of its own
LONG = 8  # additions that a function such as exp costs
CHEAP = 2 * LONG  # additions that take as long as to store and load an element
ROUNDS = 8

_TAKES = {Kind.MAP, Kind.ROWS, Kind.COLUMNS, Kind.PRODUCT}
_HOSTS = {Kind.MAP, Kind.ROWS, Kind.PRODUCT}  # columns run in another order


class Use(NamedTuple):
    """A call that reads an array, or the last of a chain of views of it."""

    position: int  # of its group
    call: Call
    views: tuple[Term, ...]


@dataclass
class Life:
    """The lifetime of a large array: the group that stores it, and the calls that read it."""

    size: int  # bytes
    made: int
    uses: list[Use]

    @property
    def last(self) -> int:
        """The last group that needs it."""
        return max((use.position for use in self.uses), default=self.made)

    def spans(self, position: int) -> bool:
        """Whether it is alive at a group and after it."""
        return self.made <= position < self.last


class Chain(NamedTuple):
    """Calls that recompute a term, in order, and the terms that they start from."""

    calls: list[Call]
    ends: list[Term]


def rematerialize(fusion: Fusion) -> int | None:
    """Lower the peak of memory by recomputing what is cheap. Return the bytes that were alive at
    the peak before; None if nothing changed."""
    sizes = (_bytes(out) for call in fusion.program.calls for out in call.outputs)
    if sum(size for size in sizes if size > SMALL) < WORTH_IT:
        return None
    work = _Rematerialization(fusion)
    if not work.lower_peak():
        return None
    before = work.living[work.peak]
    for _ in range(ROUNDS - 1):
        if not work.lower_peak():
            break
    fusion.renew_program()
    return before


class _Rematerialization:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.writers = {  # by what they overwrite
            source: fusion.of[value.call]
            for source, value in fusion.program.updates
            if value.call is not None
        }
        self.copies: dict[tuple[FusionGroup, Call], Call] = {}  # of calls, in later groups
        self.origins: dict[Call, Call] = {}  # of those
        self.order: list[FusionGroup] = []
        self.positions: dict[FusionGroup, int] = {}
        self.lives: dict[Term, Life] = {}
        self.living: list[int] = []  # bytes at every group
        self.peak = 0

    def lower_peak(self) -> bool:
        """Recompute arrays that are alive across the peak; return whether anything changed."""
        self.order = self.fusion.in_order()
        self.positions = {group: i for i, group in enumerate(self.order)}
        self.lives = {}
        for group in self.order:
            for call in group.calls if group.kind is not Kind.VIEW else ():
                for term in call.outputs:
                    self._measure(term)
        self.living = self._living()
        most = max(self.living, default=0)
        if not self.living or most < WORTH_IT:
            return False
        self.peak = self.living.index(most)
        changed = False
        for term in sorted(self.lives, key=lambda t: -self.lives[t].size):
            life = self.lives.get(term)
            if life is not None and life.spans(self.peak) and self._drop(term, life):
                changed = True
        return changed

    # -- lifetimes ---------------------------------------------------------------------------------

    def _measure(self, term: Term) -> None:
        """Note the lifetime of a large term that is stored; a result or an update has memory of its
        own."""
        fusion = self.fusion
        self.lives.pop(term, None)
        home = fusion.of.get(term.call) if term.call is not None else None
        if home is None or _bytes(term) <= SMALL or not self._is_stored(term):
            return
        uses: list[Use] = []
        waiting: list[tuple[Term, tuple[Term, ...]]] = [(term, ())]
        for here, through in waiting:
            if here in fusion.ends:
                return
            for call in dict.fromkeys(fusion.consumers.get(here, ())):
                group = fusion.of[call]
                if group.kind is Kind.VIEW:
                    waiting += [(out, (*through, out)) for out in call.outputs]
                elif group is not home:
                    uses.append(Use(self.positions[group], call, through))
        self.lives[term] = Life(_bytes(term), self.positions[home], uses)

    def _living(self) -> list[int]:
        """The bytes alive at every group."""
        changes = [0] * (len(self.order) + 1)
        for life in self.lives.values():
            changes[life.made] += life.size
            changes[life.last + 1] -= life.size
        return list(itertools.accumulate(changes[:-1]))

    def _base(self, term: Term) -> Term:
        """The term that a view is a view of."""
        while term.call in self.fusion.of and self.fusion.of[term.call].kind is Kind.VIEW:
            term = term.call.terms[0]
        return term

    # -- recomputation chains ----------------------------------------------------------------------

    def _chain(self, term: Term, room: int) -> Chain | None:
        """A chain that computes a term from what is alive across the peak anyway, and at most
        `room` more bytes: values of rows and the like."""
        chain = Chain([], [])
        assert term.call is not None
        return None if self._lead_to(term.call, chain, room) is None else chain

    def _lead_to(self, call: Call, chain: Chain, room: int) -> int | None:
        """Add a call to a chain; return the room that is left, None if there is no such chain."""
        if not _can_be_copied(call):
            return None
        calls, ends = len(chain.calls), len(chain.ends)
        for term in call.terms:
            left = self._start_from(term, chain, room)
            if left is None:
                del chain.calls[calls:], chain.ends[ends:]
                return None
            room = left
        chain.calls.append(call)
        return room

    def _start_from(self, term: Term, chain: Chain, room: int) -> int | None:
        """Let a chain start from a term, or from what computes it."""
        if term in chain.ends or term.call in chain.calls:
            return room
        if self._is_kept(term):
            chain.ends.append(term)
            return room
        assert term.call is not None
        left = None
        if _bytes(term) > room or not self._is_stored(term):
            left = self._lead_to(term.call, chain, room)
        if left is None and _bytes(term) <= room:
            chain.ends.append(term)
            left = room - _bytes(term)
        return left

    def _is_stored(self, term: Term) -> bool:
        """Whether another group reads a term."""
        assert term.call is not None
        home, consumers = self.fusion.of[term.call], self.fusion.consumers.get(term, ())
        return any(self.fusion.of[call] is not home for call in consumers)

    def _is_kept(self, term: Term) -> bool:
        """Whether a term is alive across the peak in any case, or has memory of its own."""
        base = self._base(term)
        if base.call is None or base in self.fusion.ends:
            return True
        life = self.lives.get(base)
        return life is not None and life.spans(self.peak)

    def _keeps_peak(self, chain: Chain, life: Life) -> bool:
        """Whether memory stays below the peak where the ends of a chain live longer."""
        ends = [self.lives.get(self._base(end)) for end in chain.ends]
        longer = [end for end in ends if end is not None and end.last < life.last]
        more = sum(end.size for end in longer) - life.size
        if more <= 0:
            return True
        since = min(end.last for end in longer)
        return max(self.living[since : life.last + 1]) + more < self.living[self.peak]

    # -- changes -----------------------------------------------------------------------------------

    def _drop(self, term: Term, life: Life) -> bool:
        """Make the readers of a term after the peak recompute it; return False if they cannot."""
        if term.call in self.origins or any(use.position == self.peak for use in life.uses):
            return False
        chain = self._chain(term, room=life.size // 8)
        if chain is None or not self._keeps_peak(chain, life):
            return False
        homes = {self.fusion.of[call] for call in chain.calls}  # they may lose these calls
        if any(map(_sums_over_several_axes, homes)):
            return False
        after = [use for use in life.uses if use.position > self.peak]
        single = [use for use in after if self._takes(use, term)]
        groups = dict.fromkeys(self.fusion.of[use.call] for use in single)
        if not all(self._fits(group, chain) for group in groups):
            return False
        whole = sorted((use for use in after if use not in single), key=lambda use: use.position)
        if whole:
            host = self._host(term, chain, whole[0])
            if host is None:
                return False
            self._read_again(term, self._copy(chain, host), whole)
        for home in homes:
            self._fix_sums(home)
        for use in single:
            again = self._copy(chain, self.fusion.of[use.call])
            self.fusion.replace(use.call, term, again)
        self.fusion.prune(term)
        for each in (term, *chain.ends, *(call.outputs[0] for call in chain.calls)):
            self._measure(self._base(each))
        return True

    def _takes(self, use: Use, term: Term) -> bool:
        """Whether a call reads a term element by element, in a group that can compute it."""
        group = self.fusion.of[use.call]
        fits = group.kind in _TAKES and group.shape == term.shape
        return fits and not use.views and is_map(use.call)

    def _fits(self, group: FusionGroup, chain: Chain) -> bool:
        """Whether a group can also compute a chain."""
        new = [c for c in chain.calls if (group, self._origin(c)) not in self.copies]
        if self._work(new) > CHEAP or len(group.calls) + len(new) > MOST_CALLS:
            return False
        if self.fusion.arrays([*group.calls, *new]) > MOST_ARRAYS:
            return False
        return not _sums_over_several_axes(group) and self._is_in_time(group, chain)

    def _is_in_time(self, group: FusionGroup, chain: Chain) -> bool:
        """Whether a group can read what a chain starts from before an update overwrites it."""
        for end in chain.ends:
            base = self._base(end)
            if base.call is not None:
                if self.fusion.of[base.call] in self.writers.values():
                    return False
            elif base in self.writers and self.fusion.leads_to(self.writers[base], group):
                return False
        return True

    def _host(self, term: Term, chain: Chain, use: Use) -> FusionGroup | None:
        """A group that stores a term again before its use: one that reads what the chain starts
        from and iterates over the same elements, or a new one."""
        bases = {base for base in map(self._base, chain.ends) if base.call is not None}
        for group in reversed(self.order[self.peak + 1 : use.position]):
            if (
                group.kind in _HOSTS
                and group.shape == term.shape
                and group not in self.writers.values()
                and any(self._base(t) in bases for call in group.calls for t in call.terms)
                and self._fits(group, chain)
            ):
                return group
        # It comes after a group that its reader waits for anyway, so nothing else has to wait.
        reader = self.fusion.of[use.call]
        before = [g for g in reader.sources if self.positions[g] > self.peak]
        if not before or _bytes(term) < OWN_KERNEL or self._work(chain.calls) > CHEAP:
            return None
        if not self._is_in_time(reader, chain):
            return None
        group = self.fusion.add_group(Kind.MAP, term.shape, reader.first)
        self.fusion.depends(group, max(before, key=lambda g: (self.positions[g], g.number)))
        self.positions[group] = use.position
        return group

    def _copy(self, chain: Chain, group: FusionGroup) -> Term:
        """Add a copy of a chain to a group; return the copy of its last term."""
        self._fix_sums(group)
        now: dict[Term, Term] = {}
        new = []
        for call in chain.calls:
            origin = self._origin(call)
            copy = self.copies.get((group, origin))
            if copy is None:
                copy = self.copies[group, origin] = copy_call(call, replaced(call, now))
                self.origins[copy] = origin
                new.append(copy)
            now[call.outputs[0]] = copy.outputs[0]
        self.fusion.add_calls(new, group)
        return now[chain.calls[-1].outputs[0]]

    def _fix_sums(self, group: FusionGroup) -> None:
        """Keep the order of a group's sums, whatever else it will compute."""
        if group.axes and group.fixed_sums is None:
            loops, _ = loops_of(group, self.fusion.stored(group.calls), self._memory)
            group.fixed_sums = loops.sum_order()

    def _memory(self, term: Term) -> Slice:
        """Memory as that of a term will be: in order, or a view."""
        if term.call is None or self.fusion.of[term.call].kind is not Kind.VIEW:
            return fresh(term)
        seen = views(term.call, self._memory(term.call.terms[0]))
        return fresh(term) if seen is None else seen[term.index]

    def _read_again(self, term: Term, again: Term, uses: list[Use]) -> None:
        """Make calls read a term that was stored again, through views as before."""
        now = {term: again}
        for use in uses:
            reader = self.fusion.of[use.call]
            for view in use.views:
                if view not in now:
                    assert view.call is not None
                    copy = copy_call(view.call, replaced(view.call, now))
                    group = self.fusion.add_group(Kind.VIEW, view.shape, reader.first)
                    self.positions[group] = use.position
                    self.fusion.add_calls([copy], group)
                    now |= zip(view.call.outputs, copy.outputs, strict=True)
            read = use.views[-1] if use.views else term
            self.fusion.replace(use.call, read, now[read])
            for view in reversed(use.views):
                self.fusion.prune(view)

    def _origin(self, call: Call) -> Call:
        return self.origins.get(call, call)

    def _work(self, calls: list[Call]) -> int:
        """The work of some calls for one element."""
        total = 0
        for call in calls:
            if self.fusion.backend.is_cheap(call.op):
                total += 1
            else:  # in float64 a function is that of C, lane by lane
                total += LONG if call.outputs[0].dtype.itemsize <= 4 else CHEAP + 1
        return total


def _sums_over_several_axes(group: FusionGroup) -> bool:
    """Whether the order of sums depends on how loops are merged, which depends on all arrays."""
    return sum(group.shape[axis] > 1 for axis in group.axes) > 1


def _can_be_copied(call: Call) -> bool:
    """Whether a call is elementwise work that cannot raise."""
    return is_map(call) and not may_fail(call) and len(call.outputs) == 1


def _bytes(term: Term) -> int:
    return term.size * term.dtype.itemsize
