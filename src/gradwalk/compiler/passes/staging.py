"""Staging: transpose a matrix in memory once, if many products read it transposed.

A product whose second factor is not in row order copies it into panels first. A recurrent network
would do so with the same weight at every time step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.shape.reshaping import clone, permute

OFTEN = 4


def stage_transposed(program: Program) -> Program:
    """Copy transposed right factors that are used often."""
    used = Counter(call.args[1] for call in program.calls if call.op is matmul_op)
    often = {t for t, count in used.items() if count >= OFTEN and _is_turned(t)}
    if not often:
        return program

    def visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
        if call.op is not permute or call.outputs[0] not in often:
            return None
        (turned,) = build.again(call, args)
        return [build.apply(clone, (turned,))]

    return rewrite(program, visit)


def _is_turned(operand: Operand) -> bool:
    if not isinstance(operand, Term) or operand.call is None or operand.call.op is not permute:
        return False
    axes = operand.call.attrs["axes"]
    return bool(axes[-1] != len(axes) - 1)
