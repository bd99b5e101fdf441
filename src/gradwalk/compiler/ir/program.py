"""Program: a traced function as a list of calls of ops on terms.

    Term     one array-valued (or 0-d) quantity: its shape, its dtype and where it comes from
    Call     one op applied to terms and plain numbers, with its outputs
    Source   where a term that no call made comes from: an argument, captured memory, a runtime
             scalar, or a constant

A pass takes a program and returns another; it never changes one, except a copy that was made for
it (`copied`). `Builder` makes calls, with the shape and dtype rules of the op table; `rewrite` is
the loop that most passes are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.core.symbol import output_dtypes, output_shapes

Dtype = np.dtype[Any]


# Not NamedTuples: sources of different kinds with the same number are different.
@dataclass(frozen=True)
class Argument:
    """The array at this position among the tensors the function was called with."""

    position: int


@dataclass(frozen=True)
class Memory:
    """Captured memory: the storage with this number (a parameter, a moment, a buffer)."""

    number: int


@dataclass(frozen=True)
class Scalar:
    """A Python number read at every call: the learning rate, a step count."""

    number: int


@dataclass(eq=False)
class Constant:
    """An array that is the same at every call."""

    array: np.ndarray[Any, Any]


Source = Argument | Memory | Scalar | Constant


class Term:
    """One quantity: made by a call (its output number `index`) or given by a source."""

    __slots__ = ("call", "dtype", "index", "shape", "source")

    def __init__(
        self,
        shape: Shape,
        dtype: Dtype,
        call: Call | None = None,
        index: int = 0,
        source: Source | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.call = call
        self.index = index
        self.source = source

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        found = 1
        for n in self.shape:
            found *= n
        return found

    def __repr__(self) -> str:
        made = self.call.op.name if self.call is not None else type(self.source).__name__
        return f"<{made} {self.dtype.name}{list(self.shape)}>"


Operand = Term | int | float | bool
# The strides, in elements, of sources whose elements do not lie in memory in order.
Layout = dict[Term, tuple[int, ...]]


class Call:
    """One op applied: what goes in, what comes out, and the user's line it stands for."""

    __slots__ = ("args", "attrs", "kind", "line", "op", "outputs", "terms")

    def __init__(
        self,
        op: Op,
        args: tuple[Operand, ...],
        attrs: dict[str, Any],
        metas: Iterable[tuple[Shape, Dtype]],
        line: Any = None,
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.line = line
        self.kind: Any = None  # what loops it needs, once the planner asked (plan/loop_kinds.py)
        self.take(args)
        self.outputs = tuple(
            [Term(shape, dtype, self, i) for i, (shape, dtype) in enumerate(metas)]
        )

    def take(self, args: tuple[Operand, ...]) -> None:
        """Have these operands."""
        self.args = args
        self.terms = tuple([a for a in args if isinstance(a, Term)])

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(repr, self.args))})"


@dataclass(eq=False)
class Program:
    """Calls in an order in which each finds its operands made, and what becomes of the results.

    `updates` are (source term of a Memory or Scalar, its value after the call).
    """

    calls: list[Call]
    results: list[Term]
    updates: list[tuple[Term, Term]] = field(default_factory=list)
    owned: bool = False  # nobody else has its calls: a pass may give them other operands

    def __str__(self) -> str:
        """The calls one below the other, to be read."""
        from gradwalk.compiler.ir.listing import listing

        return listing(self)

    def ends(self) -> list[Term]:
        """The terms the program is run for."""
        return [*self.results, *(value for _, value in self.updates)]

    def sources(self) -> list[Term]:
        """The terms that no call made, in order of first use; those only written come last."""
        found: dict[Term, None] = {}
        for call in self.calls:
            for term in call.terms:
                if term.call is None:
                    found[term] = None
        found.update((t, None) for t in self.ends() if t.call is None)
        found.update((t, None) for t, _ in self.updates)
        return list(found)

    def with_calls(self, calls: list[Call], now: dict[Term, Term]) -> Program:
        """This program with other calls, and some terms replaced by others."""
        return replace(
            self,
            calls=calls,
            results=[now.get(t, t) for t in self.results],
            updates=[(place, now.get(t, t)) for place, t in self.updates],
        )

    def consumers(self) -> dict[Term, list[Call]]:
        """The calls that use each term; one that uses it twice is there twice."""
        found: dict[Term, list[Call]] = {}
        for call in self.calls:
            for term in call.terms:
                found.setdefault(term, []).append(call)
        return found


class Builder:
    """Makes calls, in order; shapes and dtypes come from the op table's own rules."""

    def __init__(self, changes: bool = False) -> None:
        self.calls: list[Call] = []
        self.changes = changes  # whether it may give other operands to calls that are there
        self.line: Any = None  # of the user's program, for the calls made from now on

    def apply(self, op: Op, args: Sequence[Operand], attrs: dict[str, Any] | None = None) -> Any:
        """The output of a new call, or a tuple of them for an op with several."""
        attrs = attrs or {}
        shapes = output_shapes(op, tuple(args), attrs)
        dtypes = output_dtypes(op, tuple(args), attrs, len(shapes))
        return self.apply_as(op, args, attrs, zip(shapes, dtypes, strict=True))

    def apply_as(
        self,
        op: Op,
        args: Sequence[Operand],
        attrs: dict[str, Any],
        metas: Iterable[tuple[Shape, Dtype]],
    ) -> Any:
        """The same with shapes and dtypes given."""
        call = Call(op, tuple(args), attrs, metas, self.line)
        self.calls.append(call)
        return call.outputs if op.multiple else call.outputs[0]

    def again(self, call: Call, args: Sequence[Operand]) -> tuple[Term, ...]:
        """The same call on other operands; the call itself if they are the same, or may change."""
        if args is not call.args and tuple(map(id, args)) != tuple(map(id, call.args)):
            if self.changes:
                call.take(tuple(args))
            else:
                metas = [(t.shape, t.dtype) for t in call.outputs]
                call = Call(call.op, tuple(args), call.attrs, metas, call.line)
        self.calls.append(call)
        return call.outputs


# What a pass does with one call: given its new operands, the terms that take the place of its
# outputs, or None to keep it.
Visit = Callable[[Call, tuple[Operand, ...], Builder], Sequence[Term] | None]


def replaced(call: Call, now: dict[Term, Term]) -> tuple[Operand, ...]:
    """The operands of a call after some terms were replaced by others."""
    if now.keys().isdisjoint(call.terms):
        return call.args
    return tuple([now.get(a, a) if isinstance(a, Term) else a for a in call.args])


def rewrite(program: Program, visit: Visit, ops: Collection[Op] | None = None) -> Program:
    """Go through the calls in order and replace what `visit` wants replaced.

    It is asked about calls of `ops` only, if those are given. Where nothing changes, the program
    is the given one.
    """
    if ops is not None and not any(call.op in ops for call in program.calls):
        return program
    build = Builder(changes=program.owned)
    now: dict[Term, Term] = {}
    old = now.keys()  # as it grows
    for call in program.calls:
        asked = ops is None or call.op in ops
        if not asked and old.isdisjoint(call.terms):
            build.calls.append(call)  # most calls, in most passes
            continue
        args = replaced(call, now)
        found = None
        if asked:
            build.line = call.line
            found = visit(call, args, build)
        if found is None:
            found = build.again(call, args)
        if found is not call.outputs:
            now |= zip(call.outputs, found, strict=True)
    if not now and build.calls == program.calls:
        return program
    return program.with_calls(build.calls, now)


def copied(program: Program) -> Program:
    """The same program in calls of its own, which passes may change."""
    calls = []
    now: dict[Term, Term] = {}
    for call in program.calls:
        metas = [(t.shape, t.dtype) for t in call.outputs]
        made = Call(call.op, replaced(call, now), call.attrs, metas, call.line)
        calls.append(made)
        now |= zip(call.outputs, made.outputs, strict=True)
    return replace(program.with_calls(calls, now), owned=True)


def in_order(calls: Sequence[Call]) -> list[Call]:
    """Calls put in an order in which each finds its operands made, as near as can be to the given
    one: a pass may have used a term before the call that makes it."""
    made = set(calls)
    done: set[Call] = set()
    found: list[Call] = []
    for call in calls:
        waiting = [call]
        while waiting:
            here = waiting[-1]
            before = [t.call for t in here.terms if t.call in made and t.call not in done]
            if before:
                waiting += before
                continue
            waiting.pop()
            if here not in done:
                done.add(here)
                found.append(here)
    return found
