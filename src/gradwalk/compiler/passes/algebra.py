"""Algebra that changes no bit of a result: x × 1, x / 1, x − 0, −(−x), casts to the same dtype."""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Constant, Operand, Program, Term, rewrite
from gradwalk.ops.elementwise import arithmetic
from gradwalk.ops.shape.reshaping import alias, cast, clone

_OPS = {
    alias, clone, cast,
    arithmetic.mul, arithmetic.div, arithmetic.sub, arithmetic.neg, arithmetic.power,
}  # fmt: skip


def simplify_algebra(program: Program) -> Program:
    """Remove operations that do nothing; a square is a product."""
    return rewrite(program, _visit, _OPS)


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    (out,) = call.outputs
    simpler = _simpler(call, args, build)
    if simpler is None or simpler.shape != out.shape or simpler.dtype != out.dtype:
        return None
    return [simpler]


def _simpler(call: Call, args: tuple[Operand, ...], build: Builder) -> Term | None:
    op = call.op
    first = args[0] if args else None
    if op in (alias, clone) or (op is cast and first.dtype == call.attrs["dtype"]):  # type: ignore[union-attr]
        return first if isinstance(first, Term) else None
    if op is arithmetic.mul:
        for one, other in ((0, 1), (1, 0)):
            if _is(args[one], 1) and isinstance(args[other], Term):
                return args[other]  # type: ignore[return-value]
    if op is arithmetic.div and _is(args[1], 1) and isinstance(first, Term):
        return first
    if op is arithmetic.sub and _is(args[1], 0) and isinstance(first, Term):
        return first
    before = first.call if isinstance(first, Term) else None
    if op is arithmetic.neg and before is not None and before.op is arithmetic.neg:
        inner = before.args[0]
        return inner if isinstance(inner, Term) else None
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
