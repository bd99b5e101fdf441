"""Views: merge reshapes and permutations, drop broadcasts that elementwise ops do themselves."""

from __future__ import annotations

import numpy as np

from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Constant,
    Operand,
    Program,
    Rewritten,
    Term,
    rewrite,
    rewrites,
)
from gradwalk.ops.shape.reshaping import expand_op, permute, reshape


@rewrites(reshape, permute, expand_op)
def merge_reshapes(call: Call, args: Args, build: Builder) -> Rewritten:
    """Replace chains of reshapes or permutations by one, and by none if it does nothing."""
    (x,) = args
    assert isinstance(x, Term)
    out = call.outputs[0]
    inner = x.call if x.call is not None and x.call.op is call.op else None
    if call.op is permute:
        axes = call.attrs["axes"]
        in_order = tuple(range(len(axes)))
        if axes == in_order:
            return [x]
        if inner is None:
            return None
        (before,), axes = inner.terms, tuple(inner.attrs["axes"][i] for i in axes)
        return [before if axes == in_order else build.apply(permute, (before,), {"axes": axes})]
    if x.shape == out.shape:
        return [x]
    if inner is None:
        return None
    (before,) = inner.terms
    if call.op is reshape and before.shape == out.shape:
        return [before]
    return [build.apply(call.op, (before,), {"shape": out.shape})]


def drop_broadcasts(program: Program) -> Program:
    """Make elementwise calls read operands as they were before they were expanded, and the number
    of a constant that is one number everywhere."""
    expanded = {call.outputs[0] for call in program.calls if call.op is expand_op}
    constants = [term for term in program.sources() if isinstance(term.source, Constant)]
    numbers = {term: number for term in constants if (number := _one_number(term)) is not None}
    if not expanded and not numbers:
        return program

    def before(operand: Operand) -> Operand:
        if not isinstance(operand, Term):
            return operand
        if operand.call is not None and operand.call.op is expand_op:
            return operand.call.args[0]
        return numbers.get(operand, operand)

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
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


def _one_number(term: Term) -> Term | None:
    """The number of a constant whose elements all have the same bits; else None."""
    array = term.source.array  # type: ignore[union-attr]
    if array.size < 2:
        return None
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
    if not (bits == bits[0]).all():
        return None
    return Term((), term.dtype, source=Constant(np.array(array.flat[0], array.dtype)))
