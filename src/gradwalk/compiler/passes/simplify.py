"""Simplifications that change no bit of a result: less to compute, the same numbers.

drop_unused         calls whose outputs nothing needs
fold_constants      calls of constants are computed when the program is compiled
simplify_algebra    x × 1, x / 1, x − 0, −(−x), casts to the same dtype
merge_equal_calls   a call like an earlier one is that one
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

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
    forward,
    rewrite,
    rewrites,
)
from gradwalk.ops.elementwise import arithmetic
from gradwalk.ops.shape.reshaping import alias, cast, clone

LARGEST = 1 << 16  # elements; to keep a larger constant costs more than to compute it


def drop_unused(program: Program) -> Program:
    """Keep only the calls that lead to a result or an update."""
    wanted: set[Term] = set(program.ends())
    kept = []
    for call in reversed(program.calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.terms)
            kept.append(call)
    return replace(program, calls=kept[::-1])


@rewrites()
def fold_constants(call: Call, args: Args, build: Builder) -> Rewritten:
    """Compute what depends on constants only."""
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


# -- algebra ---------------------------------------------------------------------------------------


@rewrites(
    alias, clone, cast,
    arithmetic.mul, arithmetic.div, arithmetic.sub, arithmetic.neg, arithmetic.power,
)  # fmt: skip
def simplify_algebra(call: Call, args: Args, build: Builder) -> Rewritten:
    """Remove operations that do nothing; a square is a product."""
    (out,) = call.outputs
    simpler = _simpler(call, args, build)
    if not isinstance(simpler, Term) or simpler.shape != out.shape or simpler.dtype != out.dtype:
        return None
    return [simpler]


def _simpler(call: Call, args: tuple[Operand, ...], build: Builder) -> Operand | None:
    op, first = call.op, args[0]
    if op in (alias, clone) or (op is cast and first.dtype == call.attrs["dtype"]):  # type: ignore[union-attr]
        return first
    if op is arithmetic.mul:
        for one, other in (args, args[::-1]):
            if _is(one, 1) and isinstance(other, Term):
                return other
    if (op is arithmetic.div and _is(args[1], 1)) or (op is arithmetic.sub and _is(args[1], 0)):
        return first
    before = first.call if isinstance(first, Term) else None
    if op is arithmetic.neg and before is not None and before.op is arithmetic.neg:
        return before.args[0]
    if op is arithmetic.power and isinstance(first, Term) and call.attrs.get("exponent") == 2:
        return build.apply(arithmetic.mul, (first, first))
    return None


def _is(operand: Operand, number: int) -> bool:
    """Whether an operand is this number; −0 differs from 0."""
    if isinstance(operand, Term):
        if not isinstance(operand.source, Constant) or operand.size != 1:
            return False
        operand = operand.source.array.item()
    return operand == number and (number != 0 or str(float(operand)) == "0.0")


# -- common subexpressions -------------------------------------------------------------------------


def merge_equal_calls(program: Program) -> Program:
    """Compute equal things once."""
    known: dict[Hashable, tuple[Term, ...]] = {}

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
        attributes = _attribute_key(call.attrs) if call.attrs else ()
        key = (call.op, tuple(map(_operand_key, args)), attributes)
        if key not in known:
            known[key] = build.again(call, args)
        return known[key]

    return rewrite(program, visit)


def _operand_key(operand: Operand) -> Hashable:
    if not isinstance(operand, Term):
        return type(operand), repr(operand)  # 0.0 and -0.0 differ; so do 1, 1.0 and True
    if operand.call is None and isinstance(operand.source, Constant) and operand.size <= 64:
        return operand.dtype, operand.shape, operand.source.array.tobytes()
    return id(operand)


def _attribute_key(value: Any) -> Hashable:
    """A hashable key for attributes; what cannot be hashed equals only itself."""
    if isinstance(value, dict):
        return tuple((k, _attribute_key(v)) for k, v in sorted(value.items()))
    if isinstance(value, (tuple, list)):
        return tuple(map(_attribute_key, value))
    if isinstance(value, (int, float, bool)):
        return type(value), repr(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
