"""Copy elision: compute arrays where they are wanted, instead of copying them there.

A result is wanted in the caller's memory, a new parameter in that of the old one, a piece of a
concatenation in its part of the whole, the operand of a reshape in the order that needs no copy. A
request travels backwards through views to the kernel that computes the array, which then writes
with those strides.
"""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.ir.program import Call, Program, Term
from gradwalk.compiler.plan.buffers import Slice, fresh, reshaped, sliced
from gradwalk.compiler.plan.loop_kinds import Kind, kind_of
from gradwalk.compiler.plan.partial_writes import CHANGES, written_part
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
        if kind is Kind.VIEW or (kind is Kind.SCATTER and not target.contiguous):
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
