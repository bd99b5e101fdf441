"""Broadcasts: an elementwise op broadcasts by itself, and needs no expanded operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.ir.program import Builder, Call, Constant, Operand, Program, Term, rewrite
from gradwalk.ops.shape.reshaping import expand_op


def drop_broadcasts(program: Program) -> Program:
    """Make elementwise calls read operands as they were before they were expanded, and the number
    of a constant that is one number everywhere."""
    expanded = {call.outputs[0] for call in program.calls if call.op is expand_op}
    constants = [term for term in program.sources() if isinstance(term.source, Constant)]
    numbers = {term: number for term in constants if (number := _number_of(term)) is not None}
    if not expanded and not numbers:
        return program

    def before(operand: Operand) -> Operand:
        if not isinstance(operand, Term):
            return operand
        if operand.call is not None and operand.call.op is expand_op:
            return operand.call.args[0]
        return numbers.get(operand, operand)

    def visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
        terms = call.terms
        if not call.op.elementwise or (
            expanded.isdisjoint(terms) and numbers.keys().isdisjoint(terms)
        ):
            return None
        smaller = tuple(before(a) for a in args)
        shapes = [a.shape for a in smaller if isinstance(a, Term)]
        if np.broadcast_shapes(*shapes) != call.outputs[0].shape:
            return None
        return build.again(call, smaller)

    return rewrite(program, visit)


def _number_of(term: Term) -> Term | None:
    """The number of a constant whose elements all have the same bits; else None."""
    array = term.source.array  # type: ignore[union-attr]
    if array.size < 2:
        return None
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
    if not (bits == bits[0]).all():
        return None
    return Term((), term.dtype, source=Constant(np.array(array.flat[0], array.dtype)))
