"""Variant: one program of a compiled function, and what a call of it does around it.

A call first asks `memories` whether the program is right for it, which finds the captured arrays
on the way, then `run` does what the function does. Both are loops over lists prepared here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.backward import attach
from gradwalk.compiler.conditions import check_apart, overlap
from gradwalk.compiler.graph import Argument, Memory, Program, Term
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.optimizers import SharedNumber
from gradwalk.compiler.tracing.outcome import Alias, Itself, Numeral, Result, Slot, Trace
from gradwalk.compiler.tracing.places import OfGenerator, OfGradient, OfState, OfTensor
from gradwalk.engine.tree import mapped
from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of, stamp_for, touch, touch_stamps
from gradwalk.ops.index import through
from gradwalk.recording import wrap

Array = np.ndarray[Any, Any]
Build = Callable[[Program, dict[Term, tuple[int, ...]]], Any]


class Variant:
    """A traced program with its executable."""

    def __init__(self, name: str, trace: Trace, build: Build) -> None:
        self.name = name
        self.trace = trace
        self.build = build
        self.executable = build(trace.program, trace.layout)
        self.count = 0  # calls so far
        self.arrays = [captured.array for captured in trace.captured]  # as last found
        self._written = [
            place.source.number
            for place, _ in trace.program.updates
            if isinstance(place.source, Memory)
        ]
        check_apart(trace, self._written)
        self._prepare_reading()
        self._prepare_writing()
        self._note_owners()
        self._gradient: Any = None  # the executable of the second program, once it is needed

    def gradient(self) -> Any:
        """The executable of the second program, built when it is first needed."""
        if self._gradient is None:
            assert self.trace.gradient is not None
            self._gradient = self.build(self.trace.gradient.program, {})
        return self._gradient

    # -- before a call -----------------------------------------------------------------------------

    def _prepare_reading(self) -> None:
        trace = self.trace
        # Where each memory is found: its number, the place, and whether that is the first of it.
        found = [
            (number, place, i == 0)
            for number, captured in enumerate(trace.captured)
            for i, place in enumerate(captured.places)
        ]
        self._tensors = [(n, p.tensor, one) for n, p, one in found if isinstance(p, OfTensor)]
        self._states = [(n, p.state, p.name) for n, p, one in found if isinstance(p, OfState)]
        self._others = [e for e in found if not isinstance(e[1], (OfTensor, OfState))]
        self._shared = [place for place in trace.lates if isinstance(place, SharedNumber)]
        self._late = [place.get for place in trace.lates]

    def memories(self, values: list[Any]) -> list[Array] | None:
        """The captured arrays as they are now; None if this program is not right for the call."""
        trace = self.trace
        if not trace.modules.holds() or not trace.environment.unchanged():
            return None
        for tensor, needs in trace.needs:
            if (tensor._requires_grad or tensor._node is not None) is not needs:
                return None
        for place, none in trace.grads:
            if (place.get(values)._grad is None) is not none:
                return None
        for optimizer in trace.optimizers:
            if not optimizer.holds():
                return None
        for shared in self._shared:
            if not shared.equal():
                return None
        for number, truth in trace.decisions:
            if bool(number.read(values)) is not truth:
                return None
        for place, array in trace.views:
            if place.get(values)._array is not array:
                return None
        return self._found_arrays(values)

    def _found_arrays(self, values: list[Any]) -> list[Array] | None:
        arrays, moved = self.arrays, False
        for memory, tensor, first in self._tensors:
            now = tensor._array
            if now is not arrays[memory]:
                if not first or not _alike(now, arrays[memory]):
                    return None
                arrays[memory], moved = now, True
        for memory, state, name in self._states:
            now = state.kept[name]._array
            if now is not arrays[memory]:
                if not _alike(now, arrays[memory]):
                    return None
                arrays[memory], moved = now, True
        for memory, place, first in self._others:
            holder = place.get(values)
            now = None if holder is None else holder._array
            if now is not arrays[memory]:
                if now is None or not first or not _alike(now, arrays[memory]):
                    return None
                arrays[memory], moved = now, True
        if moved:
            if overlap(arrays, self._written):
                return None
            self._note_owners()
        return arrays

    def _note_owners(self) -> None:
        self._written_owners = {id(owner_of(self.arrays[n])) for n in self._written}
        self._owners = {id(owner_of(array)) for array in self.arrays}
        self._stamps = [stamp_for(self.arrays[n]) for n in self._touched]

    # -- the call ----------------------------------------------------------------------------------

    def _prepare_writing(self) -> None:
        trace = self.trace
        kinds = {n: [type(p) for p in trace.captured[n].places] for n in self._written}
        self._generators = [
            (n, trace.captured[n].places[0]) for n in self._written if OfGenerator in kinds[n]
        ]
        # What only an optimizer's state has is saved by no graph: nobody asks for its stamp.
        unasked = {OfGenerator, OfState}
        self._touched = [n for n in self._written if not kinds[n] or not unasked & {*kinds[n]}]
        self._plain = all(
            isinstance(t, Result) and not t.chain and not t.requires_grad for t in trace.tensors
        )
        # Gradients of captured tensors are most of what is assigned.
        self._grads: list[tuple[Any, int | None]] = []
        self._assigned: list[tuple[Any, int | None]] = []
        for place, slot in trace.assigned:
            if isinstance(place, OfGradient) and isinstance(place.of, OfTensor):
                self._grads.append((place.of.tensor, slot))
            else:
                self._assigned.append((place, slot))

    def run(self, values: list[Any], memories: list[Array]) -> Any:
        """Do what the function does."""
        trace = self.trace
        arguments = [v._array for v in values[: trace.arguments]]
        self._check_arguments(arguments)
        results, updates = self.executable(arguments, memories, [get(values) for get in self._late])
        self.count += 1
        for memory, place in self._generators:
            place.drew(memories[memory])
        touch_stamps(self._stamps, *caller())
        for number in trace.written_arguments:
            touch(arguments[number], *caller())
        if self._plain:
            tensors = [wrap(results[kind.number]) for kind in trace.tensors]  # type: ignore[union-attr]
        else:
            tensors = [self._tensor(kind, values, results, arguments) for kind in trace.tensors]
        if trace.gradient is not None:
            attach(self, trace.gradient, tensors, values, results, arguments)
        for tensor, slot in self._grads:
            tensor._grad = None if slot is None else tensors[slot]
        for place, slot in self._assigned:
            place.set(None if slot is None else tensors[slot], values)
        for places, value in zip(trace.updated, updates, strict=True):
            new = int(value) if type(places[0].get(values)) is int else value
            for place in places:
                place.set(new, values)
        if trace.rebound or trace.flags or trace.counted:
            self._write_the_rest(values, tensors)
        return _answer(trace.result, tensors, results)

    def _write_the_rest(self, values: list[Any], tensors: list[Any]) -> None:
        for place, slot in self.trace.rebound:
            place.get(values).data = tensors[slot]
        for place, on in self.trace.flags:
            place.get(values).requires_grad = on
        for place, value in self.trace.counted:
            place.set(value, values)

    def _check_arguments(self, arguments: list[Array]) -> None:
        """An argument on memory that the program changes, or the other way round, is an error."""
        for position, array in enumerate(arguments):
            changed = position in self.trace.written_arguments
            if id(owner_of(array)) in (self._owners if changed else self._written_owners):
                raise TraceError(
                    f"argument {position} of a compiled function shares memory with a tensor that "
                    "the function knows by itself, and one of the two is changed in place.\n"
                    "Fix: pass a .clone(), or do not pass it at all."
                )

    def _tensor(
        self,
        kind: Itself | Result | Alias,
        values: list[Any],
        results: list[Array],
        arguments: list[Array],
    ) -> Any:
        if isinstance(kind, Result):
            array = results[kind.number]
            found = wrap(through(array, kind.chain) if kind.chain else array)
            if kind.requires_grad:
                found.requires_grad = True
            return found
        if isinstance(kind, Itself):
            return kind.place.get(values)
        source: Any = kind.source.source
        if isinstance(source, Argument):
            return wrap(through(arguments[source.position], kind.chain))
        return wrap(through(self.arrays[source.number], kind.chain))


def _answer(result: Any, tensors: list[Any], results: list[Array]) -> Any:
    """What the function returns."""
    if isinstance(result, Slot):
        return tensors[result.number]

    def value(leaf: Any) -> Any:
        if isinstance(leaf, Slot):
            return tensors[leaf.number]
        if isinstance(leaf, Numeral):
            number = results[leaf.number].item()
            return int(number) if leaf.whole else number
        return leaf

    return mapped(value, result)


def _alike(now: Array, before: Array) -> bool:
    """Whether an array can take the place of another: its shape, dtype and order in memory."""
    return (
        now.shape == before.shape
        and now.dtype == before.dtype
        and now.flags.c_contiguous == before.flags.c_contiguous
        and (now.flags.c_contiguous or now.strides == before.strides)
        and now.flags.writeable >= before.flags.writeable
    )
