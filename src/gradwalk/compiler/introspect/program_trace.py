"""The program that runs, as a trace for the studio and the tools of `inspect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.capture.locations import GeneratorLocation
from gradwalk.compiler.introspect.explain import kind_of_entry
from gradwalk.compiler.introspect.tensor_names import source_names
from gradwalk.compiler.ir.listing import line_of
from gradwalk.compiler.ir.program import Call, Constant, Program, Term, run, source_values
from gradwalk.compiler.tracing.arguments import Arguments
from gradwalk.engine.modes import state
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.recorder import AUTOMATIC
from gradwalk.inspect.trace.trace import Edge, Group, Trace, TraceNode

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization
    from gradwalk.compiler.compiled_function import Compiled


def trace_of(compiled: Compiled, specialization: Specialization, call: Any = None) -> Trace:
    """A trace of the newest program; with (args, keywords), of one call of it."""
    executable = specialization.executable
    program: Program = executable.program
    values = {} if call is None else _values(compiled, specialization, program, *call)
    writer = _TraceWriter(compiled.name, values, source_names(compiled, specialization.trace))
    groups = _kernels(executable)
    for term in program.sources():
        if not isinstance(term.source, Constant) or term.ndim:
            writer.leaf(term)
    for one in program.calls:
        group = groups.get(one)
        writer.call(one, None if group is None else writer.group(*group))
    for target, term in program.updates:
        writer.note(term, f"becomes {writer.names.get(target.source, 'a number')}")
    for term in program.results:
        writer.note(term, "result")
    return writer.trace


def _kernels(executable: Any) -> dict[Call, tuple[int, str]]:
    """The kernel that each call is in: its number and its kind."""
    if executable.plan is None:
        return {}
    entries = zip(executable.plan.entries, executable.kernels, strict=True)
    kernels: dict[Call, tuple[int, str]] = {}
    for number, (entry, kernel) in enumerate(entries):
        if entry.loop is not None:  # one group, named after its first kernel
            kernels.setdefault(entry.loop.call, (number, "loop"))
            continue
        kind = kind_of_entry(entry) if kernel is not None else "NumPy"
        kernels.update((call, (number, kind)) for call in entry.calls)
    return kernels


def _values(
    compiled: Compiled, specialization: Specialization, program: Program, args: Any, keywords: Any
) -> dict[Term, Any]:
    """The value of every term in one call, computed by NumPy on copies of what it would change."""
    given = Arguments(args, keywords, compiled.static, state.here.grad_enabled)
    memories = (
        specialization.memories(args, keywords)
        if given.signature == specialization.signature
        else None
    )
    if memories is None:
        raise ValueError(
            f"the newest program of {compiled.name} was not compiled for these arguments. "
            "Fix: call it with them first."
        )
    arguments = [np.array(tensor._array) for tensor in given.tensors]  # those of a device, too
    scalars = [location.get(given.values) for location in specialization.trace.scalars]
    copies = [np.array(memory) for memory in memories]
    for number, generator in specialization.generators.items():
        copies[number] = GeneratorLocation(generator)._array
    values = source_values(program, arguments, copies, scalars)
    with np.errstate(all="ignore"):
        for call in program.calls:
            operands = [values[a] if isinstance(a, Term) else a for a in call.args]
            values.update(zip(call.outputs, run(call, operands), strict=True))
    return values


class _TraceWriter:
    """Adds nodes to a trace; keeps arrays up to 64 MiB, then their statistics."""

    def __init__(self, title: str, values: dict[Term, Any], names: dict[Any, str]) -> None:
        self.trace = Trace()
        # It names the trace, and is empty, so that kernels are the outermost groups.
        self.trace.groups.append(Group(title, "scope", 1, None))
        self.values = values
        self.names = names  # of sources
        self.nodes: dict[Term, Edge] = {}
        self.groups: dict[int, int] = {}

    def leaf(self, term: Term) -> None:
        node = TraceNode(
            0,
            "",
            label=self.names.get(term.source, "constant"),
            needs_grad=False,
            metas=((term.shape, term.dtype.name),),
            values=self._kept([term]),
        )
        self.nodes[term] = Edge(self.trace.add(node))

    def call(self, call: Call, group: int | None) -> None:
        node = TraceNode(
            0,
            call.op.name,
            tuple(self._operand(a) for a in call.args),
            {name: value for name, value in call.attrs.items() if name != "body"},
            group=group,
            line=line_of(call),
            needs_grad=False,
            metas=tuple((t.shape, t.dtype.name) for t in call.outputs),
            values=self._kept(call.outputs),
        )
        index = self.trace.add(node)
        self.nodes.update({t: Edge(index, i) for i, t in enumerate(call.outputs)})

    def group(self, number: int, kind: str) -> int:
        """The group of a kernel."""
        if number not in self.groups:
            self.groups[number] = len(self.trace.groups)
            self.trace.groups.append(Group(f"{kind} {number}", "scope", 1, None))
        return self.groups[number]

    def note(self, term: Term, label: str) -> None:
        """Label a term with what becomes of it."""
        edge = self.nodes.get(term)
        if edge is not None and not self.trace.nodes[edge.node].label:
            self.trace.nodes[edge.node].label = label

    def _operand(self, operand: Any) -> Any:
        if not isinstance(operand, Term):
            return operand
        known = self.nodes.get(operand)
        if known is not None:
            return known
        assert isinstance(operand.source, Constant)
        return operand.source.array.item()

    def _kept(self, terms: Iterable[Term]) -> list[Any]:
        kept: list[Any] = []
        for term in terms:
            if term not in self.values:
                kept.append(None)
                continue
            array = np.asarray(self.values[term], term.dtype)
            room = self.trace.bytes_kept + array.nbytes <= AUTOMATIC
            if room:
                self.trace.bytes_kept += array.nbytes
            else:
                self.trace.reduced.setdefault("values", []).append(len(self.trace.nodes))
            kept.append(array.copy() if room else Statistics.of(array))
        return kept
