"""From kernels and a plan to tapes: slots, argument blocks, and steps that NumPy runs.

The entries of a plan are cut into stretches of native kernels, each of which is a tape; between
them NumPy runs what has no kernel, on the same memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.executable import Design, NativeExecutable
from gradwalk.compiler.backends.llvm.runtime.tape import (
    ALONE,
    BARRIER,
    STOP,
    Expected,
    Tape,
    TapeEntry,
)
from gradwalk.compiler.ir.program import Constant, Term, forward
from gradwalk.compiler.plan.buffers import ALIGNMENT, Slice
from gradwalk.compiler.plan.schedule import ARENA, SCALARS, STATUS, Entry, Plan
from gradwalk.compiler.plan.synchronization import sharing

Array = np.ndarray[Any, Any]


def assemble(made: NativeExecutable, designed: Design, threads: int) -> None:
    """Fill in slots, argument blocks and tapes."""
    plan = designed.plan
    made.threads = threads
    arena = np.empty(plan.arena + ALIGNMENT, np.uint8)
    last = max([SCALARS, *(s for _, s in _all_slots(plan))])
    slots = made.slots = np.zeros(last + 1, np.int64)
    slots[ARENA] = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    slots[STATUS] = made.status.ctypes.data
    slots[SCALARS] = made.scalars.ctypes.data
    made.kept += [arena, made.scalars, made.status]
    for term, slot in plan.constants:
        assert isinstance(term.source, Constant)
        array = np.ascontiguousarray(term.source.array)
        made.kept.append(array)
        slots[slot] = array.ctypes.data
    written = {place.buffer.slot for entry in plan.entries for place in entry.writes}
    expected = [
        *(_expected(term, slot, slot in written, made) for term, slot in plan.arguments),
        *(Expected(slot, term.dtype, term.shape, writable=True) for term, slot in plan.results),
    ]
    made.memory_kinds = [
        _expected(term, slot, slot in written, made) for term, slot in plan.memories
    ]
    shared = sharing(plan.entries, threads)
    native: list[TapeEntry] = []
    first, failing = True, False  # failing: whether a kernel of this stretch may have failed
    lasting = {slot for _, slot in (*plan.arguments, *plan.memories)}
    changed: set[int] = set()  # slots of the user's arrays that were written so far
    at_risk: set[int] = set()  # those of them that were written when something could fail
    checked: set[Any] = set()  # indices that are known to be in range

    def finish_stretch() -> None:
        nonlocal native, first, failing
        if native or first:
            several = any(not e.flags & ALONE for e in native)
            tape = Tape(
                native,
                slots,
                arrays=expected if first else (),
                threads=threads if several else 1,  # each has scratch memory of its own
                misfit=functools.partial(_misfit, expected),
                keep=(made.kept, made.library),
            )
            made.stretches.append(tape)
            if first:
                made.first = tape
            else:
                made.others.append(tape.call)
        native, first, failing = [], False, False

    for entry, kernel, how in zip(plan.entries, designed.kernels, shared, strict=True):
        writes = {place.buffer.slot for place in entry.writes} & lasting
        if kernel is None:
            finish_stretch()
            made.others.append(_numpy_step(entry, made))
            changed |= writes
            at_risk |= changed
            continue
        block: list[int] = []
        for place in entry.operands:
            block += _address(place)
        flags = (ALONE if how.alone else 0) | (BARRIER if how.meet else 0)
        if failing and any(place.buffer.slot in lasting for place in entry.writes):
            flags |= STOP | BARRIER  # an error leaves the user's arrays as they were
            failing = False
        failing = failing or kernel.can_fail
        changed |= writes
        if kernel.can_fail and not (checks := _checks(entry)) <= checked:
            checked |= checks
            at_risk |= changed
        native.append(TapeEntry(made.library[kernel.name], [*block, *kernel.sizes], flags))
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


def _all_slots(plan: Plan) -> list[tuple[Term, int]]:
    return [*plan.arguments, *plan.memories, *plan.constants, *plan.results]


def _expected(term: Term, slot: int, writable: bool, made: NativeExecutable) -> Expected:
    strides = made.layout.get(term)
    in_bytes = None if strides is None else tuple(s * term.dtype.itemsize for s in strides)
    return Expected(slot, term.dtype, term.shape, in_bytes, writable)


def _address(place: Slice) -> list[int]:
    """Slot and byte offset."""
    offset = place.offset * place.dtype.itemsize
    if place.buffer.in_arena:
        return [ARENA, place.buffer.offset + offset]
    return [place.buffer.slot, offset]


def _numpy_step(entry: Entry, made: NativeExecutable) -> Callable[[], None]:
    """The calls of an entry, run by NumPy on the program's memory."""
    calls, places = entry.calls, entry.terms

    def step() -> None:
        known: dict[Term, Array] = {}

        def operand(a: Any) -> Any:
            if not isinstance(a, Term):
                return a
            return known[a] if a in known else _array(places[a], made)

        for call in calls:
            with np.errstate(all="ignore"):
                results = forward(call.op, list(map(operand, call.args)), call.attrs)
            known.update(
                zip(call.outputs, results if call.op.multiple else (results,), strict=True)
            )
        for term, array in known.items():
            if term in places:
                _array(places[term], made)[...] = array

    return step


def _array(place: Slice, made: NativeExecutable) -> Array:
    """A place as a NumPy array on the memory that its slot points to now."""
    slot, offset = _address(place)
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
