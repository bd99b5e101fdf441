"""Broadcasts: an elementwise op broadcasts by itself, so nothing need be expanded for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.graph import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.shape import expand_op


def drop_broadcasts(program: Program) -> Program:
    """Let elementwise calls read what was expanded for them as it was before."""
    expanded = {call.outputs[0] for call in program.calls if call.op is expand_op}

    def visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
        if not call.op.elementwise or expanded.isdisjoint(call.terms):
            return None
        smaller = tuple(_before_expanding(a) for a in args)
        shapes = [a.shape for a in smaller if isinstance(a, Term)]
        if np.broadcast_shapes(*shapes) != call.outputs[0].shape:
            return None
        return build.again(call, smaller)

    return rewrite(program, visit) if expanded else program


def _before_expanding(operand: Operand) -> Operand:
    if isinstance(operand, Term) and operand.call is not None and operand.call.op is expand_op:
        return operand.call.args[0]
    return operand
