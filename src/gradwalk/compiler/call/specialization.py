"""Specialization: one program of a compiled function, and what a call of it needs around it.

The call itself is a function generated for this program. Here is what it rarely needs: finding
captured memory that has moved, tensors that are views, the program of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.call import execution, guard_code
from gradwalk.compiler.call.staleness import Again, Staleness
from gradwalk.compiler.call.writer import MISS, NEVER, CallText
from gradwalk.compiler.capture.locations import GeneratorLocation, StateLocation
from gradwalk.compiler.ir.program import Argument, Layout, Memory, Program, Scalar
from gradwalk.compiler.tracing.aliasing import check_apart, overlap
from gradwalk.compiler.tracing.arguments import Arguments, order_of
from gradwalk.compiler.tracing.differences import numbered_alike
from gradwalk.compiler.tracing.outcome import Alias, Itself, Result, TracedProgram
from gradwalk.engine.modes import set_grad_enabled, state
from gradwalk.graph.versions import Together, owner_of, put_together, stamp_for
from gradwalk.ops.index.indexing import getitem, through
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.autocast import autocast_as

Array = np.ndarray[Any, Any]
Build = Callable[[Program, Layout], Any]


class Specialization:
    """A traced program with its executable."""

    def __init__(
        self,
        name: str,
        trace: TracedProgram,
        build: Build,
        given: Arguments,
        call: tuple[Any, Any],  # positional arguments, and arguments by name
        static: frozenset[Any],
        again: Again | None = None,  # traces the function again; None if it is never checked
        same: Specialization | None = None,  # one with the same program, for what was read before
    ) -> None:
        self.name = name
        self.trace = trace
        self.build = build
        self.signature = given.signature
        self._static = static
        self.instead_of = same
        self.executable: Any = same.executable if same else build(trace.program, trace.layout)
        # The executable, if it offers the parts that a generated call uses.
        self.native = self.executable if hasattr(self.executable, "start") else None
        if hasattr(self.executable, "put_back"):
            self.executable.put_back = self.put_back
            self.executable.name = name.rpartition(".")[2]
        self.arrays = [memory.array for memory in trace.captured]  # as last found
        self.written = trace.written
        # Where the function changes them, for an error in later eager code.
        self._lines = {
            target.source.number: value.call.line
            for target, value in trace.program.updates
            if isinstance(target.source, Memory) and value.call is not None and value.call.line
        }
        check_apart(trace, self.written)
        kinds = [{type(location) for location in memory.locations} for memory in trace.captured]
        self.generators = {
            number: memory.locations[0].generator
            for number, memory in enumerate(trace.captured)
            if GeneratorLocation in kinds[number]
        }
        # No graph saves what only an optimizer's state has: it needs no stamp.
        self.touched = [
            n for n in self.written if not {GeneratorLocation, StateLocation} & kinds[n]
        ]
        # The executable of the second program, once it is needed.
        self._gradient: Any = same._gradient if same else None
        self.staleness = (
            None
            if again is None
            else Staleness(name, trace, again, call, static, given.signature.tensors)
        )
        self.due: int = NEVER if self.staleness is None else self.staleness.first()
        self._text = CallText(self)
        guard_code.write_arguments(self._text, *call, static)
        guard_code.write_guards(self._text)
        guard_code.write_scalars(self._text)
        execution.write_arrays(self._text)
        execution.write_run(self._text)
        execution.write_changes(self._text)
        execution.write_tensors(self._text)
        self._rebind()
        self.call = self._text.function()
        if same is not None:
            self._text.use(count=same.count)
            if NEVER not in (self.due, same.due):
                self._text.use(due=same._text.things["due"])

    @property
    def text(self) -> str:
        """The function that a call runs, as Python text."""
        return str(self._text)

    @property
    def count(self) -> int:
        """Calls so far."""
        count: int = self._text.things["count"]
        return count

    def runs(self, trace: TracedProgram) -> bool:
        """Whether its executable is right for another trace, made because a guard did not hold."""
        if len(trace.captured) != len(self.arrays):
            return False
        for memory, array in zip(trace.captured, self.arrays, strict=True):
            if not _alike(memory.array, array):
                return False
        return numbered_alike(self.trace, self.arrays, trace)

    @property
    def unchecked(self) -> str:
        """Why the function is not traced again; "" if it is."""
        return "check=False" if self.staleness is None else self.staleness.unchecked

    def check(self, args: Any = None, keywords: Any = None) -> bool:
        """Trace the function again, for a call with these arguments or some like the first ones,
        and raise if that gives another program. False if a call would not run this one now."""
        assert self.staleness is not None
        if args is None:
            args, keywords = self.staleness.sample()
        with set_grad_enabled(self.signature.grad_enabled), autocast_as(self.signature.autocast):
            arrays = self.memories(args, keywords)
            if arrays is None:
                return False
            self.staleness.check(arrays, args, keywords)
        return True

    def check_as_scheduled(self, count: int, args: Any, keywords: Any) -> int:
        """The check of a call after `count` others; return when the next is due."""
        assert self.staleness is not None
        given = Arguments(args, keywords, self._static, self.signature.grad_enabled)
        if given.signature != self.signature:  # native code has yet to see that
            return count
        return self.staleness.scheduled(count, self.arrays, args, keywords)

    def gradient(self) -> Any:
        """The executable of the second program, built when it is first needed."""
        if self._gradient is None:
            assert self.trace.gradient is not None
            self._gradient = self.build(self.trace.gradient.program, {})
        return self._gradient

    # -- captured memory ---------------------------------------------------------------------------

    def memories(self, args: Any, keywords: Any) -> list[Array] | None:
        """The captured arrays as they are now; None if a guard does not hold for the call."""
        arrays: Any = self.call(args, keywords, state.here, look=True)
        return None if arrays is MISS else arrays

    def find_again(self, values: Any) -> bool:
        """Find captured memory that has moved since the last call; False if the program is not
        right for what is there now."""
        if not all(optimizer.holds() for optimizer in self.trace.optimizers):
            return False
        if any(location.get(values)._array is not part for location, part in self.trace.views):
            return False
        arrays = list(self.arrays)
        for number, memory in enumerate(self.trace.captured):
            if number in self.generators:
                continue
            for i, location in enumerate(memory.locations):
                tensor = location.get(values)
                now = None if tensor is None else tensor._array
                if now is not arrays[number]:  # all locations must have moved, and in the same way
                    if now is None or i > 0 or not _alike(now, arrays[number]):
                        return False
                    arrays[number] = now
        if overlap(arrays, self.written):
            return False
        self.arrays = arrays
        self._rebind()
        return True

    def _rebind(self) -> None:
        """Let the call use the arrays as last found."""
        arrays = self.arrays
        self.written_owners = {id(owner_of(arrays[n])) for n in self.written}
        self.owners = {id(owner_of(array)) for array in arrays}
        self.together = self.join() if self.touched else None
        self._text.rebind()
        if self.native is not None:
            self.native.bind(arrays)

    def join(self) -> Together:
        """Put the stamps of the memory that a call changes together, to be changed at once."""
        stamps = {n: stamp_for(self.arrays[n]) for n in self.touched}
        first = {stamp: n for n, stamp in reversed(stamps.items())}  # views may share one
        return put_together(list(first), [self._lines.get(n, (None, -1)) for n in first.values()])

    def put_back(self, scalars: Sequence[Any], offsets: dict[int, int]) -> None:
        """Restore runtime scalars and random streams to what they were before a call that, as
        turned out later, changed nothing."""
        sources = [target.source for target, _ in self.trace.program.updates]
        numbers = [source.number for source in sources if isinstance(source, Scalar)]
        for number, locations in zip(numbers, self.trace.updated, strict=True):
            for location in locations:
                location.set(scalars[number], ())
        for number, offset in offsets.items():
            self.generators[number].stream.move_to(offset)

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
            tensor = wrap(_part(results[kind.number], kind, results))
            if kind.requires_grad:
                tensor.requires_grad = True
            return tensor
        if isinstance(kind, Itself):
            return kind.location.get(values)
        source: Any = kind.source.source
        given = arguments if isinstance(source, Argument) else self.arrays
        return wrap(_part(given[source.number], kind, results))


def _part(array: Array, kind: Result | Alias, results: list[Array]) -> Array:
    """The part of an array that a tensor is on."""
    for chain, index, numbers in kind.picked:
        fixed = (
            int(results[numbers[part[1]]])
            if isinstance(part, tuple) and part[0] == "array"
            else part
            for part in index
        )
        array = getitem.forward(through(array, chain), index=tuple(fixed))
    found: Array = through(array, kind.chain)
    return found


def _alike(now: Array, before: Array) -> bool:
    """Whether an array can replace another: by shape, dtype and memory order."""
    return (
        now.shape == before.shape
        and now.dtype == before.dtype
        and order_of(now) == order_of(before)
        and now.flags.writeable >= before.flags.writeable
    )
