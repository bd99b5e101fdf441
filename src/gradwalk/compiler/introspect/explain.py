"""explain: what a compiled function captured, and what runs at a call."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.introspect.tensor_names import argument_names, captured_names
from gradwalk.compiler.ir.listing import WIDTH, columns, lines_of, shortened
from gradwalk.compiler.ir.program import Argument, Call, Program
from gradwalk.compiler.plan.buffers import ALIGNMENT, Slice, bytes_of
from gradwalk.compiler.plan.loop_nest import Apply, Loops, Reduce, Sample
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry, Plan
from gradwalk.compiler.plan.synchronization import operations as of_product
from gradwalk.compiler.plan.synchronization import sharing
from gradwalk.distributed.mesh import Mesh
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.network.convolution import conv_weight
from gradwalk.tensors.devices import CPU, device_of

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization
    from gradwalk.compiler.compiled_function import Compiled


# Of calls with a kernel of their own; all others scatter.
CALL_KINDS = {
    "conv_weight": "convolve", "max_pool_indices": "pool", "pool_sum": "pool",
    "pool_spread": "pool", "gather_last": "pick", "cumsum": "scan", "running_max": "scan",
    "running_min": "scan", "sort": "sort", "topk": "sort",
}  # fmt: skip


@dataclass
class Array(Report):
    """An array that the program reads or updates."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    updated: bool
    sharding: tuple[Any, ...] = ()  # the axes of a mesh that divide each dimension

    def cells(self) -> tuple[str, str, str]:
        """Name, type, and what becomes of it."""
        shape: Any = self.shape
        if any(self.sharding):
            parts = map(_divided, self.shape, self.sharding)
            shape = f"({', '.join(parts)})"
        kind = f"{self.dtype} {shape}" if self.shape else self.dtype
        return self.name, kind, "updated" if self.updated else ""


@dataclass
class KernelReport(Report):
    """One entry of the tape."""

    number: int
    kind: str  # map, rows, columns, product, ..., or NumPy
    function: str  # of the library, "" where NumPy runs it
    ops: list[str]  # fused into it, in order
    lines: list[SourceLine]  # of the user
    shared: bool  # by all threads; otherwise thread 0 runs it alone
    meets: bool  # all threads wait for one another before it
    operations: int
    bytes: int
    times: int = 1  # in a loop; operations, bytes and seconds are those of all of them
    reason: str = ""  # why NumPy runs it
    seconds: float | None = None


@dataclass
class ProgramReport(Report):
    """One program: its kernels, its memory, and how long it took to compile."""

    title: str
    calls: int  # of ops, after the passes
    kernels: list[KernelReport]
    buffers: int = 0
    arena: int = 0  # bytes
    without_reuse: int = 0  # bytes that the buffers would take side by side
    threads: int = 1
    functions: int = 0  # of native code, each for one or more kernels
    compiled: int = 0  # of those, not in a cache
    stages: dict[str, float] = field(default_factory=dict)  # seconds
    backend: str = ""
    where: Any = CPU  # the device or mesh
    costs: Any = None  # of a device, if XLA runs it

    def __str__(self) -> str:
        if not self.stages:
            where = "" if self.where == CPU else f" on {self.where}"
            head = f"{self.title}: {_many(self.calls, 'call')}, run by {self.backend}{where}"
            return head if self.costs is None else f"{head}\n{self.costs}"
        return "\n".join([*self._head(), *self._table(), *self._tail()])

    def _head(self) -> list[str]:
        work = sum(k.operations for k in self.kernels)
        moved = sum(k.bytes for k in self.kernels)
        barriers = sum(k.meets * k.times for k in self.kernels)
        return [
            f"{self.title}: {_many(self.calls, 'call')} in {_many(len(self.kernels), 'kernel')}; "
            f"{in_operations(work)}, {in_bytes(moved)} moved",
            f"  {_many(self.threads, 'thread')}; {_many(barriers, 'barrier')} (|); "
            "one thread runs short kernels",
        ]

    def _table(self) -> list[str]:
        timed = any(k.seconds is not None for k in self.kernels)
        files = {line.file for k in self.kernels for line in k.lines}
        head = f"{'#':>4} {'kind':8} {'time':>8} " if timed else f"{'#':>4} {'kind':8} "
        head += f"{'by':>5} {'FLOP':>7} {'bytes':>9}  "
        table = [f"{head}fused ops [lines]"]
        for k in self.kernels:
            time = f"{_in_seconds(k.seconds):>8} " if timed else ""
            threads = ("| " if k.meets else "") + ("all" if k.shared else "one")
            row = (
                f"{k.number:4} {k.kind:8} {time}{threads:>5} "
                f"{in_operations(k.operations, ''):>7} {in_bytes(k.bytes):>9}  "
            )
            lines = _line_numbers(k.lines, len(files) > 1)
            times = f"{k.times} times: " if k.times > 1 else ""
            text = f"{times}{_counted(k.ops)}{f' [{lines}]' if lines else ''}"
            wrapped = textwrap.wrap(text, WIDTH - len(head)) or [""]
            table.append((row + wrapped[0]).rstrip())
            table += [" " * len(head) + more for more in wrapped[1:]]
        return table

    def _tail(self) -> list[str]:
        users = dict.fromkeys(line for k in self.kernels for line in k.lines)
        lines = [shortened(f"  {line}") for line in sorted(users, key=lambda x: (x.file, x.line))]
        for k in self.kernels:
            if k.reason:
                lines += _paragraph(f"kernel {k.number} runs in NumPy: {k.reason}")
        lines.append(
            f"  {_many(self.buffers, 'buffer')} in {in_bytes(self.arena)} "
            f"({in_bytes(self.without_reuse)} without reuse)"
        )
        if any(k.seconds is not None for k in self.kernels):
            lines.append("  time: the shortest of five runs, with about 1 µs to start each kernel")
        known = self.functions - self.compiled
        lines.append(
            f"  {_many(self.functions, 'native function')}: {self.compiled} compiled, "
            f"{known} from the cache"
        )
        stages = ", ".join(f"{name} {_in_seconds(s)}" for name, s in self.stages.items())
        total = _in_seconds(sum(self.stages.values()))
        return [*lines, *_paragraph(f"compiled in {total}: {stages}")]


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
    unchecked: str = ""  # why the function is not traced again to check the program

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
        if self.unchecked:
            text = f"not checked by tracing it again: {self.unchecked}"
            parts += textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        return "\n".join([*parts, *map(str, self.programs)])


def explain(compiled: Compiled, specialization: Specialization, time: bool = False) -> Explanation:
    """What `Compiled.explain` returns."""
    trace = specialization.trace
    names = captured_names(compiled.function, trace)
    captured = [
        Array(
            name,
            memory.array.dtype.name,
            memory.array.shape,
            number in trace.written,
            _sharding(memory.array),
        )
        for number, (name, memory) in enumerate(zip(names, trace.captured, strict=True))
    ]
    executables = [("program", specialization.executable)]
    if specialization._gradient is not None:
        executables.append(("gradient program", specialization._gradient))
    explanation = Explanation(
        compiled.name,
        sum(map(len, compiled.specializations.values())),
        specialization.count,
        _arguments(compiled, specialization),
        captured,
        list(dict.fromkeys(map(str, trace.scalars))),
        [
            program_report(title, one, compiled.backend_on(trace.device), trace.device)
            for title, one in executables
        ],
        specialization.unchecked,
    )
    if time:
        from gradwalk.compiler.backends.llvm.kernel_timing import seconds

        for report, (_, executable) in zip(explanation.programs, executables, strict=True):
            times = seconds(executable, specialization.arrays) if report.kernels else []
            for kernel, taken in zip(report.kernels, times, strict=True):
                kernel.seconds = taken
    return explanation


def _arguments(compiled: Compiled, specialization: Specialization) -> list[Array]:
    """The tensors it is called with, if the program uses them."""
    trace = specialization.trace
    names = argument_names(compiled.names, trace)
    used = {t.source.number: t for t in trace.program.sources() if isinstance(t.source, Argument)}
    divided = isinstance(trace.device, Mesh) and specialization.executable.jitted
    return [
        Array(
            names[n],
            term.dtype.name,
            term.shape,
            n in trace.written_arguments,
            specialization.executable.sharding_of(n) if divided else (),
        )
        for n, term in sorted(used.items())
    ]


def _sharding(array: Any) -> Any:
    """The axes of a mesh that divide each dimension of an array."""
    on_mesh = isinstance(device_of(array), Mesh)
    return array.machine.sharding_of(array.term) if on_mesh else ()


def _divided(size: int, axes: Any) -> str:
    """A dimension and what divides it: 8/data."""
    named = axes if isinstance(axes, tuple) else (axes,) if axes else ()
    return "/".join([str(size), *named])


def program_report(title: str, executable: Any, backend: str, where: Any = CPU) -> ProgramReport:
    """The kernels of one executable, with their memory and the stages that made them."""
    program: Program = executable.program
    plan: Plan | None = executable.plan
    if plan is None:
        report = ProgramReport(title, len(program.calls), [], backend=backend, where=where)
        if backend == "xla" and executable.jitted:
            from gradwalk.compiler.backends.xla.program_costs import costs

            report.costs = costs(executable, where)
        return report
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
            operations(entry) * entry.times,
            traffic(entry) * entry.times,
            entry.times,
            executable.reasons.get(number, ""),
        )
        for number, (entry, kernel, how) in enumerate(
            zip(plan.entries, executable.kernels, sharing(plan.entries, threads), strict=True)
        )
    ]
    slices = (p for e in plan.entries for p in (*e.reads, *e.writes))
    buffers = {id(b): b for b in (p.buffer.memory for p in slices) if b.in_arena}
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
        backend,
    )


def kind_of_entry(entry: Entry) -> str:
    """The kind of an entry's kernel."""
    work = entry.work
    if isinstance(work, ProductSteps):
        return "product" if work.call.op is matmul_op else "convolve"
    if isinstance(work, Loops):
        return "columns" if work.reduced else "rows" if work.reduces else "map"
    return CALL_KINDS.get(work.op.name, "scatter")


def _indented(arrays: Sequence[Array]) -> list[str]:
    return [shortened(f"  {line}") for line in columns([array.cells() for array in arrays])]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _counted(ops: Sequence[str]) -> str:
    """Names in order of first use, with counts above one."""
    counts = {name: ops.count(name) for name in ops}
    return " ".join(name if n == 1 else f"{n}×{name}" for name, n in counts.items())


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _line_numbers(lines: Sequence[SourceLine], with_files: bool) -> str:
    """Line numbers, after the name of their file: moons.py:10,11 net.py:7."""
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


# -- estimates by shape: an op is one operation, a multiply-add two; arrays are moved once ---------


def operations(entry: Entry) -> int:
    """About how many floating-point operations an entry does."""
    work = entry.work
    if isinstance(work, Loops):
        return _of_loops(work)
    if isinstance(work, ProductSteps):
        after = sum(isinstance(step, Apply) for step in work.loops.steps)
        return of_product(work) + math.prod(work.outputs[0].shape) * after
    return _of_call(work)


def _of_loops(loops: Loops) -> int:
    """Steps that vary run for every element, others once per row."""
    rows = math.prod((*loops.outer, *loops.reduced))
    elements = rows * math.prod(loops.row)
    total = 0
    for step, varies in zip(loops.steps, loops.varies(), strict=True):
        if isinstance(step, (Apply, Sample, Reduce)):
            total += elements if varies or isinstance(step, Reduce) else rows
    return total


def _of_call(call: Call) -> int:
    """For the gradient of a convolution's weight: every element of y times all of the weight. For
    other calls every element once."""
    if call.op is conv_weight:
        _, y = call.terms
        return 2 * y.size * math.prod(call.outputs[0].shape[1:])
    return max((term.size for term in (*call.outputs, *call.terms)), default=0)


def traffic(entry: Entry) -> int:
    """The bytes that an entry reads and writes, without its scratch memory."""
    read = {_identity(array): array for array in entry.reads}
    written = {_identity(array): array for array in entry.writes if not is_scratch(array)}
    return sum(bytes_of(array) for array in (*read.values(), *written.values()))


def is_scratch(array: Slice) -> bool:
    """Whether only the kernel itself uses it."""
    return array.buffer.in_arena and not array.buffer.memory.readers


def _identity(array: Slice) -> tuple[object, ...]:
    return id(array.buffer), array.offset, array.shape, array.strides
