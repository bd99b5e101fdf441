"""The LLVM backend: a program as native code.

    plan (kernels, memory) -> text -> object code -> tape

What has no native kernel runs as NumPy between two stretches of the tape, on the same memory.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.backends.llvm.emit.elementwise_table import Unspelled, is_cheap, is_native
from gradwalk.compiler.backends.llvm.emit.function_text import fast_arithmetic
from gradwalk.compiler.backends.llvm.emit.kernel import OUT_OF_RANGE, Kernel
from gradwalk.compiler.backends.llvm.kernels.products.driver import driver
from gradwalk.compiler.backends.llvm.kernels.select import NoKernel, kernel_of
from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.compiler.backends.llvm.runtime.tape import ALONE, MEET, STOP, Entry, Expected, Tape
from gradwalk.compiler.backends.llvm.runtime.tape_loop import MOST_THREADS
from gradwalk.compiler.backends.llvm.target import Host, host, usable_cores
from gradwalk.compiler.backends.numpy import forward
from gradwalk.compiler.ir.program import Constant, Program, Term
from gradwalk.compiler.plan.buffers import ALIGNMENT, Place
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import ARENA, LATE, STATUS, Layout, Plan, place_arrays
from gradwalk.compiler.plan.schedule import Entry as Planned
from gradwalk.compiler.plan.synchronization import sharing

Array = np.ndarray[Any, Any]
PASSES = None  # all
CAPABILITIES = Capabilities(is_native, is_cheap)
READS_STATUS = "getelementptr ptr, ptr %slots, i64 1"  # in the text of a kernel that can fail


class Design(NamedTuple):
    """All that is decided about a program before there is code."""

    program: Program  # after all passes
    plan: Plan
    kernels: list[Kernel | None]  # of each entry; None where NumPy runs it
    reasons: dict[int, str]  # why NumPy runs these entries


class Executable:
    """A compiled program; call it with arrays for its sources."""

    def __init__(
        self,
        designed: Design,
        library: Library,
        stages: dict[str, float],
        layout: Layout,
    ) -> None:
        found = designed.plan
        self.design_again: Callable[[], Design] = lambda: designed
        self.reasons = designed.reasons
        self.stretches: list[Tape] = []  # of native entries, between those
        self.threads = 1  # at most
        self.library = library
        self.stages = stages  # seconds spent in each stage of compiling
        self.layout = layout
        self.kept: list[Any] = []  # what the code points to
        self.late_read = found.late  # so many are read
        self.late_written = found.late_updates  # and so many behind them are written
        self.late = np.zeros(found.late + found.late_updates + 1)
        self.status = np.zeros(8, np.int64)
        self.slots = np.zeros(0, np.int64)
        self.first: Any = None  # the tape that takes the arrays; then whatever follows it
        self.others: list[Callable[[], None]] = []
        # Memories and arguments that are written to before something that may fail: by number.
        self.memories_at_risk: list[int] = []
        self.arguments_at_risk: list[int] = []
        # What a call needs, also one that is written out (compiler/call).
        self.numbers: Any = memoryview(self.late.data)
        self.status_words: Any = memoryview(self.status.data)
        self.argument_order = [t.source.position for t, _ in found.arguments]  # type: ignore[union-attr]
        self.memory_kinds: list[Expected] = []
        self.memory_order = [t.source.number for t, _ in found.memories]  # type: ignore[union-attr]
        self.result_kinds = [(t.shape, t.dtype) for t, _ in found.results]
        self._lock = threading.Lock()  # of the late numbers, the slots and the arena

    @functools.cached_property
    def design(self) -> Design:
        """What was decided about the program: made again for those who look, since calls need none
        of it, and it is larger than all else that is kept."""
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
        that `bind` was given; returns None, or in what an array is not of the right kind."""
        run: Callable[..., str | None] = self.first.call
        return run

    def bind(self, memories: Sequence[Array]) -> None:
        """Change these memories from now on; whoever calls keeps them alive."""
        for number, one in zip(self.memory_order, self.memory_kinds, strict=True):
            problem = one.misfit(memories[number])
            if problem is not None:
                raise ValueError(f"memory {number} of a compiled function {problem}")
            self.slots[one.slot] = memories[number].ctypes.data

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], late: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Results, and the new late numbers; memories are updated in place."""
        results = [np.empty(shape, dtype) for shape, dtype in self.result_kinds]
        given = [arguments[i] for i in self.argument_order]
        read, numbers = self.late_read, self.numbers
        with self._lock:
            # A call that is written out relies on its own numbers and memories to stay.
            before = self.late.copy(), self.slots.copy()
            risky = [memories[n] for n in self.memories_at_risk]
            risky += [arguments[n] for n in self.arguments_at_risk]
            copies = [array.copy() for array in risky]
            try:
                self.bind(memories)
                for i in range(read):
                    numbers[i] = late[i]
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
                self.late[:], self.slots[:] = before

    def complain(self) -> None:
        """Raise what a kernel noted."""
        code = int(self.status[0])
        self.status[0] = 0
        if code == OUT_OF_RANGE:
            index, length = map(int, self.status[1:3])
            raise IndexError(f"index {index} is out of range for a dimension of length {length}")
        raise RuntimeError(f"a compiled kernel failed with status {code}")


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> Executable:
    """Compile a planned program; `lower` is asked again if somebody looks at its design."""
    # Threads have scratch memory of their own: no more than these ever run the program.
    threads = max(thread_pool.get_num_threads(), min(usable_cores(), MOST_THREADS))
    designed = design(lower(), fast_math, threads, stages)
    kernels = [k for k in designed.kernels if k is not None]
    texts = {k.name: k.text for k in kernels}
    declared = {line for k in kernels for line in k.declarations}
    drivers = _drivers(designed.plan, host())
    symbols = {name: each[name] for name, each in drivers.items()}
    for kernel in kernels:
        symbols |= kernel.symbols
    library = compile_text(texts, declared, symbols)
    stages.done("code")
    made = Executable(designed, library, stages.seconds, layout)
    made.kept += drivers.values()
    assemble(made, designed, threads)
    made.design_again = lambda: design(lower(), fast_math, threads, Stages())
    stages.done("tape")
    return made


def design(lowered: Lowered, fast_math: bool, threads: int, stages: Stages) -> Design:
    """The kernels of a plan, and memory for its arrays."""
    found = lowered.plan
    assert found is not None
    machine = host()
    kernels: list[Kernel | None] = []
    reasons: dict[int, str] = {}
    with fast_arithmetic(fast_math):
        for entry in found.entries:
            try:
                kernels.append(kernel_of(entry, machine, threads))
            except (NoKernel, Unspelled) as error:
                reasons[len(kernels)] = str(error)
                kernels.append(None)
    stages.done("text")
    place_arrays(found)
    stages.done("memory")
    return Design(found.program, found, kernels, reasons)


def _drivers(found: Plan, machine: Host) -> dict[str, Library]:
    """The functions that the kernels of products call, by name."""
    dtypes = {e.work.left.dtype for e in found.entries if isinstance(e.work, ProductSteps)}
    libraries: dict[str, Library] = {}
    for dtype in sorted(dtypes, key=str):
        name, text, declarations = driver(dtype, machine)
        libraries[name] = compile_text({name: text}, declarations)
    return libraries


def assemble(made: Executable, designed: Design, threads: int) -> None:
    """Slots, argument blocks and tapes."""
    found = designed.plan
    made.threads = threads
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
    written = {place.buffer.slot for entry in found.entries for place in entry.writes}
    expected = [
        *(_expected(term, slot, slot in written, made) for term, slot in found.arguments),
        *(Expected(slot, term.dtype, term.shape, writable=True) for term, slot in found.results),
    ]
    made.memory_kinds = [
        _expected(term, slot, slot in written, made) for term, slot in found.memories
    ]
    shared = sharing(found.entries, threads)
    native: list[Entry] = []
    first, failing = True, False  # whether a kernel of this stretch may have failed
    lasting = {slot for _, slot in (*found.arguments, *found.memories)}
    changed: set[int] = set()  # slots of what the user has that were written to so far
    at_risk: set[int] = set()  # those of them that were when something could fail
    checked: set[Any] = set()  # indices that were found to be in range

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

    for entry, kernel, how in zip(found.entries, designed.kernels, shared, strict=True):
        writes = {place.buffer.slot for place in entry.writes} & lasting
        if kernel is None:
            finish_stretch()
            made.others.append(_numpy_step(entry, made))
            changed |= writes
            at_risk |= changed
            continue
        block: list[int] = []
        for place in entry.places:
            block += _address(place)
        flags = (ALONE if how.alone else 0) | (MEET if how.meet else 0)
        if failing and any(place.buffer.slot in lasting for place in entry.writes):
            flags |= STOP | MEET  # an error leaves what the user has as it was
            failing = False
        failing = failing or READS_STATUS in kernel.text
        changed |= writes
        if READS_STATUS in kernel.text and not (checks := _checks(entry)) <= checked:
            checked |= checks
            at_risk |= changed
        native.append(Entry(made.library[kernel.name], [*block, *kernel.sizes], flags))
    finish_stretch()
    made.memories_at_risk = [t.source.number for t, slot in found.memories if slot in at_risk]  # type: ignore[union-attr]
    made.arguments_at_risk = [t.source.position for t, slot in found.arguments if slot in at_risk]  # type: ignore[union-attr]


def _checks(entry: Planned) -> set[Any]:
    """The indices that a kernel finds to be in range or not, and of how many: (term, length)."""
    found: set[Any] = set()
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
        found |= {(term, length) for term in call.terms if term.dtype.kind in "iu"}
    return found or {entry}


def _misfit(expected: list[Expected], *arrays: Any) -> str:
    """In what an array is not of the kind that the program is for."""
    for place, (one, array) in enumerate(zip(expected, arrays, strict=True)):
        problem = one.misfit(array)
        if problem is not None:
            if one.writable and not array.flags.writeable and array.shape == one.shape:
                raise ValueError(f"array {place} of a compiled function {problem}")
            return f"array {place} {problem}"
    raise AssertionError("all arrays are as expected")


def _all_slots(found: Plan) -> list[tuple[Term, int]]:
    return [*found.arguments, *found.memories, *found.constants, *found.results]


def _expected(term: Term, slot: int, writable: bool, made: Executable) -> Expected:
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
                found = forward(call.op, list(map(operand, call.args)), call.attrs)
            known.update(zip(call.outputs, found if call.op.multiple else (found,), strict=True))
        for term, array in known.items():
            if term in places:
                _array(places[term], made)[...] = array

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
