"""widen_halves: ops on float16 and bfloat16 as casts to float32, the op, and casts back.

So a backend has to know halves in memory and how to round to them, and nothing else.
"""

from __future__ import annotations

from gradwalk.compiler.ir.loops import loop
from gradwalk.compiler.ir.program import Args, Builder, Call, Rewritten, Term, rewrites
from gradwalk.ops.core.dtypes import float32, is_half
from gradwalk.ops.core.halves import beside_halves, half_of, moves
from gradwalk.ops.shape.reshaping import cast


@rewrites()
def widen_halves(call: Call, args: Args, build: Builder) -> Rewritten:
    """Compute with halves in float32, and round once."""
    if moves(call.op) or call.op is loop:
        return None
    if not any(is_half(term.dtype) for term in (*call.terms, *call.outputs)):
        return None
    given = beside_halves(call.op.name, args, half_of(call.terms))
    wide = [
        _as(build, a, float32) if isinstance(a, Term) and is_half(a.dtype) else a for a in given
    ]
    metas = [(t.shape, float32 if is_half(t.dtype) else t.dtype) for t in call.outputs]
    made = build.apply_as(call.op, wide, call.attrs, metas)
    outputs = made if call.op.multiple else (made,)
    return [_as(build, new, old.dtype) for new, old in zip(outputs, call.outputs, strict=True)]


def _as(build: Builder, term: Term, dtype: object) -> Term:
    """A term in a dtype; itself if it has that."""
    if term.dtype == dtype:
        return term
    made: Term = build.apply(cast, (term,), {"dtype": dtype})
    return made
