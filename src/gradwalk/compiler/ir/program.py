"""Program: a traced function as a list of calls of ops on terms.

    Term     one array-valued (or 0-d) quantity: its shape, its dtype and where it comes from
    Call     one op applied to terms and plain numbers, with its outputs
    Source   where a term that no call made comes from: an argument, captured memory, a runtime
             scalar, or a constant

A pass takes a program and returns another; it changes only a program that owns its calls
(`copied`). `Builder` makes calls, with the shape and dtype rules of the op table; `rewrite` is the
loop of most passes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from gradwalk.ops.core.dtypes import is_half
from gradwalk.ops.core.halves import computed
from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.core.symbol import output_dtypes, output_shapes
from gradwalk.ops.shape.reshaping import reshape

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class Numbered:
    """A source that every call provides, by its number among those of its class."""

    number: int
    letter = ""  # in listings


class Argument(Numbered):
    """The array at this position among the tensors the function was called with."""

    letter = "a"


class Memory(Numbered):
    """Captured memory: the storage with this number (a parameter, a moment, a buffer)."""

    letter = "m"


class Scalar(Numbered):
    """A Python number read at every call: the learning rate, a step count."""

    letter = "n"


@dataclass(eq=False)
class Constant:
    """An array that is the same at every call."""

    array: np.ndarray[Any, Any]


Source = Numbered | Constant


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
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        made = self.call.op.name if self.call is not None else type(self.source).__name__
        return f"<{made} {self.dtype.name}{list(self.shape)}>"


Operand = Term | int | float | bool
# The strides, in elements, of sources whose elements do not lie in memory in order.
Layout = dict[Term, tuple[int, ...]]


class Call:
    """One op applied to operands: its outputs, and the user's line it belongs to."""

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
        self.kind: Any = None  # of its loops, once it is classified (plan/loop_kinds.py)
        self.take(args)
        self.outputs = tuple(
            [Term(shape, dtype, self, i) for i, (shape, dtype) in enumerate(metas)]
        )

    def take(self, args: tuple[Operand, ...]) -> None:
        """Replace the operands."""
        self.args = args
        self.terms = tuple([a for a in args if isinstance(a, Term)])

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(repr, self.args))})"


@dataclass(eq=False)
class Program:
    """Calls in topological order, and what becomes of their outputs.

    `updates` are (source term of a Memory or Scalar, its value after the call).
    """

    calls: list[Call]
    results: list[Term]
    updates: list[tuple[Term, Term]] = field(default_factory=list)
    must_be_finite: list[Term] = field(default_factory=list)  # or the updates do not happen
    owned: bool = False  # no other program has its calls: a pass may replace their operands

    def __str__(self) -> str:
        from gradwalk.compiler.ir.listing import listing

        return listing(self)

    def ends(self) -> list[Term]:
        """The terms that the program computes: results and new values."""
        return [*self.results, *(value for _, value in self.updates), *self.must_be_finite]

    def sources(self) -> list[Term]:
        """The terms that no call made, in order of first use; those only written come last."""
        used = (t for call in self.calls for t in call.terms)
        read = dict.fromkeys(t for t in (*used, *self.ends()) if t.call is None)
        return list(read | dict.fromkeys(t for t, _ in self.updates))

    def with_calls(self, calls: list[Call], now: dict[Term, Term]) -> Program:
        """This program with other calls, and some terms replaced by others."""
        return replace(
            self,
            calls=calls,
            results=[now.get(t, t) for t in self.results],
            updates=[(target, now.get(t, t)) for target, t in self.updates],
            must_be_finite=[now.get(t, t) for t in self.must_be_finite],
        )

    def consumers(self) -> dict[Term, list[Call]]:
        """The calls that use each term; a call that uses it twice is there twice."""
        consumers: dict[Term, list[Call]] = {}
        for call in self.calls:
            for term in call.terms:
                consumers.setdefault(term, []).append(call)
        return consumers


class Builder:
    """Makes calls, in order; shapes and dtypes come from the op table's own rules."""

    def __init__(self, changes: bool = False) -> None:
        self.calls: list[Call] = []
        self.changes = changes  # whether it may replace the operands of existing calls
        self.line: Any = None  # of the user's program, for the calls made from now on

    def apply(self, op: Op, args: Sequence[Operand], attrs: dict[str, Any] | None = None) -> Any:
        """Add a call; return its output, or a tuple of them for an op with several."""
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

    def reshape(self, term: Term, shape: Shape) -> Term:
        """A term in another shape; itself if it has that already."""
        if term.shape == shape:
            return term
        reshaped: Term = self.apply(reshape, (term,), {"shape": shape})
        return reshaped

    def again(self, call: Call, args: Sequence[Operand]) -> tuple[Term, ...]:
        """Add the same call on other operands: a copy, unless they are equal or may be replaced."""
        if args is not call.args and tuple(map(id, args)) != tuple(map(id, call.args)):
            if self.changes:
                call.take(tuple(args))
            else:
                call = copy_call(call, tuple(args))
        self.calls.append(call)
        return call.outputs


def forward(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """What the op's own forward returns, without residuals."""
    half = any(isinstance(a, np.ndarray) and is_half(a.dtype) for a in arrays)
    outputs = computed(op, arrays, attrs) if half else op.forward(*arrays, **attrs)
    if not op.residuals:
        return outputs
    return outputs[: -len(op.residuals)] if op.multiple else outputs[0]


def run(call: Call, values: list[Any]) -> list[Any]:
    """The outputs of one call, computed by NumPy."""
    op = call.op
    if op.elementwise and not any(isinstance(v, np.ndarray) for v in values):
        return [op.on_numbers(values, call.attrs)]  # runtime scalars, as Python computes them
    arrays = [
        np.asarray(v, a.dtype) if isinstance(a, Term) else v
        for a, v in zip(call.args, values, strict=True)
    ]
    outputs = forward(op, arrays, call.attrs)
    return [np.asarray(output) for output in (outputs if op.multiple else (outputs,))]


def source_values(
    program: Program, arguments: Sequence[Any], memories: Sequence[Any], scalars: Sequence[Any]
) -> dict[Term, Any]:
    """The value of each source, given those of arguments, memories and scalars by number."""
    listed: dict[type, Sequence[Any]] = {Argument: arguments, Memory: memories, Scalar: scalars}
    values: dict[Term, Any] = {}
    for term in program.sources():
        source = term.source
        constant = isinstance(source, Constant)
        values[term] = source.array if constant else listed[type(source)][source.number]  # type: ignore[union-attr]
    return values


# What a pass does with one call: given its new operands, return the terms that replace its outputs,
# or None to keep it.
Args = tuple[Operand, ...]
Rewritten = Sequence[Term] | None
Visit = Callable[[Call, Args, Builder], Rewritten]
Pass = Callable[[Program], Program]


def copy_call(call: Call, args: tuple[Operand, ...]) -> Call:
    """The same call on other operands of the same shapes and dtypes."""
    return Call(call.op, args, call.attrs, [(t.shape, t.dtype) for t in call.outputs], call.line)


def replaced(call: Call, now: dict[Term, Term]) -> tuple[Operand, ...]:
    """The operands of a call after terms were replaced by others."""
    if now.keys().isdisjoint(call.terms):
        return call.args
    return tuple([now.get(a, a) if isinstance(a, Term) else a for a in call.args])


def rewrite(program: Program, visit: Visit, ops: Collection[Op] | None = None) -> Program:
    """Replace calls, in order, by what `visit` returns for them.

    With `ops` it visits calls of those only. If nothing changes it returns the program itself.
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
        outputs = None
        if asked:
            build.line = call.line
            outputs = visit(call, args, build)
        if outputs is None:
            outputs = build.again(call, args)
        if outputs is not call.outputs:
            now |= zip(call.outputs, outputs, strict=True)
    if not now and build.calls == program.calls:
        return program
    return program.with_calls(build.calls, now)


def rewrites(*ops: Op) -> Callable[[Visit], Pass]:
    """Make a pass of a visit: it visits the calls of these ops, or all calls."""

    def made(visit: Visit) -> Pass:
        @functools.wraps(visit)
        def run(program: Program) -> Program:
            return rewrite(program, visit, ops or None)

        return cast(Pass, run)

    return made


def copied(program: Program) -> Program:
    """The same program with calls of its own, which passes may change."""
    calls = []
    now: dict[Term, Term] = {}
    for call in program.calls:
        made = copy_call(call, replaced(call, now))
        calls.append(made)
        now |= zip(call.outputs, made.outputs, strict=True)
    return replace(program.with_calls(calls, now), owned=True)


def in_order(calls: Sequence[Call]) -> list[Call]:
    """Calls in topological order, near the given one: a pass may have used a term before the call
    that makes it."""
    made = set(calls)
    done: set[Call] = set()
    order: list[Call] = []
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
                order.append(here)
    return order
