"""Variant: one program of a compiled function, and what a call of it needs around it.

The call itself is a function written for this program (compiler/call): it returns MISS if the
program is not right for the call. What is rare is here: finding captured memory that has moved,
tensors that are views, the program of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.call import MISS, write_call
from gradwalk.compiler.capture.locations import OfGenerator, OfState
from gradwalk.compiler.ir.program import Argument, Memory, Program, Term
from gradwalk.compiler.tracing.aliasing import check_apart, overlap
from gradwalk.compiler.tracing.arguments import Arguments
from gradwalk.compiler.tracing.outcome import Alias, Itself, Result, Trace
from gradwalk.engine.modes import state
from gradwalk.graph.versions import Together, owner_of, put_together, stamp_for
from gradwalk.ops.index.indexing import through
from gradwalk.tensors.apply import wrap

Array = np.ndarray[Any, Any]
Build = Callable[[Program, dict[Term, tuple[int, ...]]], Any]


class Variant:
    """A traced program with its executable."""

    def __init__(
        self,
        name: str,
        trace: Trace,
        build: Build,
        given: Arguments,
        call: tuple[Any, Any],  # its positional arguments, and those by name
        static: frozenset[Any],
    ) -> None:
        self.name = name
        self.trace = trace
        self.build = build
        key: Any = given.key
        self.key = key
        self.tensor_key = key[len(key) - 4 * len(given.tensors) :]
        self.executable = build(trace.program, trace.layout)
        self.arrays = [captured.array for captured in trace.captured]  # as last found
        self.written = [
            place.source.number
            for place, _ in trace.program.updates
            if isinstance(place.source, Memory)
        ]
        # Where the function changes them: an error in later eager code says so.
        self._lines = {
            place.source.number: value.call.line
            for place, value in trace.program.updates
            if isinstance(place.source, Memory) and value.call is not None and value.call.line
        }
        check_apart(trace, self.written)
        kinds = [{type(place) for place in captured.places} for captured in trace.captured]
        self.generators = {
            number: captured.places[0].generator
            for number, captured in enumerate(trace.captured)
            if OfGenerator in kinds[number]
        }
        # What only an optimizer's state has is saved by no graph: nobody asks for its stamp.
        self.touched = [n for n in self.written if not {OfGenerator, OfState} & kinds[n]]
        self._gradient: Any = None  # the executable of the second program, once it is needed
        self._text = write_call(self, *call, static)
        self._note_arrays()
        self.call = self._text.function()

    @property
    def text(self) -> str:
        """The function that a call runs, as Python text."""
        return str(self._text)

    @property
    def count(self) -> int:
        """Calls so far."""
        found: int = self._text.things["count"]
        return found

    def gradient(self) -> Any:
        """The executable of the second program, built when it is first needed."""
        if self._gradient is None:
            assert self.trace.gradient is not None
            self._gradient = self.build(self.trace.gradient.program, {})
        return self._gradient

    # -- captured memory ---------------------------------------------------------------------------

    def memories(self, args: Any, keywords: Any) -> list[Array] | None:
        """The captured arrays as they are now; None if this program is not right for the call."""
        found: Any = self.call(args, keywords, state.here, look=True)
        return None if found is MISS else found

    def find_again(self, values: Any) -> bool:
        """Find captured memory that is elsewhere than in the last call; False if the program is
        not right for what is there now."""
        if not all(optimizer.holds() for optimizer in self.trace.optimizers):
            return False
        arrays = list(self.arrays)
        for number, captured in enumerate(self.trace.captured):
            if number in self.generators:
                continue
            for i, place in enumerate(captured.places):
                holder = place.get(values)
                now = None if holder is None else holder._array
                if now is not arrays[number]:  # all places must have moved, and in the same way
                    if now is None or i > 0 or not _alike(now, arrays[number]):
                        return False
                    arrays[number] = now
        if overlap(arrays, self.written):
            return False
        self.arrays = arrays
        self._note_arrays()
        return True

    def _note_arrays(self) -> None:
        arrays = self.arrays
        self.written_owners = {id(owner_of(arrays[n])) for n in self.written}
        self.owners = {id(owner_of(array)) for array in arrays}
        self.together = self.join() if self.touched else None
        self._text.found()
        if hasattr(self.executable, "bind"):
            self.executable.bind(arrays)

    def join(self) -> Together:
        """Let the stamps of the memory that a call changes be changed at once."""
        stamps = {n: stamp_for(self.arrays[n]) for n in self.touched}
        first = {stamp: n for n, stamp in reversed(stamps.items())}  # views may share one
        return put_together(list(first), [self._lines.get(n, (None, -1)) for n in first.values()])

    # -- results -----------------------------------------------------------------------------------

    def tensor(
        self,
        kind: Itself | Result | Alias,
        values: Any,
        results: list[Array],
        arguments: list[Array],
    ) -> Any:
        """A tensor that is not simply a new one on a result."""
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


def _alike(now: Array, before: Array) -> bool:
    """Whether an array can take the place of another: its shape, dtype and order in memory."""
    return (
        now.shape == before.shape
        and now.dtype == before.dtype
        and now.flags.c_contiguous == before.flags.c_contiguous
        and (now.flags.c_contiguous or now.strides == before.strides)
        and now.flags.aligned
        and now.flags.writeable >= before.flags.writeable
    )
