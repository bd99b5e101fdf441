"""Trace a graph of Values: values, gradients, and what each edge carried."""

from __future__ import annotations

import warnings
from typing import Any

from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine, caller, source_line
from gradwalk.inspect.trace.trace import Edge, Sweep, Trace, TraceNode
from gradwalk.ops.core.op import Op
from gradwalk.scalar.push import contributions


def trace_of_values(root: Any) -> Trace:
    """Trace an existing graph of Values. No `.grad` changes.

    A Value does not remember the scope it was made in, so such a trace has no groups.
    """
    trace = Trace()
    trace.scalar = trace.unrecorded = True
    trace._alive.append(root)  # which holds the others
    written = ValueWriter(trace)
    for v in inputs_first([root]):
        written.add(v)
    written.sweep(root)
    return trace


class ValueWriter:
    """Write Values into a trace, each after its inputs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # cached: a loop has few, and finding one is slow
        self._lines: dict[Any, SourceLine | None] = {}

    def add(self, v: Any, group: int | None = None) -> int:
        """Add a Value, and inputs that are not in the trace yet."""
        op = v.op
        node = TraceNode(
            index=0,
            op=op.name if isinstance(op, Op) else str(op),
            args=tuple([Edge(self._find(i, group)) for i in v.inputs]),
            attrs=dict(v.attrs),
            label=v.label,
            group=group,
            line=self._line(v.code, v.position),
            values=[v.data],
        )
        return self.trace.add(node, (id(v), 0))

    def _line(self, code: Any, position: int) -> SourceLine | None:
        place = id(code), position
        if place not in self._lines:
            self._lines[place] = source_line(code, position)
        return self._lines[place]

    def _find(self, v: Any, group: int | None) -> int:
        """The node of an input. A Value made before the recording is added with its history."""
        index = self.trace._index
        number = index.get((id(v), 0))
        if number is None:
            for made in inputs_first([v]):
                if (id(made), 0) not in index:
                    self.add(made, group)
            self.trace._alive.append(v)
            return index[id(v), 0]
        node = self.trace.nodes[number]
        if node.is_leaf and node.value != v.data and (node.value == node.value or v.data == v.data):
            # Updated since, as by a training step: from here on it is another leaf.
            before, number = number, self.add(v, group)
            self.trace._earlier[number] = before
        return number

    def sweep(self, root: Any, line: SourceLine | None = None) -> None:
        """Compute a backward pass from `root` apart from the Values' own gradients."""
        index = self.trace._index
        order = inputs_first([root])
        start = index[id(root), 0]
        sweep = Sweep(seeds={Edge(start): 1.0}, line=line)
        grads = {start: 1.0}
        for v in reversed(order):
            if not v.inputs:
                continue
            number = index[id(v), 0]
            sweep.visits.append(number)
            sweep.pushed[number] = pushed = contributions(v, grads[number])
            for edge, contribution in zip(self.trace.nodes[number].args, pushed, strict=True):
                grads[edge.node] = grads.get(edge.node, 0.0) + (contribution or 0.0)
        sweep.grads = {number: [grads[number]] for number in sorted(grads)}
        self.trace.sweeps.append(sweep)

    # -- while a recording is under way ------------------------------------------------------------

    def made(self, v: Any, group: int | None) -> None:
        """Record a Value."""
        if self.begun():
            self.trace._alive.append(v)
            self.add(v, group)

    def swept(self, root: Any, group: int | None) -> None:
        """Record `root.backward()`."""
        if self.begun():
            self._find(root, group)
            self.sweep(root, source_line(*caller()))

    def begun(self) -> bool:
        """Whether the trace is, or can become, one of Values."""
        if self.trace.nodes and not self.trace.scalar:
            only_one_kind("Tensors", "Values")
            return False
        self.trace.scalar = True
        return True


def take_labels(trace: Trace) -> None:
    """Update labels set after a Value was recorded: `d = b * c; d.label = "d"`."""
    for v in trace._alive:
        number = trace._index.get((id(v), 0))
        if number is not None:
            trace.nodes[number].label = v.label or trace.nodes[number].label


def only_one_kind(recorded: str, other: str) -> None:
    """Warn that a trace leaves something out."""
    warnings.warn(
        f"this recording is of {recorded}; what is computed with {other} in it is left out. "
        f"Fix: record it in a block of its own.",
        stacklevel=2,
    )
