"""Common subexpressions: replace a call by an equal earlier one."""

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
