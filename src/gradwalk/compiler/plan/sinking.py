"""Sinking: move what only a later kernel needs to that kernel.

A value joins the kernel of its operands because it can be computed there. If it is for backward
(the slope of an activation), one kernel stores it and another reads it. If its operands are stored
anyway, the later kernel computes it from those: one array less is written, kept and read. If they
are truth values, these are stored instead: bytes for floats.
"""

from __future__ import annotations

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.compiler.plan.fusion import MOST_CALLS, Fusion, FusionGroup, may_fail
from gradwalk.compiler.plan.loop_kinds import Kind, is_map

_TAKES = {Kind.MAP, Kind.ROWS, Kind.COLUMNS, Kind.PRODUCT}


def sink(fusion: Fusion) -> None:
    """Move calls to the one group that needs them; last groups first, so that whole chains move."""
    for group in reversed(fusion.in_order()):
        if group.kind in _TAKES:
            for term in fusion.stored(group.calls):
                _sink(fusion, group, term)


def _sink(fusion: Fusion, group: FusionGroup, term: Term) -> None:
    target = _only_consumer(fusion, group, term)
    if target is None:
        return
    stored = set(fusion.stored(group.calls)) - {term}
    moved = _own_calls(group, term, stored)
    if moved is None or len(moved) == len(group.calls):
        return
    if len(moved) + len(target.calls) <= MOST_CALLS:
        fusion.move(moved, group, target)


def _only_consumer(fusion: Fusion, group: FusionGroup, term: Term) -> FusionGroup | None:
    """The one group that uses a term, element by element, if there is one."""
    if term in fusion.ends:
        return None
    users = fusion.consumers.get(term, [])
    groups = {fusion.of[call] for call in users}
    if len(groups) != 1 or not all(is_map(call) for call in users):
        return None
    (target,) = groups
    fits = target.kind in _TAKES and target.shape == term.shape and target is not group
    return target if fits else None


def _own_calls(group: FusionGroup, term: Term, stored: set[Term]) -> list[Call] | None:
    """The calls of a group that only this term needs, back to terms that are stored anyway or are
    smaller; None if one of them cannot move."""
    inside = set(group.calls)
    needed = _leading_to(stored, inside)
    own: dict[Call, None] = {}
    waiting = [term]
    while waiting:
        here = waiting.pop()
        call = here.call
        if here in stored or call is None or call not in inside or call in own:
            continue
        if call in needed and here.dtype.kind == "b" != term.dtype.kind and here.size == term.size:
            continue
        if call in needed or not is_map(call) or may_fail(call):
            return None
        own[call] = None
        waiting += call.terms
    return [call for call in group.calls if call in own]


def _leading_to(terms: set[Term], inside: set[Call]) -> set[Call]:
    """The calls of a group that compute these terms."""
    leading: set[Call] = set()
    waiting = [t.call for t in terms]
    while waiting:
        call = waiting.pop()
        if call is not None and call in inside and call not in leading:
            leading.add(call)
            waiting += [t.call for t in call.terms]
    return leading
