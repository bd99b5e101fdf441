"""The NumPy backend: runs a program call by call, as eager code would. It is the reference.

It wants no passes and no plan, and takes arrays in any memory order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.ir.program import Layout, Program, Scalar, Term, run, source_values
from gradwalk.graph.versions import owner_of

Array = np.ndarray[Any, Any]
PASSES = ()
CAPABILITIES = None


class NumpyExecutable:
    """A program that NumPy runs."""

    plan = None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.last_use = _last_uses(program)

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], scalars: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Run it once."""
        values = source_values(self.program, arguments, memories, scalars)
        given = {id(owner_of(v)) for v in values.values() if isinstance(v, np.ndarray)}
        with np.errstate(all="ignore"):
            for number, call in enumerate(self.program.calls):
                outputs = run(call, [values[a] if isinstance(a, Term) else a for a in call.args])
                values.update(zip(call.outputs, outputs, strict=True))
                for term in self.last_use[number]:
                    del values[term]
        results = [_apart(values[t], t, given) for t in self.program.results]
        new = [(t, _apart(values[v], v, given)) for t, v in self.program.updates]
        scalar_updates = []
        for target, value in new:
            if isinstance(target.source, Scalar):
                scalar_updates.append(value.item())
            else:
                values[target][...] = value
        return results, scalar_updates


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> NumpyExecutable:
    """Run the program as it was traced; NumPy rounds every operation."""
    return NumpyExecutable(lower().program)


def _apart(value: Any, term: Term, given: set[int]) -> Array:
    """A value in memory of its own."""
    array = np.asarray(value, term.dtype)
    return array.copy() if array.base is not None or id(owner_of(array)) in given else array


def _last_uses(program: Program) -> dict[int, list[Term]]:
    """The terms that each call, by its number, is the last to use: their memory can be freed."""
    needed = set(program.ends())
    last: dict[int, list[Term]] = {}
    for number, call in reversed(list(enumerate(program.calls))):
        used = dict.fromkeys((*call.outputs, *call.terms))
        last[number] = [t for t in used if t.call is not None and t not in needed]
        needed.update(used)
    return last
