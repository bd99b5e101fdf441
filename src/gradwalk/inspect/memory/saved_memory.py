"""saved_memory: what a graph saves for backward, where and when, and the alternatives."""

from __future__ import annotations

import html
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.memory.checkpoint_planner import CheckpointPlan, make_plan
from gradwalk.inspect.memory.liveness import Moment, SavedMeter, Saving, operations
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.recorder import light_trace
from gradwalk.inspect.trace.trace import Trace, TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import dtype_named
from gradwalk.printers.charts import area_svg

__all__ = ["CheckpointPlan", "SavedMemory", "SavedMeter", "SavedNode", "saved_memory"]

_ROWS = 12


@dataclass
class SavedNode:
    """One operation: what it saves, the size of its Jacobian, and its time."""

    index: int
    op: str
    name: str
    module: str  # "" outside of any
    line: SourceLine | None
    bytes: int  # not saved by an earlier node
    keeps: dict[str, int]  # what its rule needs -> bytes, even if saved elsewhere too
    jacobians: dict[str, int]  # operand -> bytes of d(out)/d(operand), had it been formed
    operations: float  # of the forward, about
    forward: float | None = None  # seconds, if the recording was timed
    backward: float | None = None
    checkpointed: bool = False

    @property
    def diagonal(self) -> bool:
        """Whether the op is elementwise: its Jacobian is a mask, never a matrix."""
        return self.op in TABLE and TABLE[self.op].elementwise

    @property
    def jacobian(self) -> int:
        """The Jacobian of the first operand that has one: for a layer d(output)/d(input)."""
        return next(iter(self.jacobians.values()), 0)


@dataclass
class SavedMemory(Report):
    """What is saved for backward: in total, by node, module and line, and over time."""

    total: int  # bytes alive when backward begins
    peak: int  # the most alive at once; more than the total where regions are run again
    nodes: list[SavedNode]
    timeline: list[Moment]
    notes: list[str] = field(default_factory=list)
    _trace: Any = None
    _saving: Any = None

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes by module, most first."""
        return _summed((node.module or "(no module)", node.bytes) for node in self.nodes)

    @property
    def by_line(self) -> dict[str, int]:
        """Bytes by source line, most first."""
        return _summed((str(node.line or "(no line)"), node.bytes) for node in self.nodes)

    @property
    def by_op(self) -> dict[str, int]:
        """Bytes by kind of operation, most first."""
        return _summed((node.op, node.bytes) for node in self.nodes)

    @property
    def jacobian(self) -> int:
        """The bytes of the largest Jacobian that no operation had to form."""
        return max((node.jacobian for node in self.nodes if not node.diagonal), default=0)

    def costs(self) -> dict[str, tuple[float, float]]:
        """Seconds of forward and of backward by kind of operation, most first."""
        costs: dict[str, tuple[float, float]] = {}
        for node in self.nodes:
            if node.forward is not None or node.backward is not None:
                forward, backward = costs.get(node.op, (0.0, 0.0))
                costs[node.op] = forward + (node.forward or 0.0), backward + (node.backward or 0.0)
        return dict(sorted(costs.items(), key=lambda item: -sum(item[1])))

    def plan(self, budget: int) -> CheckpointPlan:
        """Where to put `gradwalk.checkpoint` so that at most `budget` bytes are alive at once."""
        return make_plan(self._trace, self._saving, budget)

    def svg(self, budget: int | None = None) -> str:
        """The bytes alive over one forward and backward pass."""
        parts = {
            phase: [m.bytes for m in self.timeline if m.phase == phase]
            for phase in ("forward", "backward")
        }
        return area_svg(parts, f"saved for backward, at most {in_bytes(self.peak)}", budget)

    def _repr_html_(self) -> str:
        text = f'<pre class="gradwalk">{html.escape(str(self))}</pre>'
        return f'<div class="gradwalk">{self.svg()}{text}</div>'

    def __str__(self) -> str:
        lines = [f"saved for backward: {in_bytes(self.total)}, at most {in_bytes(self.peak)} alive"]
        for head, groups in (("module", self.by_module), ("line", self.by_line)):
            lines += ["", f"by {head}"]
            shown = [(name, size) for name, size in groups.items() if size][:_ROWS]
            lines += [f"  {in_bytes(size):>10}  {name[:66]}" for name, size in shown]
        full = (node for node in self.nodes if not node.diagonal)
        largest = max(full, key=lambda node: node.jacobian, default=None)
        if largest is not None and largest.jacobian:
            lines += [
                "",
                f"largest Jacobian avoided: {in_bytes(largest.jacobian)} ({largest.op}, "
                f"{largest.name})",
            ]
        costs = self.costs()
        if costs:
            lines += ["", f"  {'seconds':<20}{'forward':>10}{'backward':>10}{'ratio':>8}"]
            for op, (forward, backward) in list(costs.items())[:_ROWS]:
                ratio = f"{backward / forward:.2f}" if forward else ""
                lines.append(f"  {op:<20}{forward:>10.2e}{backward:>10.2e}{ratio:>8}".rstrip())
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _summed(pairs: Any) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for name, size in pairs:
        sizes[name] += size
    return dict(sizes.most_common())


def saved_memory(trace: Any = None) -> SavedMemory:
    """Report what is saved for backward, by node, module and line, and over time.

    `trace` is a recording or a loss whose graph still exists; the default is the current recording.
    `.plan(budget)` says where to checkpoint. A recording made with `record(timing=True)` adds the
    time of each operation, forward and backward.

    >>> import gradwalk as gw
    >>> model = gw.nn.Sequential(gw.nn.Linear(100, 50), gw.nn.Tanh(), gw.nn.Linear(50, 1))
    >>> memory = saved_memory(model(gw.ones(10, 100)).sum())
    >>> memory.total, memory.by_op
    (6000, {'linear': 4000, 'tanh': 2000, 'sum': 0})
    """
    recorded = light_trace(trace)
    if recorded.scalar:
        raise TypeError(
            "saved_memory is about arrays; a graph of Values keeps its numbers in the Values. "
            "Fix: give it the loss of a computation with Tensors."
        )
    return _read(recorded)


def _read(trace: Trace) -> SavedMemory:
    saving = Saving(trace)
    timeline = saving.timeline()
    counted: set[int] = set()
    nodes = []
    for node in saving.nodes:
        region = trace.regions.get(node.index)
        kept = saving.kept.get(node.index, ())
        if region is not None:  # it keeps nothing; its region keeps the arguments
            kept = trace.region_saved.get(region, ())
        new = {saved.memory: saved.bytes for saved in kept if saved.memory not in counted}
        counted.update(new)
        groups = trace.group_path(node.index)
        nodes.append(
            SavedNode(
                node.index,
                node.op,
                trace.name(node.index),
                groups[-1].path if groups else "",
                node.line,
                sum(new.values()),
                _summed((s.name, s.bytes) for s in kept) if region is None else {},
                _jacobians(trace, node),
                operations(trace, node),
                trace.seconds.get(node.index),
                trace.sweep.seconds.get(node.index) if trace.sweeps else None,
                region is not None,
            )
        )
    notes = []
    if saving.estimated:
        notes.append("the trace does not say what was saved: estimated from the rules of the ops")
    if saving.unknown:
        notes.append(f"{len(set(saving.unknown))} operations save an unknown amount more")
    peak = max((moment.bytes for moment in timeline), default=0)
    total = sum(node.bytes for node in nodes)
    return SavedMemory(total, peak, nodes, timeline, notes, trace, saving)


def _jacobians(trace: Trace, node: TraceNode) -> dict[str, int]:
    """Bytes of the matrix d(out)/d(operand), for each operand that wants a gradient."""
    sizes: dict[str, int] = {}
    outputs = math.prod(node.shape)
    dtype = node.metas[0][1]
    size = 8 if dtype == "float" else dtype_named(dtype).itemsize
    for _, edge in node.edges:
        source = trace.nodes[edge.node]
        if source.needs_grad:
            elements = math.prod(source.metas[edge.output][0])
            name = trace.name(edge.node)
            sizes[name] = outputs * elements * size
    return sizes
