"""Composites: replace ops by their definition in other ops.

The definition is the op's own `expand`, or one of definitions.py. It runs on handles, whose
operators make calls.
"""

from __future__ import annotations

from collections.abc import Callable
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
    rewrite,
)
from gradwalk.compiler.passes.expand.definitions import CONDITIONS, DEFINITIONS, OF_NOTHING
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Operators

# Composites that have a kernel of their own, or whose definition is slower.
CLOSED: set[str] = {"prod", "cumprod", "logcumsumexp"}


class Handle(Operators):
    """A term with operators; what they compute is added to the program being built."""

    __slots__ = ("build", "term")
    __array_ufunc__ = None

    def __init__(self, build: Builder, term: Term) -> None:
        self.build = build
        self.term = term

    @property
    def shape(self) -> tuple[int, ...]:
        return self.term.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.term.dtype

    @property
    def ndim(self) -> int:
        return len(self.term.shape)

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.attributes and not attrs:
            args, attrs = op._bind(args, attrs)
        build = next(a.build for a in args if isinstance(a, Handle))
        made = build.apply(op, [_operand(a) for a in args], attrs)
        return tuple(Handle(build, t) for t in made) if op.multiple else Handle(build, made)


def _operand(thing: Any) -> Operand:
    if isinstance(thing, Handle):
        return thing.term
    if isinstance(thing, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(thing).reshape(np.shape(thing))
        return Term(array.shape, array.dtype, source=Constant(array))
    return thing


def open_composites(program: Program) -> Program:
    """Replace composite calls by their definitions, and the composites in those by theirs."""
    while ops := {call.op for call in program.calls if _opens(call)}:
        program = rewrite(program, _visit, ops)
    return program


def _opens(call: Call) -> bool:
    if _definition(call.op) is None or call.op.name in CLOSED:
        return False
    # For no elements an op may have a result that its definition, with a maximum in it, has not.
    if not all(term.size for term in call.terms) and call.op not in OF_NOTHING:
        return False
    return call.op not in CONDITIONS or CONDITIONS[call.op](call)


def _definition(op: Op) -> Callable[..., Any] | None:
    return DEFINITIONS.get(op, op.expand)


def _visit(call: Call, args: Args, build: Builder) -> Rewritten:
    if not _opens(call):
        return None
    given = [Handle(build, a) if isinstance(a, Term) else a for a in args]
    definition = _definition(call.op)
    assert definition is not None
    made = definition(*given, **call.attrs)
    return [h.term for h in (made if call.op.multiple else (made,))]
