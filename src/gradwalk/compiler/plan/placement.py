"""Where arrays are computed: where they are wanted, instead of being copied there.

A result is wanted in the caller's memory, a new parameter in that of the old one, a piece of a
concatenation in its part of the whole, the operand of a reshape in the order that needs no copy. A
request travels backwards through views to the kernel that computes the array, which then writes
with those strides.

A kernel may write a result over memory that others read if those run first. It may itself read the
old value only at the element that it is about to overwrite.
"""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.ir.program import Call, Program, Term
from gradwalk.compiler.plan.buffers import CHANGES, Slice, fresh, reshaped, sliced, written_part
from gradwalk.compiler.plan.fusion import Fusion, FusionGroup
from gradwalk.compiler.plan.loop_kinds import Kind, is_map, kind_of
from gradwalk.ops.core.op import Shape
from gradwalk.ops.shape.reshaping import concatenate, pad_op, permute, reshape


def part_of(call: Call, position: int, whole: Slice) -> Slice | None:
    """Where an operand of a joining call (concatenate, pad, a write to a part) is in its result."""
    operand = call.args[position]
    if call.op in CHANGES and position == 0:
        return whole
    if call.op not in (concatenate, pad_op):
        return written_part(call, whole)
    assert isinstance(operand, Term)
    if call.op is concatenate:
        axis = call.attrs["axis"]
        start = sum(a.shape[axis] for a in call.args[:position] if isinstance(a, Term))
        return sliced(whole, axis, start, operand.shape[axis])
    target = whole
    for axis, (before, _) in enumerate(call.attrs["widths"]):
        target = sliced(target, axis, before, operand.shape[axis])
    return target


class Requests:
    """Memory that terms are given before their kernels are planned."""

    def __init__(self, program: Program, slices: dict[Term, Slice]) -> None:
        self.program = program
        self.slices = slices

    def grant(self, term: Term, target: Slice) -> bool:
        """Let a term be computed there, unless it has memory already; return whether it will be."""
        if term in self.slices or term.call is None or term.dtype != target.dtype:
            return False
        call = term.call
        if call.op is reshape:
            (operand,) = call.terms
            seen = reshaped(target, operand.shape)
            return seen is not None and self.grant(operand, seen)
        if call.op is permute:
            (operand,) = call.terms
            return self.grant(operand, _unpermuted(target, call.attrs["axes"], operand.shape))
        kind = kind_of(call)
        if kind in (Kind.VIEW, Kind.LOOP) or (kind is Kind.SCATTER and not target.contiguous):
            return False
        self.slices[term] = target
        return True

    def for_joins(self, overwrites: Callable[[Call], bool]) -> None:
        """Compute pieces in their part of the whole, and what a call changes in the memory of its
        result if it may overwrite it; wholes first."""
        for call in reversed(self.program.calls):
            # A padded array is filled before its piece is written.
            if call.op is not concatenate and not (call.op in CHANGES and overwrites(call)):
                continue
            (out,) = call.outputs
            whole = self.slices.get(out)
            if whole is None:
                whole = self.slices[out] = fresh(out)
            for position, operand in enumerate(call.args[:1] if call.op in CHANGES else call.args):
                if isinstance(operand, Term):
                    part = part_of(call, position, whole)
                    if part is not None:
                        self.grant(operand, part)

    def for_reshapes(self) -> None:
        """Compute what is permuted and then reshaped in the order that the reshape needs."""
        for call in reversed(self.program.calls):
            if call.op is not reshape:
                continue
            (operand,) = call.terms
            if operand.call is not None and operand.call.op is permute:
                self.grant(operand, fresh(operand))


def _unpermuted(target: Slice, axes: tuple[int, ...], shape: Shape) -> Slice:
    """The memory of the operand of a permutation, from that of its result."""
    strides = [0] * len(axes)
    for position, axis in enumerate(axes):
        strides[axis] = target.strides[position]
    return Slice(target.buffer, target.dtype, shape, tuple(strides), target.offset)


# -- over memory that others read ------------------------------------------------------------------


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
    aliases = [alias for term in _pieces(base) for alias in _aliases(fusion, term)]
    if not _is_computed(fusion, base):
        return False
    if any(term in others or term in fusion.ends for term in aliases):
        return False
    writer = fusion.of[call]
    return fusion.put_after(writer, [g for g in _readers(fusion, aliases) if g is not writer])


def _is_computed(fusion: Fusion, term: Term) -> bool:
    if term.call is None:
        return False
    return fusion.of[term.call].kind not in (Kind.VIEW, Kind.LOOP)  # a loop chooses its own memory


def _aliases(fusion: Fusion, source: Term) -> list[Term]:
    """A term, and all views of its memory."""
    aliases = [source]
    for term in aliases:
        for call in fusion.consumers.get(term, ()):
            if fusion.of[call].kind is Kind.VIEW:
                aliases += call.outputs
    return aliases


def _pieces(whole: Term) -> list[Term]:
    """A term, and what may be computed in its memory since it is made of it (`for_joins`)."""
    pieces = [whole]
    for term in pieces:
        if term.call is None:
            continue
        if term.call.op in CHANGES:
            pieces += term.call.terms[:1]
        elif term.call.op in (concatenate, reshape, permute):
            pieces += term.call.terms
    return pieces


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
