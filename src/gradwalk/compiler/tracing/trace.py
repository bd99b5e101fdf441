"""trace: run a function once on abstract arrays; what it did is a Program.

    trace(fn, args, keywords) -> Trace

The Trace has the program and everything that a call needs around it: where captured memory and
late-bound numbers are found, which tensors to make of the results and where they go, and the
conditions under which the program is right.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradwalk.compiler.graph import Argument, Term
from gradwalk.compiler.tracing.arguments import replaced
from gradwalk.compiler.tracing.environment import Environment
from gradwalk.compiler.tracing.finish import Finish
from gradwalk.compiler.tracing.numbers import Number
from gradwalk.compiler.tracing.optimizers import held_optimizer
from gradwalk.compiler.tracing.outcome import Trace
from gradwalk.compiler.tracing.places import OfArgument, OfNumber
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.compiler.tracing.tracer import Tracer, tracing
from gradwalk.engine.tree import leaves
from gradwalk.graph.source import where_text

_one_at_a_time = threading.Lock()  # a trace replaces arrays that another might touch


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any] | None = None,
    static: frozenset[Any] = frozenset(),
    names: Sequence[str] = (),
) -> Trace:
    """Run `function` once on stand-ins for its arguments and return what it did."""
    tracer = Tracer()
    with _one_at_a_time, _python_random_unused(function), tracing(tracer):
        environment = Environment(function)
        for optimizer in environment.optimizers:
            held_optimizer(tracer, optimizer)
        standing = StandIns(tracer, args, keywords or {}, static, names)
        result = function(*standing.args, **standing.keywords)
        environment.warn_of_changes(getattr(function, "__code__", None))
        found = Finish(tracer, standing, environment).trace(result)
        standing.originals.clear()  # what refers to itself here is not freed at once
        return found


@contextmanager
def _python_random_unused(function: Callable[..., Any]) -> Iterator[None]:
    """Warn if Python's or NumPy's own random numbers are drawn: they would be drawn only once."""
    before = random.getstate(), _numpy_random_state()
    yield
    for name, old, now in zip(
        ("random", "np.random"), before, (random.getstate(), _numpy_random_state()), strict=True
    ):
        if old != now:
            code = getattr(function, "__code__", None)
            warnings.warn(
                f"a compiled function drew from {name} while it was traced "
                f"({where_text(code, 0)}): every call has the numbers of this one. Fix: draw with "
                "gradwalk (gradwalk.rand), or outside, and pass a tensor.",
                UserWarning,
                stacklevel=6,
            )


def _numpy_random_state() -> Any:
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    kind, keys, *rest = module.get_state()
    return kind, keys.tobytes(), rest


class StandIns:
    """The arguments of the run: abstract tensors, late-bound numbers, the rest as it is."""

    def __init__(
        self,
        tracer: Tracer,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        static: frozenset[Any],
        names: Sequence[str],
    ) -> None:
        self.tracer = tracer
        self.tensors: dict[int, Any] = {}
        self.sources: list[tuple[Traced, Term]] = []
        self.originals: list[Any] = []
        self.floats: list[tuple[float, str]] = []
        count = len({id(t) for t in leaves((args, keywords)) if hasattr(t, "_array")})

        def number(value: float, name: str) -> Number:
            place = OfNumber(count + len(self.floats), name)
            self.floats.append((value, name))
            return tracer.late(place, value)

        def replace(tree: Any, name: Any) -> Any:
            return replaced(tree, self._tensor, number, static, name)

        known = (*names, *range(len(names), len(args)))
        self.args = [replace(a, name) for a, name in zip(args, known, strict=False)]
        self.keywords = {k: replace(a, k) for k, a in keywords.items()}

    def _tensor(self, tensor: Any) -> Any:
        known = self.tensors.get(id(tensor))
        if known is not None:
            return known
        position = len(self.originals)
        self.originals.append(tensor)
        array = tensor._array
        kind: Any = type(tensor)  # a Parameter, say
        stand_in = kind.__new__(kind)
        stand_in._set(array, None, 0)
        stand_in._label = tensor.label
        stand_in.code, stand_in.position = tensor.code, tensor.position
        stand_in._requires_grad = tensor.requires_grad
        stand_in._grad = tensor._grad
        term = Term(array.shape, array.dtype, source=Argument(position))
        traced = Traced(self.tracer, term, array.flags.c_contiguous)
        traced.writeable = array.flags.writeable
        self.sources.append((traced, term))
        self.tracer._hold(stand_in, OfArgument(position), traced)
        self.tensors[id(tensor)] = stand_in
        return stand_in
