"""explain: what a compiled function captured, and what runs when it is called."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.introspect.estimates import operations, traffic
from gradwalk.compiler.introspect.tensor_names import argument_names, captured_names
from gradwalk.compiler.ir.listing import WIDTH, columns, lines_of, shortened
from gradwalk.compiler.ir.program import Call, Memory, Program
from gradwalk.compiler.plan.buffers import ALIGNMENT
from gradwalk.compiler.plan.loop_nest import Loops
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry, Plan
from gradwalk.compiler.plan.synchronization import sharing
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.statistics import in_bytes
from gradwalk.ops.linear.matmul import matmul_op

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization
    from gradwalk.compiler.function import Compiled

CALL_KINDS = {
    "conv": "convolve", "pool": "pool", "max": "pool", "gather": "pick", "cumsum": "scan",
    "running": "scan", "sort": "sort", "topk": "sort",
}  # fmt: skip


@dataclass
class Array(Report):
    """An array that the program reads or updates."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    updated: bool

    def cells(self) -> tuple[str, str, str]:
        """Name, type, and what becomes of it."""
        kind = f"{self.dtype} {self.shape}" if self.shape else self.dtype
        return self.name, kind, "updated" if self.updated else ""


@dataclass
class KernelReport(Report):
    """One entry of the tape."""

    number: int
    kind: str  # map, rows, columns, product, ..., or NumPy
    function: str  # of the library, "" where NumPy runs it
    ops: list[str]  # what was fused into it, in order
    lines: list[SourceLine]  # of the user, that it stands for
    shared: bool  # by all threads; otherwise thread 0 runs it alone
    meets: bool  # all threads wait for one another before it
    operations: int
    bytes: int
    reason: str = ""  # why NumPy runs it
    seconds: float | None = None


@dataclass
class ProgramReport(Report):
    """One program: its kernels, its memory, and how long it took to compile."""

    title: str
    calls: int  # of ops, after the passes
    kernels: list[KernelReport]
    buffers: int
    arena: int  # bytes
    without_reuse: int  # bytes that the buffers would take side by side
    threads: int
    functions: int  # of native code, each for one or more kernels
    compiled: int  # of those, not found in memory or on disk
    stages: dict[str, float] = field(default_factory=dict)  # seconds
    backend: str = "llvm"

    def __str__(self) -> str:
        if self.backend != "llvm":
            return f"{self.title}: {self.calls} calls, each run by NumPy"
        return "\n".join([*self._head(), *self._table(), *self._tail()])

    def _head(self) -> list[str]:
        work = sum(k.operations for k in self.kernels)
        moved = sum(k.bytes for k in self.kernels)
        barriers = sum(k.meets for k in self.kernels)
        return [
            f"{self.title}: {_many(self.calls, 'call')} in {_many(len(self.kernels), 'kernel')}; "
            f"{in_operations(work)}, {in_bytes(moved)} moved",
            f"  {_many(self.threads, 'thread')}; {_many(barriers, 'barrier')} (|); "
            "short kernels are run by one",
        ]

    def _table(self) -> list[str]:
        timed = any(k.seconds is not None for k in self.kernels)
        files = {line.file for k in self.kernels for line in k.lines}
        head = f"{'#':>4} {'kind':8} {'time':>8} " if timed else f"{'#':>4} {'kind':8} "
        head += f"{'by':>5} {'FLOP':>7} {'bytes':>9}  "
        found = [f"{head}fused ops [lines]"]
        for k in self.kernels:
            time = f"{_in_seconds(k.seconds):>8} " if timed else ""
            threads = ("| " if k.meets else "") + ("all" if k.shared else "one")
            row = (
                f"{k.number:4} {k.kind:8} {time}{threads:>5} "
                f"{in_operations(k.operations, ''):>7} {in_bytes(k.bytes):>9}  "
            )
            places = _places(k.lines, len(files) > 1)
            text = f"{_counted(k.ops)}{f' [{places}]' if places else ''}"
            wrapped = textwrap.wrap(text, WIDTH - len(head)) or [""]
            found.append((row + wrapped[0]).rstrip())
            found += [" " * len(head) + more for more in wrapped[1:]]
        return found

    def _tail(self) -> list[str]:
        lines = list(dict.fromkeys(line for k in self.kernels for line in k.lines))
        found = [shortened(f"  {line}") for line in sorted(lines, key=lambda x: (x.file, x.line))]
        for k in self.kernels:
            if k.reason:
                found += textwrap.wrap(
                    f"kernel {k.number} runs as NumPy: {k.reason}", WIDTH,
                    initial_indent="  ", subsequent_indent="    ",
                )  # fmt: skip
        found.append(
            f"  {_many(self.buffers, 'buffer')} in {in_bytes(self.arena)} "
            f"({in_bytes(self.without_reuse)} without reuse)"
        )
        if any(k.seconds is not None for k in self.kernels):
            found.append("  time: the shortest of five runs, with about 1 µs to start each kernel")
        known = self.functions - self.compiled
        found.append(
            f"  {_many(self.functions, 'native function')}: {self.compiled} compiled, "
            f"{known} from the cache"
        )
        stages = ", ".join(f"{name} {_in_seconds(s)}" for name, s in self.stages.items())
        total = _in_seconds(sum(self.stages.values()))
        found += textwrap.wrap(
            f"compiled in {total}: {stages}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
        return found


@dataclass
class Explanation(Report):
    """What a compiled function is made of; `print` it."""

    name: str
    specializations: int  # programs compiled so far, for other shapes and the like
    calls: int  # of this one
    arguments: list[Array]
    captured: list[Array]
    numbers: list[str]  # read at every call
    programs: list[ProgramReport]  # the function, then its gradient if that was asked for

    def __str__(self) -> str:
        others = (
            f", the newest of {self.specializations} programs" if self.specializations > 1 else ""
        )
        parts = [f"{self.name}: called {_many(self.calls, 'time')}{others}"]
        parts += ["arguments", *_indented(self.arguments)] if self.arguments else []
        parts += ["captured", *_indented(self.captured)] if self.captured else []
        if self.numbers:
            text = f"read at every call: {', '.join(self.numbers)}"
            parts += textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        return "\n".join([*parts, *map(str, self.programs)])


def explain(compiled: Compiled, specialization: Specialization, time: bool = False) -> Explanation:
    """What `Compiled.explain` gives."""
    trace = specialization.trace
    updated = {
        (type(t.source), getattr(t.source, "number", None)) for t, _ in trace.program.updates
    }
    names = captured_names(compiled.function, trace)
    captured = [
        Array(name, held.array.dtype.name, held.array.shape, (Memory, number) in updated)
        for number, (name, held) in enumerate(zip(names, trace.captured, strict=True))
    ]
    found = Explanation(
        compiled.name,
        sum(map(len, compiled.specializations.values())),
        specialization.count,
        _arguments(compiled, specialization),
        captured,
        list(dict.fromkeys(map(str, trace.scalars))),
        [program_report("program", specialization.executable)],
    )
    if specialization._gradient is not None:
        found.programs.append(program_report("gradient program", specialization._gradient))
    if time:
        from gradwalk.compiler.backends.llvm.kernel_timing import seconds

        arrays = specialization.arrays
        for report, executable in zip(found.programs, _executables(specialization), strict=True):
            if not report.kernels:
                continue
            for kernel, taken in zip(report.kernels, seconds(executable, arrays), strict=True):
                kernel.seconds = taken
    return found


def _executables(specialization: Specialization) -> list[Any]:
    return [e for e in (specialization.executable, specialization._gradient) if e is not None]


def _arguments(compiled: Compiled, specialization: Specialization) -> list[Array]:
    """The tensors it is called with, as far as the program uses them."""
    names = argument_names(compiled.names, specialization.trace)
    found = {}
    written = specialization.trace.written_arguments
    for term in specialization.trace.program.sources():
        position = getattr(term.source, "position", None)
        if position is not None:
            name = names[position]
            found[position] = Array(name, term.dtype.name, term.shape, position in written)
    return [found[position] for position in sorted(found)]


def program_report(title: str, executable: Any) -> ProgramReport:
    """The kernels of one executable, with their memory and the stages that made them."""
    program: Program = executable.program
    plan: Plan | None = getattr(executable, "plan", None)
    if plan is None:
        return ProgramReport(title, len(program.calls), [], 0, 0, 0, 1, 0, 0, {}, "numpy")
    from gradwalk.compiler.backends.llvm.runtime import thread_pool

    threads = thread_pool.get_num_threads()
    kernels = [
        KernelReport(
            number,
            kind_of_entry(entry) if kernel is not None else "NumPy",
            kernel.name if kernel is not None else "",
            [call.op.name for call in entry.calls] or ["copy or fill"],
            lines_of(entry.calls),
            kernel is not None and not how.alone,
            how.meet,
            operations(entry),
            traffic(entry),
            executable.reasons.get(number, ""),
        )
        for number, (entry, kernel, how) in enumerate(
            zip(plan.entries, executable.kernels, sharing(plan.entries, threads), strict=True)
        )
    ]
    places = [p for e in plan.entries for p in (*e.reads, *e.writes) if p.buffer.in_arena]
    buffers = {id(p.buffer): p.buffer for p in places}
    return ProgramReport(
        title,
        len(program.calls),
        kernels,
        len(buffers),
        plan.arena,
        sum(-(-buffer.size // ALIGNMENT) * ALIGNMENT for buffer in buffers.values()),
        threads,
        len(executable.library.addresses),
        executable.library.compiled,
        dict(executable.stages),
    )


def kind_of_entry(entry: Entry) -> str:
    """Which generator wrote an entry's kernel."""
    work = entry.work
    if isinstance(work, ProductSteps):
        return "product" if work.call.op is matmul_op else "convolve"
    if isinstance(work, Loops):
        return "columns" if work.reduced else "rows" if work.reduces else "map"
    return kind_of_call(work)


def kind_of_call(call: Call) -> str:
    """The same for a call that has a kernel of its own."""
    start = call.op.name.partition("_")[0]
    return CALL_KINDS.get(start, "scatter")


def _indented(arrays: Sequence[Array]) -> list[str]:
    return [shortened(f"  {line}") for line in columns([array.cells() for array in arrays])]


def _counted(ops: Sequence[str]) -> str:
    """Names in order of first use; how often where that is more than once."""
    counts = {name: ops.count(name) for name in ops}
    return " ".join(name if n == 1 else f"{n}×{name}" for name, n in counts.items())


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _places(lines: Sequence[SourceLine], with_files: bool) -> str:
    """Numbers of lines, those of each file behind its name: moons.py:10,11 net.py:7."""
    by_file: dict[str, list[str]] = {}
    for line in lines:
        by_file.setdefault(line.file, []).append(str(line.line))
    names = {file: f"{Path(file).name}:" if with_files else "" for file in by_file}
    return " ".join(f"{names[file]}{','.join(numbers)}" for file, numbers in by_file.items())


def in_operations(count: float, unit: str = "FLOP") -> str:
    """A number of operations with a prefix.

    >>> in_operations(1.5e6)
    '1.5 MFLOP'
    """
    prefixes = ("", "k", "M", "G", "T", "P")
    rank = 0
    while count >= 1000 and rank < len(prefixes) - 1:
        count, rank = count / 1000, rank + 1
    return f"{count:.3g} {prefixes[rank]}{unit}".rstrip()


def _in_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
