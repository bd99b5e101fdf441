"""Common subexpressions: a call equal to an earlier one is that one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from gradwalk.compiler.ir.program import Builder, Call, Constant, Operand, Program, Term, rewrite


def merge_equal_calls(program: Program) -> Program:
    """Compute equal things once."""
    known: dict[Hashable, tuple[Term, ...]] = {}

    def visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
        attributes = _attribute_key(call.attrs) if call.attrs else ()
        key = (call.op, tuple(map(_operand_key, args)), attributes)
        found = known.get(key)
        if found is None:
            known[key] = found = build.again(call, args)
        return found

    return rewrite(program, visit)


def _operand_key(operand: Operand) -> Hashable:
    if not isinstance(operand, Term):
        return type(operand), repr(operand)  # 0.0 and -0.0, 1 and 1.0 and True are different
    if operand.call is None and isinstance(operand.source, Constant) and operand.size <= 64:
        return operand.dtype, operand.shape, operand.source.array.tobytes()
    return id(operand)


def _attribute_key(value: Any) -> Hashable:
    """Attributes as something that can be compared; what cannot is equal to itself only."""
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
