"""A compiled program: the arrays it takes, the memory it owns, its tapes, and how it is called."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import OUT_OF_RANGE, Kernel
from gradwalk.compiler.backends.llvm.runtime.object_code import Library
from gradwalk.compiler.backends.llvm.runtime.tape import (
    ALONE,
    BARRIER,
    STOP,
    Expected,
    Tape,
    TapeEntry,
)
from gradwalk.compiler.ir.program import Constant, Layout, Program, Term, forward
from gradwalk.compiler.plan.buffers import ALIGNMENT, Slice
from gradwalk.compiler.plan.schedule import ARENA, SCALARS, STATUS, Entry, Plan
from gradwalk.compiler.plan.synchronization import sharing
from gradwalk.graph.fork_locks import CALL, fork_safe

Array = np.ndarray[Any, Any]


class Design(NamedTuple):
    """All that is decided about a program before there is code."""

    program: Program  # after all passes
    plan: Plan
    kernels: list[Kernel | None]  # of each entry; None where NumPy runs it
    reasons: dict[int, str]  # why NumPy runs these entries


class NativeExecutable:
    """A compiled program; call it with arrays for its sources."""

    def __init__(
        self,
        designed: Design,
        library: Library,
        stages: dict[str, float],
        layout: Layout,
        threads: int,
    ) -> None:
        plan = designed.plan
        self.design_again: Callable[[], Design] = lambda: designed
        self.reasons = designed.reasons
        self.stretches: list[Tape] = []  # of native entries, between those that NumPy runs
        self.threads = threads  # at most
        self.library = library
        self.stages = stages  # seconds spent in each stage of compiling
        self.layout = layout
        self.kept: list[Any] = []  # what the code points to
        self.scalars_read = plan.scalars  # so many are read
        self.scalars_written = plan.scalar_updates  # and so many behind them are written
        self.scalars = np.zeros(plan.scalars + plan.scalar_updates + 1)
        self.status = np.zeros(8, np.int64)
        self.slots = np.zeros(0, np.int64)
        self.others: list[Callable[[], None]] = []  # what follows the first stretch
        # Memories and arguments that are written before something that may fail: by number.
        self.memories_at_risk: list[int] = []
        self.arguments_at_risk: list[int] = []
        # What a call needs, also a generated one (compiler/call).
        self.numbers: Any = memoryview(self.scalars.data)
        self.status_words: Any = memoryview(self.status.data)
        self.argument_order = [t.source.number for t, _ in plan.arguments]  # type: ignore[union-attr]
        self.memory_kinds: list[Expected] = []
        self.memory_order = [t.source.number for t, _ in plan.memories]  # type: ignore[union-attr]
        self.result_kinds = [(t.shape, t.dtype) for t, _ in plan.results]
        # Of the runtime scalars, the slots and the arena.
        self._lock = fork_safe(threading.Lock(), CALL)
        _assemble(self, designed)

    @functools.cached_property
    def design(self) -> Design:
        """What was decided about the program. It is made again when read: calls do not need it, and
        it is larger than all else that is kept."""
        return self.design_again()

    @property
    def program(self) -> Program:
        """The program after all passes."""
        return self.design.program

    @property
    def plan(self) -> Plan:
        """Its kernels in order, and where arrays lie."""
        return self.design.plan

    @property
    def kernels(self) -> list[Kernel | None]:
        """The code of each entry; None where NumPy runs it."""
        return self.design.kernels

    @property
    def start(self) -> Callable[..., str | None]:
        """Runs the first stretch on arguments and results, in their orders, and on the memories
        that `bind` was given; returns None, or describes the first array that does not fit."""
        return self.stretches[0].call

    def bind(self, memories: Sequence[Array]) -> None:
        """Change these memories from now on; the caller keeps them alive."""
        for number, one in zip(self.memory_order, self.memory_kinds, strict=True):
            problem = one.misfit(memories[number])
            if problem is not None:
                raise ValueError(f"memory {number} of a compiled function {problem}")
            self.slots[one.slot] = memories[number].ctypes.data

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], scalars: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Return results and the new runtime scalars; memories are updated in place."""
        results = [np.empty(shape, dtype) for shape, dtype in self.result_kinds]
        given = [arguments[i] for i in self.argument_order]
        read, numbers = self.scalars_read, self.numbers
        with self._lock:
            # A generated call relies on its own numbers and memories to stay.
            before = self.scalars.copy(), self.slots.copy()
            risky = [memories[n] for n in self.memories_at_risk]
            risky += [arguments[n] for n in self.arguments_at_risk]
            copies = [array.copy() for array in risky]
            try:
                self.bind(memories)
                for i in range(read):
                    numbers[i] = scalars[i]
                problem = self.start(*given, *results)
                if problem is not None:
                    raise ValueError(problem)
                for run in (*self.others, None):
                    if self.status_words[0]:
                        self.complain()
                    if run is not None:
                        run()
                return results, numbers[read:-1].tolist()
            except BaseException:
                for array, copied in zip(risky, copies, strict=True):
                    array[...] = copied
                raise
            finally:
                self.scalars[:], self.slots[:] = before

    def complain(self) -> None:
        """Raise the failure that a kernel wrote to the status block."""
        code = int(self.status[0])
        self.status[0] = 0
        if code == OUT_OF_RANGE:
            index, length = map(int, self.status[1:3])
            raise IndexError(f"index {index} is out of range for a dimension of length {length}")
        raise RuntimeError(f"a compiled kernel failed with status {code}")


# -- tapes, argument blocks, and steps that NumPy runs ---------------------------------------------


def _assemble(made: NativeExecutable, designed: Design) -> None:
    """Fill in slots, argument blocks and tapes.

    The entries of a plan are cut into stretches of native kernels, each of which is a tape; between
    them NumPy runs what has no kernel, on the same memory.
    """
    plan = designed.plan
    arena = np.empty(plan.arena + ALIGNMENT, np.uint8)
    used = (*plan.arguments, *plan.memories, *plan.constants, *plan.results)
    slots = made.slots = np.zeros(max([SCALARS, *(slot for _, slot in used)]) + 1, np.int64)
    slots[ARENA] = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    slots[STATUS] = made.status.ctypes.data
    slots[SCALARS] = made.scalars.ctypes.data
    made.kept += [arena, made.scalars, made.status]
    for term, slot in plan.constants:
        assert isinstance(term.source, Constant)
        array = np.ascontiguousarray(term.source.array)
        made.kept.append(array)
        slots[slot] = array.ctypes.data
    written = {place.buffer.memory.slot for entry in plan.entries for place in entry.writes}
    expected = [
        *(_expected(term, slot, slot in written, made) for term, slot in plan.arguments),
        *(Expected(slot, term.dtype, term.shape, writable=True) for term, slot in plan.results),
    ]
    made.memory_kinds = [
        _expected(term, slot, slot in written, made) for term, slot in plan.memories
    ]
    shared = sharing(plan.entries, made.threads)
    native: list[TapeEntry] = []
    failing = False  # whether a kernel of this stretch may have failed
    lasting = {slot for _, slot in (*plan.arguments, *plan.memories)}
    changed: set[int] = set()  # slots of the user's arrays that were written so far
    at_risk: set[int] = set()  # those of them that were written when something could fail
    checked: set[Any] = set()  # indices that are known to be in range

    def finish_stretch() -> None:
        nonlocal native, failing
        first = not made.stretches
        if native or first:
            several = any(not e.flags & ALONE for e in native)
            tape = Tape(
                native,
                slots,
                arrays=expected if first else (),
                threads=made.threads if several else 1,  # each has scratch memory of its own
                misfit=functools.partial(_misfit, expected),
                keep=(made.kept, made.library),
            )
            made.stretches.append(tape)
            if not first:
                made.others.append(tape.call)
        native, failing = [], False

    blocks: dict[Entry, list[list[int]]] = {}  # the arguments of kernels, by iteration
    writing = [
        {place.buffer.memory.slot for place in entry.writes} & lasting for entry in plan.entries
    ]
    for number, iteration in as_run(plan.entries):
        entry, kernel, how = plan.entries[number], designed.kernels[number], shared[number]
        writes = writing[number]
        if kernel is None:
            finish_stretch()
            made.others.append(_numpy_step(entry, made, iteration))
            changed |= writes
            at_risk |= changed
            continue
        if not iteration:
            blocks[entry] = _blocks(entry, kernel.sizes)
        flags = (ALONE if how.alone else 0) | (BARRIER if how.meet else 0)
        if failing and writes:
            flags |= STOP | BARRIER  # an error leaves the user's arrays as they were
            failing = False
        failing = failing or kernel.can_fail
        changed |= writes
        if kernel.can_fail and not (checks := _checks(entry)) <= checked:
            checked |= checks
            at_risk |= changed
        native.append(TapeEntry(made.library[kernel.name], blocks[entry][iteration], flags))
    finish_stretch()
    made.memories_at_risk = [t.source.number for t, slot in plan.memories if slot in at_risk]  # type: ignore[union-attr]
    made.arguments_at_risk = [t.source.number for t, slot in plan.arguments if slot in at_risk]  # type: ignore[union-attr]


def _checks(entry: Entry) -> set[Any]:
    """The indices whose range a kernel checks, and the length they count in: (term, length)."""
    checks: set[Any] = set()
    for call in entry.calls:
        table = call.args[0]
        match call.op.name:
            case "checked_index" | "scatter_last":
                length = call.attrs["length"]
            case "sum_rows":
                length = call.attrs["count"]
            case "embedding" if isinstance(table, Term):
                length = table.shape[0]
            case "gather_last" if isinstance(table, Term):
                length = table.shape[-1]
            case _:
                continue
        checks |= {(term, length) for term in call.terms if term.dtype.kind in "iu"}
    return checks or {entry}


def _misfit(expected: list[Expected], *arrays: Any) -> str:
    """Describe the first mismatched array."""
    for place, (one, array) in enumerate(zip(expected, arrays, strict=True)):
        problem = one.misfit(array)
        if problem is not None:
            if one.writable and not array.flags.writeable and array.shape == one.shape:
                raise ValueError(f"array {place} of a compiled function {problem}")
            return f"array {place} {problem}"
    raise AssertionError("all arrays are as expected")


def _expected(term: Term, slot: int, writable: bool, made: NativeExecutable) -> Expected:
    strides = made.layout.get(term)
    in_bytes = None if strides is None else tuple(s * term.dtype.itemsize for s in strides)
    return Expected(slot, term.dtype, term.shape, in_bytes, writable)


def as_run(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """The entries in the order in which they run: (number, iteration of its loop)."""
    for _, numbers in itertools.groupby(range(len(entries)), lambda n: entries[n].loop):
        inside = list(numbers)
        for iteration in range(entries[inside[0]].times):
            yield from ((number, iteration) for number in inside)


def _blocks(entry: Entry, sizes: Sequence[int]) -> list[list[int]]:
    """The arguments of an entry's kernel at each iteration: addresses, and sizes."""
    addresses = [word for place in entry.operands for word in _address(place)]
    blocks = np.tile(np.array([*addresses, *sizes], np.int64), (entry.times, 1))
    for number, place in enumerate(entry.operands):
        if place.buffer.window is not None:
            moved = place.buffer.window.moved(np.arange(entry.times))
            blocks[:, 2 * number + 1] += moved * place.dtype.itemsize
    listed: list[list[int]] = blocks.tolist()
    return listed


def _address(place: Slice, iteration: int = 0) -> list[int]:
    """Slot and byte offset."""
    moved = 0 if place.buffer.window is None else int(place.buffer.window.moved(iteration))
    offset = (place.offset + moved) * place.dtype.itemsize
    memory = place.buffer.memory
    if memory.in_arena:
        return [ARENA, memory.offset + offset]
    return [memory.slot, offset]


def _numpy_step(entry: Entry, made: NativeExecutable, iteration: int) -> Callable[[], None]:
    """The calls of an entry, run by NumPy on the program's memory."""
    calls, places = entry.calls, entry.terms

    def step() -> None:
        known: dict[Term, Array] = {}

        def operand(a: Any) -> Any:
            if not isinstance(a, Term):
                return a
            return known[a] if a in known else _array(places[a], made, iteration)

        for call in calls:
            with np.errstate(all="ignore"):
                results = forward(call.op, list(map(operand, call.args)), call.attrs)
            known.update(
                zip(call.outputs, results if call.op.multiple else (results,), strict=True)
            )
        for term, array in known.items():
            if term in places:
                _array(places[term], made, iteration)[...] = array

    return step


def _array(place: Slice, made: NativeExecutable, iteration: int) -> Array:
    """A place as a NumPy array on the memory that its slot points to now."""
    slot, offset = _address(place, iteration)
    size = place.dtype.itemsize
    interface = {
        "data": (int(made.slots[slot]) + offset, False),
        "shape": place.shape,
        "strides": tuple(s * size for s in place.strides),
        "typestr": place.dtype.str,
        "version": 3,
    }
    holder = type("Memory", (), {"__array_interface__": interface})()
    return np.asarray(holder)
