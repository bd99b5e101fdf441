"""Lifting: compute elementwise work on reduced numbers in the shape of the reduction.

A loss of shape (rows,) that comes from a reduction of (rows, classes), kept as (rows, 1), stays
(rows, 1), and its other operands are computed in that shape. So one kernel can do both. Only
dimensions of length 1 come and go; no element moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.core.op import Shape
from gradwalk.ops.shape.reshaping import cast, reshape

DEEPEST = 8  # calls back that operands are computed anew


def lift_to_reductions(program: Program) -> Program:
    """Move reshapes that drop dimensions of length 1 behind the elementwise calls after them."""
    return rewrite(program, _visit)


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
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
