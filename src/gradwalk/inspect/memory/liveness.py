"""Live memory for backward at each moment of a step, computed from a trace.

A node keeps arrays from its forward until backward has visited it. A checkpointed region keeps its
arguments instead; while it runs, in forward and again in backward, the arrays of its nodes are
alive too. `SavedMeter` measures the same in a real run.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from gradwalk.engine.checkpoint import saved_arrays
from gradwalk.engine.modes import state, switch
from gradwalk.graph.versions import owner_of
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Saved, Trace, TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import dtype_named


@dataclass(frozen=True, slots=True)
class Moment:
    """The bytes that are alive after one operation, or after one visit of backward."""

    phase: str  # "forward" or "backward"
    node: int
    bytes: int


@dataclass
class Regions:
    """Checkpointed parts of a trace: which nodes, and which memory each keeps all along."""

    of_node: dict[int, int] = field(default_factory=dict)
    kept: dict[int, tuple[Saved, ...]] = field(default_factory=dict)


class Saving:
    """The memory of a trace: what each node saves, and the memory of its inputs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.estimated = not trace.saved  # missing in a file; the op table mostly tells
        self.unknown: list[int] = []  # nodes with incomplete information
        roots = [edge.node for edge in trace.sweeps[-1].seeds] if trace.sweeps else [trace.root]
        wanted = leading_to(trace, roots, lambda edge: trace.nodes[edge.node].needs_grad)
        self.nodes = [n for n in trace.nodes if n.op and n.index in wanted]
        self._memory: dict[Edge, Saved] = dict(trace.memory)
        noted = [*self._memory.values(), *(s for kept in trace.saved.values() for s in kept)]
        self._next = max((s.memory for s in noted), default=0)
        for node in trace.nodes:
            for output in range(len(node.metas)):
                self._locate(node, output)
        self.own = {
            self._memory[Edge(n.index)].memory for n in trace.nodes if n.is_leaf and n.needs_grad
        }
        self.kept: dict[int, tuple[Saved, ...]] = {}
        for node in self.nodes:
            if node.index in trace.saved:
                self.kept[node.index] = trace.saved[node.index]
            elif self.estimated:
                self.kept[node.index] = self._by_the_rules(node)

    def _locate(self, node: TraceNode, output: int) -> None:
        """The memory of an output: its own, or that of what it is a view of."""
        edge = Edge(node.index, output)
        if edge in self._memory:
            return
        op = TABLE.get(node.op)
        source = node.args[0] if node.args else None
        if op is not None and op.view and isinstance(source, Edge):
            self._memory[edge] = self._memory[source]
            return
        self._next += 1
        self._memory[edge] = Saved("out", bytes_of(node, output), self._next)

    def _by_the_rules(self, node: TraceNode) -> tuple[Saved, ...]:
        """What the op's rules need: inputs and outputs; the size of residuals is unknown."""
        op = TABLE.get(node.op)
        if op is None:
            self.unknown.append(node.index)
            return ()
        wants = tuple(
            isinstance(a, Edge) and self.trace.nodes[a.node].needs_grad for a in node.args
        )
        saved = []
        for name in op.plan(wants).write().names:
            if name in op.outputs:
                edges = [Edge(node.index, op.outputs.index(name))]
            elif name in op.inputs:
                position = op.inputs.index(name)
                tail = op.variadic and position == len(op.inputs) - 1
                several = node.args[position:] if tail else node.args[position : position + 1]
                edges = [a for a in several if isinstance(a, Edge)]
            else:
                edges = []
                if name in op.residuals:
                    self.unknown.append(node.index)
            for edge in edges:
                place = self._memory[edge]
                if place.memory not in self.own:
                    saved.append(Saved(name, place.bytes, place.memory))
        return tuple(saved)

    def timeline(self, regions: Regions | None = None, held: bool = False) -> list[Moment]:
        """The bytes alive over one forward and backward pass.

        With `held`, data that the program made, such as labels, stays alive once saved: the program
        may still hold it.
        """
        if regions is None:  # those of the recording
            regions = Regions(self.trace.regions, self.trace.region_saved)
        count = _Count(self._given if held else frozenset())
        moments = []
        members: dict[int, list[int]] = {}
        for node in self.nodes:
            if node.index in regions.of_node:
                members.setdefault(regions.of_node[node.index], []).append(node.index)
        for node in self.nodes:
            region = regions.of_node.get(node.index)
            if region is not None and members[region][0] == node.index:
                count.add(regions.kept.get(region, ()))
            count.add(self.kept.get(node.index, ()))
            moments.append(Moment("forward", node.index, count.bytes))
            if region is not None and members[region][-1] == node.index:
                for index in members[region]:
                    count.drop(self.kept.get(index, ()))
        again: dict[int, dict[int, tuple[Saved, ...]]] = {}
        for node in reversed(self.nodes):
            region = regions.of_node.get(node.index)
            kept = self.kept.get(node.index, ())
            if region is not None:
                if region not in again:
                    again[region] = self._computed_again(members[region])
                    for recomputed in again[region].values():
                        count.add(recomputed)
                kept = again[region][node.index]
            moments.append(Moment("backward", node.index, count.bytes))
            count.drop(kept)
            if region is not None and members[region][0] == node.index:
                count.drop(regions.kept.get(region, ()))
        return moments

    def _computed_again(self, members: list[int]) -> dict[int, tuple[Saved, ...]]:
        """What the nodes of a region save when recomputed: new memory for their outputs."""
        inside = set(members)
        fresh: dict[int, int] = {}
        again = {}
        for index in members:
            renewed = []
            for saved in self.kept.get(index, ()):
                # A residual is no node's output: it is made by the node that keeps it.
                if self.made_by.get(saved.memory, index) in inside:
                    if saved.memory not in fresh:
                        self._next += 1
                        fresh[saved.memory] = self._next
                    saved = saved._replace(memory=fresh[saved.memory])
                renewed.append(saved)
            again[index] = tuple(renewed)
        return again

    @cached_property
    def made_by(self) -> dict[int, int]:
        """Memory -> the node whose output it is."""
        makers: dict[int, int] = {}
        for edge, place in self._memory.items():
            maker = self._first_use(edge.node)
            makers[place.memory] = min(maker, makers.get(place.memory, maker))
        return makers

    @cached_property
    def _given(self) -> frozenset[int]:
        """The memory of data: what no recorded operation made."""
        return frozenset(m for m, i in self.made_by.items() if self.trace.nodes[i].is_leaf)

    def _first_use(self, index: int) -> int:
        """The node itself; for a leaf that the library made (a dropout mask), its consumer."""
        node = self.trace.nodes[index]
        inside = node.is_leaf and not node.needs_grad and node.line is None and self._has_lines
        uses = self.trace.consumers[index] if inside else []
        return uses[0][0] if uses else index

    @cached_property
    def _has_lines(self) -> bool:
        return any(node.line is not None for node in self.nodes)

    def read_by(self, nodes: list[TraceNode]) -> tuple[Saved, ...]:
        """The memory that a part of the computation reads but did not make, without parameters."""
        inside = {n.index for n in nodes}
        read: dict[int, Saved] = {}
        for node in nodes:
            for _, edge in node.edges:
                place = self._memory[edge]
                if place.memory not in self.own and self.made_by[place.memory] not in inside:
                    read[place.memory] = place
        return tuple(read.values())


class _Count:
    """Count the bytes of distinct memory with reference counts."""

    def __init__(self, held: frozenset[int]) -> None:
        self.holders: dict[int, int] = {}
        self.bytes = 0
        self._held = held

    def add(self, several: tuple[Saved, ...]) -> None:
        for saved in several:
            before = self.holders.get(saved.memory, 0)
            self.holders[saved.memory] = before + 1
            if not before:
                self.bytes += saved.bytes
                self.holders[saved.memory] += saved.memory in self._held

    def drop(self, several: tuple[Saved, ...]) -> None:
        for saved in several:
            self.holders[saved.memory] -= 1
            if not self.holders[saved.memory]:
                self.bytes -= saved.bytes


def bytes_of(node: TraceNode, output: int = 0) -> int:
    """The size of one output."""
    shape, dtype = node.metas[output]
    return math.prod(shape) * (8 if dtype == "float" else dtype_named(dtype).itemsize)


def operations(trace: Trace, node: TraceNode) -> float:
    """The approximate number of multiplications and additions in a node's forward."""
    size = float(math.prod(node.shape))
    shapes = [trace.shape_of(a) for a in node.args if isinstance(a, (Edge, np.ndarray))]
    if node.op in ("linear", "matmul") and shapes and shapes[0]:
        return 2 * size * shapes[0][-1]
    if node.op.startswith("conv") and len(shapes) > 1:
        return 2 * size * math.prod(shapes[1][1:])
    if node.op == "attention" and len(shapes) > 2:
        return 4 * size * shapes[1][-2]
    if node.op in ("lstm", "gru", "rnn") and len(shapes) > 3:
        steps, batch = shapes[0][:2]
        learned = [shape for shape in shapes[1:] if len(shape) == 2 and shape[0] != batch]
        return 2.0 * steps * batch * sum(math.prod(shape) for shape in learned)
    return size


class SavedMeter:
    """Measure the bytes saved for backward while a program runs.

    It follows the memory itself: an array counts from the moment a node keeps it until it is
    freed. `peak` is the most that was alive at once, `live` what is alive now.

    >>> import gradwalk as gw
    >>> x = gw.ones(1000, requires_grad=True)
    >>> with SavedMeter() as meter:
    ...     x.tanh().tanh().sum().backward()
    >>> meter.peak, meter.live
    (8000, 0)
    """

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self._known: dict[int, Any] = {}
        self._outer: Any = None

    def __enter__(self) -> Self:
        self._outer = state.here.watcher
        switch(watcher=self)
        return self

    def __exit__(self, *error: Any) -> None:
        switch(watcher=self._outer)

    def _track(self, owner: np.ndarray[Any, Any], counts: bool) -> None:
        key, size = id(owner), owner.nbytes
        known = self._known.get(key)
        if known is not None and known() is owner:
            return

        def freed(reference: Any) -> None:
            if self._known.get(key) is reference:
                del self._known[key]
            if counts:
                self.live -= size

        self._known[key] = weakref.ref(owner, freed)
        if counts:
            self.live += size
            self.peak = max(self.peak, self.live)

    def made(
        self, op: Any, args: Any, attrs: Any, outputs: tuple[Any, ...], *place: Any, **_: Any
    ) -> None:
        """Count what the node of an operation saves."""
        node = next((o._node for o in outputs if o._node is not None), None)
        if node is None or not isinstance(node.saved, dict):
            return
        for source in node.inputs:
            if source is not None and not source.inputs:
                self._track(owner_of(source._array), counts=False)
        for array in saved_arrays(node):
            self._track(owner_of(array), counts=True)

    def operands(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Ignore operands."""
        return args

    def _ignore(self, *args: Any, **keywords: Any) -> None:
        """Ignore all other events."""

    began = detached = taken_out = entered = entered_module = left = _ignore
    sweeping = visited = delivered = swept = _ignore
