"""Dead code: remove calls whose outputs nothing needs."""

from __future__ import annotations

from dataclasses import replace

from gradwalk.compiler.ir.program import Program, Term


def drop_unused(program: Program) -> Program:
    """Keep only the calls that lead to a result or an update."""
    wanted: set[Term] = set(program.ends())
    kept = []
    for call in reversed(program.calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.terms)
            kept.append(call)
    return replace(program, calls=kept[::-1])
