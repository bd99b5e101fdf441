"""Constant folding: compute calls of constants once, when the program is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.ir.program import (
    Builder,
    Call,
    Constant,
    Operand,
    Program,
    Term,
    forward,
    rewrite,
)

LARGEST = 1 << 16  # elements; to keep a larger constant costs more than to compute it


def fold_constants(program: Program) -> Program:
    """Compute what depends on constants only."""
    return rewrite(program, _fold)


def _fold(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    known = all(not isinstance(a, Term) or isinstance(a.source, Constant) for a in args)
    if not known or not args or any(out.size > LARGEST for out in call.outputs):
        return None
    arrays = [a.source.array if isinstance(a, Term) else a for a in args]  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        outputs = forward(call.op, arrays, call.attrs)
    outputs = outputs if call.op.multiple else (outputs,)
    return [
        Term(out.shape, out.dtype, source=Constant(np.array(array, out.dtype, order="C")))
        for out, array in zip(call.outputs, outputs, strict=True)
    ]
