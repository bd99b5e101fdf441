"""The LLVM backend: a program as native code.

    passes -> plan (kernels, memory) -> text -> object code -> tape

What has no native kernel runs as NumPy between two stretches of the tape, on the same memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.graph import Call, Constant, Program, Term
from gradwalk.compiler.llvm import pool
from gradwalk.compiler.llvm.kernel import OUT_OF_RANGE, Kernel
from gradwalk.compiler.llvm.lowering import NoKernel, kernel_of
from gradwalk.compiler.llvm.objects import Library, compile_text
from gradwalk.compiler.llvm.products.driver import driver
from gradwalk.compiler.llvm.tape import ALONE, MEET, Entry, Expected, Tape
from gradwalk.compiler.llvm.target import Host, host
from gradwalk.compiler.passes import run_passes
from gradwalk.compiler.plan.lower import ProductSteps
from gradwalk.compiler.plan.places import ALIGNMENT, Place
from gradwalk.compiler.plan.plan import ARENA, LATE, STATUS, Layout, Plan, place_arrays, plan
from gradwalk.compiler.plan.plan import Entry as Planned
from gradwalk.compiler.plan.threads import sharing

Array = np.ndarray[Any, Any]


class Executable:
    """A compiled program; call it with arrays for its sources."""

    def __init__(
        self,
        program: Program,
        found: Plan,
        kernels: list[Kernel | None],
        library: Library,
        stages: dict[str, float],
        layout: Layout,
    ) -> None:
        self.program = program
        self.plan = found
        self.kernels = kernels  # of each entry; None where NumPy runs it
        self.library = library
        self.stages = stages  # seconds spent in each stage of compiling
        self.layout = layout
        self.kept: list[Any] = []  # what the code points to
        self.late = np.zeros(found.late + found.late_updates + 1)
        self.status = np.zeros(8, np.int64)
        self.slots = np.zeros(0, np.int64)
        self.first: Any = None  # the tape that takes the arrays; then whatever follows it
        self.others: list[Callable[[], None]] = []
        self._numbers: Any = memoryview(self.late.data)
        self._status: Any = memoryview(self.status.data)
        self._arguments = [t.source.position for t, _ in found.arguments]  # type: ignore[union-attr]
        self._memories = [t.source.number for t, _ in found.memories]  # type: ignore[union-attr]
        self._results = [(t.shape, t.dtype) for t, _ in found.results]
        self._lock = threading.Lock()  # of the late numbers, the slots and the arena

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], late: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Results, and the new late numbers; memories are updated in place."""
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        given = [arguments[i] for i in self._arguments]
        given += [memories[i] for i in self._memories]
        read, numbers = self.plan.late, self._numbers
        with self._lock:
            for i in range(read):
                numbers[i] = late[i]
            self.first.call(*given, *results)
            for run in self.others:
                run()
            updates = numbers[read:-1].tolist()
            if self._status[0]:
                self._complain()
        return results, updates

    def _complain(self) -> None:
        code = int(self.status[0])
        self.status[0] = 0
        if code == OUT_OF_RANGE:
            index, length = map(int, self.status[1:3])
            raise IndexError(f"index {index} is out of range for a dimension of length {length}")
        raise RuntimeError(f"a compiled kernel failed with status {code}")


def build(program: Program, layout: Layout | None = None) -> Executable:
    """Compile a program for arguments and memories with these strides (by default in order)."""
    stages: dict[str, float] = {}
    clock = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        stages[name] = stages.get(name, 0.0) + now - clock
        clock = now

    program = run_passes(program)
    stage("passes")
    found = plan(program, layout or {})
    stage("plan")
    machine, threads = host(), pool.get_num_threads()
    kernels: list[Kernel | None] = []
    for entry in found.entries:
        try:
            kernels.append(kernel_of(entry, machine, threads))
        except NoKernel:
            kernels.append(None)
    stage("text")
    place_arrays(found)
    stage("memory")
    texts = {k.name: k.text for k in kernels if k is not None}
    declared = {line for k in kernels if k is not None for line in k.declarations}
    drivers = _drivers(found, machine)
    symbols = {name: each[name] for name, each in drivers.items()}
    for kernel in kernels:
        symbols |= kernel.symbols if kernel is not None else {}
    library = compile_text(texts, declared, symbols)
    stage("code")
    made = Executable(program, found, kernels, library, stages, layout or {})
    made.kept += drivers.values()
    _assemble(made, threads)
    stage("tape")
    return made


def _drivers(found: Plan, machine: Host) -> dict[str, Library]:
    """The functions that the kernels of products call, by name."""
    dtypes = {e.work.left.dtype for e in found.entries if isinstance(e.work, ProductSteps)}
    libraries: dict[str, Library] = {}
    for dtype in sorted(dtypes, key=str):
        name, text, declarations = driver(dtype, machine)
        libraries[name] = compile_text({name: text}, declarations)
    return libraries


def _assemble(made: Executable, threads: int) -> None:
    """Slots, argument blocks and tapes."""
    found = made.plan
    arena = np.empty(found.arena + ALIGNMENT, np.uint8)
    last = max([LATE, *(s for _, s in _all_slots(found))])
    slots = made.slots = np.zeros(last + 1, np.int64)
    slots[ARENA] = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    slots[STATUS] = made.status.ctypes.data
    slots[LATE] = made.late.ctypes.data
    made.kept += [arena, made.late, made.status]
    for term, slot in found.constants:
        assert isinstance(term.source, Constant)
        array = np.ascontiguousarray(term.source.array)
        made.kept.append(array)
        slots[slot] = array.ctypes.data
    expected = [
        *(_expected(term, slot, made) for term, slot in found.arguments),
        *(_expected(term, slot, made) for term, slot in found.memories),
        *(Expected(slot, term.dtype, term.shape, writable=True) for term, slot in found.results),
    ]
    shared = sharing(found.entries, threads)
    native: list[Entry] = []
    first = True

    def finish_stretch() -> None:
        nonlocal native, first
        if native or first:
            several = any(not e.flags & ALONE for e in native)
            tape = Tape(
                native,
                slots,
                arrays=expected if first else (),
                threads=0 if several else 1,
                keep=(made.kept, made.library),
            )
            if first:
                made.first = tape
            else:
                made.others.append(tape.call)
        native, first = [], False

    for entry, kernel, how in zip(found.entries, made.kernels, shared, strict=True):
        if kernel is None:
            finish_stretch()
            made.others.append(_numpy_step(entry, made))
            continue
        block: list[int] = []
        for place in entry.places:
            block += _address(place)
        flags = (ALONE if how.alone else 0) | (MEET if how.meet else 0)
        native.append(Entry(made.library[kernel.name], [*block, *kernel.sizes], flags))
    finish_stretch()


def _all_slots(found: Plan) -> list[tuple[Term, int]]:
    return [*found.arguments, *found.memories, *found.constants, *found.results]


def _expected(term: Term, slot: int, made: Executable) -> Expected:
    writable = any(p.buffer.slot == slot for e in made.plan.entries for p in e.writes)
    strides = made.layout.get(term)
    in_bytes = None if strides is None else tuple(s * term.dtype.itemsize for s in strides)
    return Expected(slot, term.dtype, term.shape, in_bytes, writable)


def _address(place: Place) -> list[int]:
    """Slot and byte offset."""
    offset = place.offset * place.dtype.itemsize
    if place.buffer.in_arena:
        return [ARENA, place.buffer.offset + offset]
    return [place.buffer.slot, offset]


def _numpy_step(entry: Planned, made: Executable) -> Callable[[], None]:
    """A call run by NumPy on the program's memory."""
    call = entry.work
    assert isinstance(call, Call)
    terms = dict(zip([*call.outputs, *call.terms], entry.places, strict=True))

    def step() -> None:
        arrays = [_array(terms[a], made) if isinstance(a, Term) else a for a in call.args]
        with np.errstate(all="ignore"):
            found = call.op.forward(*arrays, **call.attrs)
        for out, array in zip(call.outputs, found if call.op.multiple else (found,), strict=True):
            _array(terms[out], made)[...] = array

    return step


def _array(place: Place, made: Executable) -> Array:
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
