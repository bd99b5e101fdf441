"""Whether a kernel may write a result over memory that others read.

Readers of the old value must run first. The kernel itself may read the old value only at the
element that it is about to overwrite.
"""

from __future__ import annotations

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.compiler.plan.fusion import Fusion, FusionGroup
from gradwalk.compiler.plan.loop_kinds import Kind, is_map
from gradwalk.compiler.plan.partial_writes import CHANGES


def updates_in_place(fusion: Fusion, source: Term, value: Term) -> bool:
    """Whether the kernel that computes the new value of a memory may overwrite the old one; if so,
    make it wait for the readers of the old one."""
    if not _is_computed(fusion, value):
        return False
    assert value.call is not None
    if value.dtype != source.dtype or value.shape != source.shape:
        return False
    aliases = _aliases(fusion, source)
    if any(term in fusion.ends for term in aliases):
        return False  # what is copied from it at the end would come too late
    readers = _readers(fusion, aliases)
    first = _first_change(fusion, source, value, aliases)
    if first is not None:
        return fusion.put_after(first, [g for g in readers if g is not first])
    writer = fusion.of[value.call]
    if readers and (writer.kind is Kind.JOIN or value.call.op in CHANGES):
        return False  # its pieces are written before it, by kernels that wait for no reader
    if writer in readers and not _reads_where_it_writes(writer, source, aliases):
        return False
    return fusion.put_after(writer, [g for g in readers if g is not writer])


def changes_in_place(fusion: Fusion, call: Call) -> bool:
    """Whether a call that changes a part of an array may do so in the array's own memory; if so,
    make it wait for all other readers."""
    base, *others = call.args
    assert isinstance(base, Term)
    aliases = _aliases(fusion, base)
    if not _is_computed(fusion, base):
        return False
    if any(term in others or term in fusion.ends for term in aliases):
        return False
    writer = fusion.of[call]
    return fusion.put_after(writer, [g for g in _readers(fusion, aliases) if g is not writer])


def _is_computed(fusion: Fusion, term: Term) -> bool:
    return term.call is not None and fusion.of[term.call].kind is not Kind.VIEW


def _aliases(fusion: Fusion, source: Term) -> list[Term]:
    """A term, and all views of its memory."""
    aliases = [source]
    for term in aliases:
        for call in fusion.consumers.get(term, ()):
            if fusion.of[call].kind is Kind.VIEW:
                aliases += call.outputs
    return aliases


def _readers(fusion: Fusion, terms: list[Term]) -> dict[FusionGroup, None]:
    calls = (call for term in terms for call in fusion.consumers.get(term, ()))
    return dict.fromkeys(fusion.of[call] for call in calls)


def _first_change(
    fusion: Fusion, source: Term, value: Term, aliases: list[Term]
) -> FusionGroup | None:
    """The group that changes a memory first, if its new value is the old one changed in parts, and
    nothing reads the values in between; else None."""
    call = value.call
    while call is not None and call.op in CHANGES:
        base, *others = call.args
        if any(term in others for term in aliases):
            return None  # what is written is read from the same memory
        assert isinstance(base, Term)
        if base is source:
            group = fusion.of[call]
            return group if group.kind in (Kind.JOIN, Kind.SCATTER) else None
        if base in fusion.ends or fusion.consumers[base] != [call]:
            return None
        call = base.call
    return None


def _reads_where_it_writes(writer: FusionGroup, source: Term, aliases: list[Term]) -> bool:
    """Whether a kernel reads a memory only at the element it is about to overwrite: never through
    a view, where that element is another."""
    if writer.kind not in (Kind.MAP, Kind.PRODUCT) or writer.shape != source.shape:
        return False
    if any(term in aliases[1:] for call in writer.calls for term in call.terms):
        return False
    return all(is_map(call) for call in writer.calls if source in call.terms)
