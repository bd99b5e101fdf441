"""A loop in a program: one call of `loop`, whose body is a program of its own.

The body takes, as its arguments by number, the operands of the call: first the row of this
iteration of each array in `rows`, then the states as the iteration before left them (at first the
operands themselves), then what is the same in all iterations. It returns rows of new arrays, then
the new states. The call gives those arrays, then for each state all its values (`histories`: the
first as well, one more than iterations, in the order of the rows) or the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import (
    Argument,
    Builder,
    Call,
    Constant,
    Dtype,
    Operand,
    Program,
    Term,
    copy_call,
    replaced,
    run,
)
from gradwalk.ops.core.op import Op, Shape


def _forward(
    *operands: Any, body: Program, count: int, reverse: bool, rows: int, histories: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Iteration after iteration."""
    shape = LoopShape(count, reverse, rows, histories)
    states = list(operands[rows : shape.fixed])
    outputs = [
        np.empty((count, *t.shape), t.dtype)
        for t in body.results[: len(body.results) - len(histories)]
    ]
    kept = [np.empty((count + 1, *s.shape), s.dtype) for s in states]
    for history, state in zip(kept, states, strict=True):
        history[shape.row_before(0)] = state
    for iteration in range(count):
        row = shape.row(iteration)
        given = [*(x[row] for x in operands[:rows]), *states, *operands[shape.fixed :]]
        results = evaluate(body, given)
        for output, value in zip(outputs, results, strict=False):
            output[row] = value
        states = results[len(outputs) :]
        for history, state in zip(kept, states, strict=True):
            history[shape.row_after(iteration)] = state
    ends = zip(histories, kept, states, strict=True)
    return *outputs, *(history if whole else last for whole, history, last in ends)


loop = Op(
    "loop", _forward, None, [None], elementwise=False, inputs=("*operands",), outputs=("results",)
)


@dataclass(frozen=True)
class LoopShape:
    """How a loop runs: the attributes of its call, but for the body."""

    count: int
    reverse: bool
    rows: int
    histories: tuple[bool, ...]

    @property
    def fixed(self) -> int:
        """The number of the first operand that is the same in all iterations."""
        return self.rows + len(self.histories)

    def row(self, iteration: int) -> int:
        """The row that an iteration takes of its arrays."""
        return self.count - 1 - iteration if self.reverse else iteration

    def row_before(self, iteration: int) -> int:
        """The row of a history with the state that an iteration starts from."""
        return self.count - iteration if self.reverse else iteration

    def row_after(self, iteration: int) -> int:
        """The row of a history with the state that an iteration leaves."""
        return self.row_before(iteration + 1)


def shape_of(call: Call) -> LoopShape:
    """How the loop of a call runs."""
    return LoopShape(**{name: value for name, value in call.attrs.items() if name != "body"})


def body_of(call: Call) -> Program:
    """The program of one iteration."""
    body: Program = call.attrs["body"]
    return body


def evaluate(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """The results of a program without memories, computed by NumPy."""
    values = {
        t: t.source.array if isinstance(t.source, Constant) else arguments[t.source.number]  # type: ignore[union-attr]
        for t in program.sources()
    }
    for call in program.calls:
        operands = [values[a] if isinstance(a, Term) else a for a in call.args]
        values.update(zip(call.outputs, run(call, operands), strict=True))
    return [values[t] for t in program.results]


def add_loop(
    build: Builder,
    calls: Iterable[Call],
    shape: tuple[int, bool],  # count, reverse
    rows: Sequence[tuple[Term, Term]],  # the term in the body, and the array it is a row of
    states: Sequence[tuple[Term, Term, Term, bool]],  # in the body, first, new; all wanted
    outputs: Sequence[Term],  # whose rows are wanted
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Add a loop over calls that refer to terms of the program around it; return arrays of the
    outputs, and the states."""
    results = [*outputs, *(new for _, _, new, _ in states)]
    given = {term for term, _ in rows} | {term for term, *_ in states}
    kept = leading_to(calls, results, given)
    used = dict.fromkeys(t for t in (*(t for c in kept for t in c.terms), *results))
    rows = [(term, array) for term, array in rows if term in used]
    moving = [*rows, *((term, first) for term, first, _, _ in states)]
    inside = {t for call in kept for t in call.outputs}
    fixed = [t for t in used if t not in inside | given and not isinstance(t.source, Constant)]
    sources = [*(term for term, _ in moving), *fixed]
    now = {t: Term(t.shape, t.dtype, source=Argument(i)) for i, t in enumerate(sources)}
    copies = []
    for call in kept:
        made = copy_call(call, replaced(call, now))
        copies.append(made)
        new = zip(call.outputs, made.outputs, strict=True)
        now |= {old: term for old, term in new if old not in given}
    count, reverse = shape
    attrs: dict[str, Any] = dict(
        body=Program(copies, [now.get(t, t) for t in results]),
        count=count,
        reverse=reverse,
        rows=len(rows),
        histories=tuple(whole for *_, whole in states),
    )
    metas: list[tuple[Shape, Dtype]] = [((count, *t.shape), t.dtype) for t in outputs]
    for term, _, _, whole in states:
        metas.append(((count + 1, *term.shape) if whole else term.shape, term.dtype))
    made = build.apply_as(loop, [*(term for _, term in moving), *fixed], attrs, metas)
    return made[: len(outputs)], made[len(outputs) :]


def leading_to(
    calls: Iterable[Call], terms: Iterable[Term], given: Collection[Term] = ()
) -> list[Call]:
    """The calls that these terms need, if some are given."""
    wanted = set(terms)
    kept = []
    for call in reversed(list(calls)):
        if any(t in wanted and t not in given for t in call.outputs):
            wanted.update(call.terms)
            kept.append(call)
    return kept[::-1]


def used_parts(call: Call, wanted: Collection[Term]) -> tuple[list[int], list[int]]:
    """The numbers of the outputs of a loop that are wanted (and of all states), and of the operands
    that the body needs for them."""
    body, shape = body_of(call), shape_of(call)
    arrays = len(body.results) - len(shape.histories)
    kept = [i for i, out in enumerate(call.outputs) if i >= arrays or out in wanted]
    results = [body.results[i] for i in kept]
    read = {t for c in leading_to(body.calls, results) for t in c.terms} | set(results)
    numbers = {t.source.number for t in read if isinstance(t.source, Argument)}
    numbers.update(range(shape.rows, shape.fixed))
    return kept, sorted(numbers)


def trimmed(
    call: Call, args: Sequence[Operand], kept: list[int], stay: list[int], build: Builder
) -> dict[int, Term]:
    """Add the loop again with some outputs and operands only; return the outputs by number."""
    body, shape = body_of(call), shape_of(call)
    results = [body.results[i] for i in kept]
    new_number = {old: new for new, old in enumerate(stay)}
    now = {
        t: Term(t.shape, t.dtype, source=Argument(new_number[t.source.number]))
        for t in body.sources()
        if isinstance(t.source, Argument) and t.source.number in new_number
    }
    calls = []
    for one in leading_to(body.calls, results):
        made = copy_call(one, replaced(one, now))
        calls.append(made)
        now |= zip(one.outputs, made.outputs, strict=True)
    attrs = {
        **call.attrs,
        "body": replace(body, calls=calls, results=[now.get(t, t) for t in results]),
        "rows": sum(i < shape.rows for i in stay),
    }
    metas = [(call.outputs[i].shape, call.outputs[i].dtype) for i in kept]
    outputs = build.apply_as(loop, [args[i] for i in stay], attrs, metas)
    return dict(zip(kept, outputs, strict=True))
