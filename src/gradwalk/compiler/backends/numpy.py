"""The NumPy backend: runs a program call by call, as eager code would. Others must agree with it.

It wants no passes and no plan, and takes arrays in any memory order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.ir.program import Argument, Call, Constant, Late, Memory, Program, Term
from gradwalk.compiler.plan.schedule import Layout
from gradwalk.graph.versions import owner_of
from gradwalk.ops.core.op import Op

Array = np.ndarray[Any, Any]
PASSES = ()
CAPABILITIES = None


class Executable:
    """A program that NumPy runs."""

    plan = None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sources = program.sources()
        self.last_use = _last_uses(program)

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], late: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Run it once."""
        values: dict[Term, Any] = {}
        for term in self.sources:
            match term.source:
                case Argument(position):
                    values[term] = arguments[position]
                case Memory(number):
                    values[term] = memories[number]
                case Late(number):
                    values[term] = late[number]
                case Constant(array):
                    values[term] = array
        given = {id(owner_of(v)) for v in values.values() if isinstance(v, np.ndarray)}
        with np.errstate(all="ignore"):
            for number, call in enumerate(self.program.calls):
                outputs = run(call, [values[a] if isinstance(a, Term) else a for a in call.args])
                values.update(zip(call.outputs, outputs, strict=True))
                for term in self.last_use.get(number, ()):
                    del values[term]
        results = [_apart(values[t], t, given) for t in self.program.results]
        new = [(t, _apart(values[v], v, given)) for t, v in self.program.updates]
        late_updates = []
        for place, value in new:
            if isinstance(place.source, Late):
                late_updates.append(value.item())
            else:
                values[place][...] = value
        return results, late_updates


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> Executable:
    """Run the program as it was traced; NumPy rounds every operation."""
    return Executable(lower().program)


def run(call: Call, values: list[Any]) -> list[Any]:
    """The outputs of one call."""
    op = call.op
    if op.elementwise and not any(isinstance(v, np.ndarray) for v in values):
        return [op.on_numbers(values, call.attrs)]  # late-bound numbers, as Python has them
    arrays = [
        np.asarray(v, a.dtype) if isinstance(a, Term) else v
        for a, v in zip(call.args, values, strict=True)
    ]
    found = forward(op, arrays, call.attrs)
    return [np.asarray(f) for f in found] if op.multiple else [np.asarray(found)]


def forward(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """What the op's own forward gives, without residuals."""
    found = op.forward(*arrays, **attrs)
    if not op.residuals:
        return found
    return found[: -len(op.residuals)] if op.multiple else found[0]


def _apart(value: Any, term: Term, given: set[int]) -> Array:
    """A value in memory that is no source's."""
    array = np.asarray(value, term.dtype)
    return array.copy() if array.base is not None or id(owner_of(array)) in given else array


def _last_uses(program: Program) -> dict[int, list[Term]]:
    """Which terms are used last by the call with each number, so that memory can be let go."""
    last: dict[Term, int] = {}
    for number, call in enumerate(program.calls):
        last.update((t, number) for t in call.outputs)
        last.update((t, number) for t in call.terms if t.call is not None)
    for term in program.ends():
        last.pop(term, None)
    found: dict[int, list[Term]] = {}
    for term, number in last.items():
        found.setdefault(number, []).append(term)
    return found
