"""Constants: calls whose operands are all known are computed once, when the program is made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.backends.numpy import forward
from gradwalk.compiler.ir.program import Builder, Call, Constant, Operand, Program, Term, rewrite

LARGEST = 1 << 16  # elements; a larger constant would cost more to keep than to make


def fold_constants(program: Program) -> Program:
    """Compute what depends on constants only."""
    return rewrite(program, _fold)


def _fold(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    known = all(not isinstance(a, Term) or isinstance(a.source, Constant) for a in args)
    if not known or not args or any(out.size > LARGEST for out in call.outputs):
        return None
    arrays = [a.source.array if isinstance(a, Term) else a for a in args]  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        found = forward(call.op, arrays, call.attrs)
    many = found if call.op.multiple else (found,)
    return [
        Term(out.shape, out.dtype, source=Constant(np.array(array, out.dtype, order="C")))
        for out, array in zip(call.outputs, many, strict=True)
    ]
