"""Two traces of one function: are they the same program, and if not, where do they part?

Every term gets a number, the same in both programs if it is computed in the same way from the same
sources; the order of independent calls does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.capture.guards import is_plain
from gradwalk.compiler.capture.locations import GeneratorLocation, Location, TensorLocation
from gradwalk.compiler.ir.program import Argument, Call, Constant, Memory, Program, Scalar, Term
from gradwalk.compiler.tracing.outcome import (
    Alias,
    CapturedMemory,
    Numeral,
    Record,
    Slot,
    TracedProgram,
)
from gradwalk.ops.core.op import Op


@dataclass
class Parting:
    """What is not as it was, and the lines (code, position) that say so."""

    what: str
    before: Any = None
    now: Any = None


def difference(before: TracedProgram, arrays: list[Any], now: TracedProgram) -> Parting | None:
    """The first difference; None if there is none. `arrays` are the captured arrays of the older
    trace as they were last found."""
    table: dict[Any, int] = {}
    captured = [memory.array for memory in now.captured]
    # Others, such as the mask of a layer, are made in every trace: their elements count.
    outside = {id(array) for array in arrays} & {id(array) for array in captured}
    old = _Numbering(table, before, arrays, outside)
    new = _Numbering(table, now, captured, outside)
    if old.ends() != new.ends():
        return _first(old, new)
    if old.around() != new.around():
        return _around(old.around(), new.around())
    return None


def numbered_alike(before: TracedProgram, arrays: list[Any], now: TracedProgram) -> bool:
    """Whether there is no difference, and sources have the same numbers in both."""
    memories = [_memory(memory) for memory in before.captured]
    if memories != [_memory(memory) for memory in now.captured]:
        return False
    if list(map(_location, before.scalars)) != list(map(_location, now.scalars)):
        return False
    kinds = [[(t.source, t.shape, t.dtype) for t in trace.program.sources()
              if not isinstance(t.source, Constant)] for trace in (before, now)]  # fmt: skip
    if kinds[0] != kinds[1]:
        return False
    calls = [[call.op for call in trace.program.calls] for trace in (before, now)]
    if calls[0] != calls[1]:
        return False
    if _layout(before) != _layout(now):
        return False
    return difference(before, arrays, now) is None


def _layout(trace: TracedProgram) -> dict[Any, Any]:
    return {term.source: strides for term, strides in trace.layout.items()}


def _memory(memory: CapturedMemory) -> list[tuple[str, ...]]:
    """Where captured memory is found; that of a tensor made in the trace could be anywhere."""
    return [_location(p) for p in memory.locations if not isinstance(p, TensorLocation)]


class _Numbering:
    """The numbers of a trace's terms."""

    def __init__(
        self, table: dict[Any, int], trace: TracedProgram, arrays: list[Any], outside: set[int]
    ) -> None:
        self.table = table
        self.trace = trace
        self.arrays = arrays
        self.outside = outside
        self.terms: dict[Term, int] = {}
        self.calls: dict[Call, int] = {}
        self._number(trace.program)
        if trace.gradient is not None:
            self._number(trace.gradient.program)

    def _number(self, program: Program) -> None:
        for call in program.calls:
            args = tuple([self.operand(a) for a in call.args])
            key: Any = (call.op.name, args, _key(call.attrs))
            self.calls[call] = self.table.setdefault(key, len(self.table))
            for term in call.outputs:
                key = ("output", self.calls[call], term.index)
                self.terms[term] = self.table.setdefault(key, len(self.table))

    def operand(self, operand: Any) -> Any:
        """The number of a term; the type and text of a plain number."""
        if not isinstance(operand, Term):
            return _key(operand)
        known = self.terms.get(operand)
        if known is None:
            key = (operand.shape, operand.dtype.str, self._source(operand.source))
            known = self.terms[operand] = self.table.setdefault(key, len(self.table))
        return known

    def _source(self, source: Any) -> Any:
        match source:
            case Constant(array):
                return "constant", array.tobytes()
            case Argument(number):
                return "argument", number
            case Memory(number):
                locations = self.trace.captured[number].locations
                for location in locations:
                    if isinstance(location, GeneratorLocation):
                        return "generator", id(location.generator)
                array = self.arrays[number]
                if id(array) in self.outside:
                    return "memory", id(array)
                return "array", array.tobytes()
            case Scalar(number):
                return "scalar", _location(self.trace.scalars[number])
        return type(source).__name__

    def ends(self) -> Any:
        """The numbers of what the program computes."""
        program, gradient = self.trace.program, self.trace.gradient
        results = [self.operand(t) for t in program.results]
        updates = sorted((self.operand(t), self.operand(v)) for t, v in program.updates)
        if gradient is None:
            return results, updates
        residuals = [self.operand(t) for t in gradient.residuals]
        return results, updates, [self.operand(t) for t in gradient.program.results], residuals

    def around(self) -> dict[str, Any]:
        """What a call does besides running the program."""
        trace = self.trace
        return {
            "what is returned": _tree(trace.result),
            "the tensors that are made": [
                ("alias", self.operand(kind.source), _key(kind.chain))
                if isinstance(kind, Alias)
                else (type(kind).__name__, *map(_key, kind))
                for kind in trace.tensors
            ],
            "the tensors that are put somewhere": sorted(
                (_location(p), str(s)) for p, s in (*trace.assigned, *trace.rebound)
            ),
            "requires_grad": sorted((_location(p), on) for p, on in trace.flags),
            "a number that is put somewhere": sorted(
                (_location(p), str(_tree(v))) for p, v in trace.counted
            ),
        }


def _key(value: Any) -> Any:
    """Equal for equal attributes of a call; of what cannot be compared only the type counts."""
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(_key, value))
    if isinstance(value, dict):
        return tuple((str(k), _key(v)) for k, v in value.items())
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, Op):
        return value.name
    if isinstance(value, Location):
        return _location(value)
    if isinstance(value, Program):
        return _body(value)
    if is_plain(value):
        return type(value).__name__, repr(value)
    return type(value).__name__


def _body(program: Program) -> Any:
    """The body of a loop, which reads its operands and constants only."""
    numbers: dict[Term, int] = {}

    def key(operand: Any) -> Any:
        if not isinstance(operand, Term):
            return _key(operand)
        if isinstance(operand.source, Constant):
            return _key(operand.source.array)
        if isinstance(operand.source, Argument):
            return "argument", operand.source.number
        return "term", numbers[operand]

    calls = []
    for call in program.calls:
        calls.append((call.op.name, *map(key, call.args), _key(call.attrs)))
        numbers |= {term: len(numbers) + i for i, term in enumerate(call.outputs)}
    return (*calls, *map(key, program.results))


def _location(location: Any) -> tuple[str, ...]:
    holder = getattr(location, "optimizer", None) or getattr(location, "module", None)
    parts = [getattr(location, name, None) for name in ("name", "position", "group", "part")]
    inner = getattr(location, "of", None)
    within = () if inner is None else _location(inner)
    tensor = getattr(location, "tensor", None)
    return (type(location).__name__, *map(str, (*parts, id(holder), id(tensor))), *within)


def _tree(tree: Any) -> Any:
    """A nested result as text and numbers."""
    if isinstance(tree, Slot):
        return "tensor", tree.number
    if isinstance(tree, Numeral):
        return "number", tree.whole, tree.number
    if isinstance(tree, Record):
        return tree.kind.__name__, _tree(tree.attributes)
    if issubclass(type(tree), dict):
        return [(str(_key(k)), _tree(v)) for k, v in tree.items()]
    if issubclass(type(tree), (tuple, list)):
        return [type(tree).__name__, *map(_tree, tree)]
    return _key(tree)


# -- where two programs part -----------------------------------------------------------------------


def _first(old: _Numbering, new: _Numbering) -> Parting:
    """The first call of each that the other does not have."""
    theirs, ours = set(new.calls.values()), set(old.calls.values())
    before = next((call for call, n in old.calls.items() if n not in theirs), None)
    now = next((call for call, n in new.calls.items() if n not in ours), None)
    if before is None or now is None:
        extra = before or now
        if extra is None:
            return Parting("it returns, or stores, other results than before")
        verb = "no longer computes" if now is None else "now also computes"
        line = extra.line
        return Parting(f"it {verb} {extra.op.name}", *((line, None) if before else (None, line)))
    lines = before.line, now.line
    if before.op is not now.op or len(before.args) != len(now.args):
        return Parting(f"it computed {before.op.name} and now computes {now.op.name}", *lines)
    for one, other in zip(before.args, now.args, strict=True):
        if old.operand(one) != new.operand(other):
            was, is_now = _shown(one), _shown(other)
            if was != is_now:
                return Parting(f"{was} is now {is_now}, in {before.op.name}", *lines)
            return Parting(f"{before.op.name} computes with another array than before", *lines)
    for name, value in before.attrs.items():
        if _key(value) != _key(now.attrs.get(name)):
            text = f"{name}={value!r} is now {now.attrs.get(name)!r}, in {before.op.name}"
            return Parting(text, *lines)
    return Parting(f"{before.op.name} is not as before", *lines)


def _shown(operand: Any) -> str:
    """A number or a constant as the user wrote it; anything else by its kind."""
    if not isinstance(operand, Term):
        return repr(operand)
    if isinstance(operand.source, Constant):
        array = operand.source.array
        return repr(array.item()) if array.size == 1 else f"a constant {array.tolist()!r:.60}"
    return repr(operand)


def _around(before: dict[str, Any], now: dict[str, Any]) -> Parting:
    what = next(name for name in before if before[name] != now[name])
    return Parting(f"{what} was {before[what]!r:.80} and is now {now[what]!r:.80}")
