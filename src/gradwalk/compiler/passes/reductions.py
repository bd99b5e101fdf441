"""Reductions in one form: dimensions stay with length 1, a mean is a sum and a division.

The result then broadcasts against the operand, without a reshape in between, and elementwise work
on it stays in that shape, so that one kernel can do both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Constant,
    Operand,
    Rewritten,
    Term,
    rewrites,
)
from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.elementwise.arithmetic import div
from gradwalk.ops.reduce.reduction import all_op, amax_op, amin_op, any_op, mean_op, sum_op
from gradwalk.ops.shape.reshaping import cast, expand_op, reshape

DEEPEST = 8  # calls back that operands are computed anew
# The results for no elements; the largest of none is an error, which NumPy raises.
_OF_NOTHING: dict[Op, float] = {sum_op: 0, all_op: True, any_op: False, mean_op: math.nan}


@rewrites(sum_op, amax_op, amin_op, all_op, any_op, mean_op)
def keep_dimensions(call: Call, args: Args, build: Builder) -> Rewritten:
    """Write every reduction with keepdim=True, and a reshape where dimensions are dropped."""
    (x,) = args
    assert isinstance(x, Term)
    (out,) = call.outputs
    if not call.attrs["axis"]:  # as inside vmap, of one number for each sample
        return [x if x.dtype == out.dtype else build.apply(cast, (x,), {"dtype": out.dtype})]
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


# -- elementwise work on reduced numbers -----------------------------------------------------------


@rewrites()
def lift_to_reductions(call: Call, args: Args, build: Builder) -> Rewritten:
    """Move reshapes that drop dimensions of length 1 behind the elementwise calls after them.

    A loss of shape (rows,) that comes from a reduction of (rows, classes), kept as (rows, 1), stays
    (rows, 1), and its other operands are computed in that shape. Only dimensions of length 1 come
    and go; no element moves.
    """
    if not _is_elementwise(call):
        return None
    out = call.outputs[0]
    shape = _kept_shape(args, out.shape)
    if shape is None:
        return None
    lifted = [_lifted(a, out.shape, shape, build, DEEPEST) for a in args]
    computed = build.apply_as(call.op, lifted, call.attrs, [(shape, out.dtype)])
    return [build.reshape(computed, out.shape)]


def _is_elementwise(call: Call) -> bool:
    return call.op.elementwise or call.op is cast


def _kept_shape(args: Sequence[Operand], shape: Shape) -> Shape | None:
    """The larger shape that an operand had before dimensions of length 1 were dropped."""
    kept = None
    for operand in args:
        if not isinstance(operand, Term):
            continue
        if operand.shape != shape and operand.size != 1:
            return None  # it broadcasts, and would do so otherwise in another shape
        made = operand.call
        if made is not None and made.op is reshape and operand.shape == shape:
            (before,) = made.terms
            longer = before.ndim > len(shape) and _long(before.shape) == _long(shape)
            if before.shape[-len(shape) :] == shape:
                continue  # without its leading ones it broadcasts as it did with them
            if longer and (kept is None or before.ndim > len(kept)):
                kept = before.shape
    return kept


def _long(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _lifted(operand: Operand, old: Shape, new: Shape, build: Builder, depth: int) -> Operand:
    """An operand in the new shape, computed there if it is elementwise work itself."""
    if not isinstance(operand, Term) or operand.shape == new:
        return operand
    if operand.shape != old:  # a single number, which broadcasts to every shape
        return build.reshape(operand, ())
    call = operand.call
    if call is not None and call.op is reshape:
        (before,) = call.terms
        if before.shape == new:
            return before
    if call is not None and depth and _is_elementwise(call) and _all_of(call, old):
        args = [_lifted(a, old, new, build, depth - 1) for a in call.args]
        return build.apply_as(call.op, args, call.attrs, [(new, operand.dtype)])
    return build.reshape(operand, new)


def _all_of(call: Call, shape: Shape) -> bool:
    return all(t.shape == shape or t.ndim == 0 for t in call.terms)
