"""Reductions in one form: dimensions stay with length 1, a mean is a sum and a division.

The result then broadcasts against the operand, without a reshape in between, and both can be one
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.ir.program import Builder, Call, Constant, Operand, Program, Term, rewrite
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.arithmetic import div
from gradwalk.ops.reduce.reduction import all_op, amax_op, amin_op, any_op, mean_op, sum_op
from gradwalk.ops.shape.reshaping import expand_op

_KEEPING = {sum_op, amax_op, amin_op, all_op, any_op, mean_op}
# The results for no elements; the largest of none is an error, which NumPy raises.
_OF_NOTHING: dict[Op, float] = {sum_op: 0, all_op: True, any_op: False, mean_op: math.nan}


def keep_dimensions(program: Program) -> Program:
    """Write every reduction with keepdim=True, and a reshape where dimensions are dropped."""
    return rewrite(program, _visit, _KEEPING)


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    (x,) = args
    assert isinstance(x, Term)
    (out,) = call.outputs
    if out.size and not x.size and call.op in _OF_NOTHING:
        nothing = np.array(_OF_NOTHING[call.op], out.dtype)
        constant = Term((), out.dtype, source=Constant(nothing))
        return [build.apply(expand_op, (constant,), {"shape": out.shape})]
    if call.op is not mean_op and call.attrs["keepdim"]:
        return None
    attrs = {**call.attrs, "keepdim": True}
    if call.op is mean_op:
        total = build.apply(sum_op, (x,), attrs)
        count = x.size // total.size if total.size else 1
        kept = build.apply(div, (total, float(count)))
    else:
        kept = build.apply(call.op, (x,), attrs)
    return [build.reshape(kept, out.shape)]
