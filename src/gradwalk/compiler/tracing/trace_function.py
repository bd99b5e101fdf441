"""trace: run a function once on abstract arrays; what it does becomes a Program.

The TracedProgram has the program and everything that a call needs around it: the locations of
captured memory and runtime scalars, the tensors to make of the results and where they go, and the
guards.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gradwalk.compiler.capture.environment_guards import Environment
from gradwalk.compiler.capture.guards import Variable, is_plain
from gradwalk.compiler.capture.locations import ArgumentLocation, ScalarLocation
from gradwalk.compiler.capture.optimizers import capture_optimizer
from gradwalk.compiler.capture.runtime_scalars import RuntimeScalar
from gradwalk.compiler.functional.functional_array import FunctionalArray
from gradwalk.compiler.functional.memory_order import layout_of
from gradwalk.compiler.ir.program import Argument, Term
from gradwalk.compiler.tracing.aliasing import overlap
from gradwalk.compiler.tracing.arguments import UNALIGNED, Arguments, is_record, order_of, replaced
from gradwalk.compiler.tracing.deferred_signals import signals_deferred
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.compiler.tracing.outcome_reader import OutcomeReader
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.compiler.tracing.tracer import ArgumentIsCaptured, Tracer, tracing
from gradwalk.graph.fork_locks import TRACE, fork_safe
from gradwalk.tensors.devices import device_of

# A trace replaces arrays that another might touch.
_one_at_a_time = fork_safe(threading.Lock(), TRACE)


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any] | None = None,
    static: frozenset[Any] = frozenset(),
    names: Sequence[str] = (),
    memories: Sequence[Any] | None = None,
    keeps_composites: bool = False,
) -> TracedProgram:
    """Run `function` once on stand-ins for its arguments and return what it did.

    A program that `keeps_composites` has them as one call each, if the function runs in `no_grad`.

    Given the captured `memories` of an earlier trace, it takes each for memory of its own, also one
    that is now a view; it puts back all that the function changed, and warns of nothing.

    If an argument is also a tensor that the function knows by itself (a parameter of a module it
    uses), begin again and capture it.
    """
    known: set[int] = set()
    rebound = True  # whether a variable may refer to another tensor in the next call
    while True:
        try:
            traced = _trace(
                Tracer(keeps_composites), function, args, keywords or {}, static, names, known,
                rebound, memories,
            )  # fmt: skip
        except ArgumentIsCaptured as given:
            known.add(id(given.tensor))
        else:
            if not rebound or not _overlaps(traced):
                return traced
            rebound = False  # these tensors are parts of one another


def _overlaps(traced: TracedProgram) -> bool:
    """Whether memory that is changed is part of other captured memory, found in variables."""
    locations = [location for memory in traced.captured for location in memory.locations]
    if not any(isinstance(location, Variable) for location in locations):
        return False
    return overlap([memory.array for memory in traced.captured], traced.written) is not None


def _trace(
    tracer: Tracer,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    static: frozenset[Any],
    names: Sequence[str],
    known: set[int],
    rebound: bool,
    memories: Sequence[Any] | None,
) -> TracedProgram:
    tracer.own_memories = {id(array) for array in memories or ()}
    again = memories is not None
    with signals_deferred(), _one_at_a_time:
        given = _objects(names, args, keywords)
        environment = Environment(function, given, _inside([args, keywords]))
        with tracing(tracer), _taken_back(environment, again):
            for optimizer in environment.optimizers:  # before the function reads a learning rate
                capture_optimizer(tracer, optimizer)
            if rebound:
                tracer.variables = {
                    number: variable
                    for number, variable in environment.tensors.items()
                    if variable is not None and number not in known
                }
            standing = StandIns(tracer, args, keywords, static, names, known)
            result = function(*standing.args, **standing.keywords)
            if tracer.refusals:  # caught by the function, which went on with something else
                raise tracer.refusals[0]
            code = getattr(function, "__code__", None)
            for module in environment.modules:
                tracer.modules.enter_lists(module)
            assigned = environment.settle(code, tracer.modules.before.keys(), again)
            traced = OutcomeReader(tracer, standing, environment, assigned).read(result)
        standing.originals.clear()  # a cycle refers to them, and is not freed at once
        return traced


@contextmanager
def _taken_back(environment: Environment, again: bool) -> Iterator[None]:
    """If the run fails, remove what it made from outside."""
    try:
        yield
    except BaseException:
        with suppress(TraceError):
            environment.put_back()
        if again:
            environment.put_all_back()
        raise


def _objects(names: Sequence[str], args: Any, keywords: Any) -> dict[str, Any]:
    """The arguments that are neither tensors nor values: their attributes may change."""
    given = {**dict(zip(names, args, strict=False)), **keywords}
    return {
        name: thing
        for name, thing in given.items()
        if not is_plain(thing)
        and not hasattr(type(thing), "_array")
        and not issubclass(type(thing), (tuple, list, dict))
        and not is_record(thing)
    }


def _inside(tree: Any) -> Iterator[Any]:
    """The same, of those that have no name of their own: they are in lists, dictionaries and
    records, or among `*args`."""
    if issubclass(type(tree), (dict, list)) and type(tree) not in (dict, list):
        yield tree
    if issubclass(type(tree), dict):
        tree = list(tree.values())
    elif is_record(tree):
        tree = [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    if issubclass(type(tree), (tuple, list)):
        for part in tree:
            yield from _inside(part)
    elif not is_plain(tree) and not hasattr(type(tree), "_array"):
        yield tree


class StandIns:
    """The arguments of the run: abstract tensors and runtime scalars; the rest is as given."""

    def __init__(
        self,
        tracer: Tracer,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        static: frozenset[Any],
        names: Sequence[str],
        known: set[int],  # ids of tensors that the function knows by itself
    ) -> None:
        self.tracer = tracer
        self.known = known
        self.captured_arguments: dict[int, Any] = {}  # by position, arguments that are `known`
        self.tensors: dict[int, Any] = {}
        self.sources: list[tuple[Traced, Term]] = []
        self.originals: list[Any] = []
        self.floats: list[tuple[float, str]] = []
        count = len(Arguments(args, keywords, static, True).tensors)

        def number(value: float, name: str) -> RuntimeScalar:
            location = ScalarLocation(count + len(self.floats), name)
            self.floats.append((value, name))
            return tracer.runtime_scalar(location, value)

        def replace(tree: Any, name: Any) -> Any:
            return replaced(tree, self._tensor, number, static, name)

        named = (*names, *range(len(names), len(args)))
        self.args = [replace(a, name) for a, name in zip(args, named, strict=False)]
        self.keywords = {k: replace(a, k) for k, a in keywords.items()}

    def _tensor(self, tensor: Any) -> Any:
        known = self.tensors.get(id(tensor))
        if known is not None:
            return known
        position = len(self.originals)
        self.originals.append(tensor)
        if id(tensor) in self.known:
            self.tensors[id(tensor)] = self.captured_arguments[position] = tensor
            return tensor
        self.tracer.given.add(id(tensor))
        array = tensor._array
        if isinstance(array, FunctionalArray):
            self.tracer.runs_on(device_of(array))
        kind: Any = type(tensor)  # a Parameter, say
        stand_in = object.__new__(kind)
        stand_in._set(array, None, 0)
        stand_in._label = tensor.label
        stand_in.code, stand_in.position = tensor.code, tensor.position
        stand_in._requires_grad = tensor.requires_grad
        stand_in._grad = tensor._grad
        if tensor.hooks and any(tensor.hooks.values()):
            stand_in.original_has_hooks = True
        term = Term(array.shape, array.dtype, source=Argument(position))
        layout = None if order_of(array) == UNALIGNED else layout_of(array)
        traced = Traced(self.tracer, term, layout)
        traced.writeable = array.flags.writeable
        self.sources.append((traced, term))
        self.tracer._capture(stand_in, ArgumentLocation(position), traced)
        self.tensors[id(tensor)] = stand_in
        return stand_in
