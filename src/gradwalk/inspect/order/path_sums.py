"""A graph prepared for backward passes in any order, and sums over its paths.

A *place* is one output of one node, where gradient arrives. What arrives is a sum over paths from
the root, and every question of the lab is such a sum: of amounts, of ones (the number of paths), of
lists of the largest paths. `Weights` defines what is summed; the functions here define over which
paths: all, those an order runs, those it loses, those it runs once too often.

Nothing here enumerates paths, so 2⁶⁰ of them take no longer than two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

Sums = list[Any]  # by place; None where no path arrives
Passes = Sequence[Sequence[int]]  # of each call of backward, the nodes it visits


class Weights(Protocol):
    """What is summed over paths."""

    def seeds(self) -> dict[int, Any]:
        """The seeds of the roots, by place."""

    def add(self, one: Any, other: Any) -> Any:
        """Add two sums."""

    def push(self, node: int, outputs: list[Any]) -> Sequence[Any]:
        """What a node with these sums pushes along each edge."""


class BackwardGraph:
    """The nodes behind the roots of a backward pass, and the edges that carry gradient."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.first_place: list[int] = []  # of each node; its other outputs follow
        self.node_at: list[int] = []  # the other way round
        self._places: list[range] = []
        for node in trace.nodes:
            first = len(self.node_at)
            self.first_place.append(first)
            self._places.append(range(first, first + max(len(node.metas), 1)))
            self.node_at += [node.index] * len(self._places[-1])
        self.seeds = _seeds(trace, self.first_place)
        self.edges: list[tuple[tuple[int, int], ...]] = [()] * len(trace)  # (argument, place)
        self.consumers: dict[int, list[int]] = {}
        self.reached = self._reach()  # consumers before their inputs
        self.in_reach = set(self.reached)
        self._slopes: dict[int, tuple[float, ...]] = {}

    def places(self, node: int) -> range:
        """The places of a node's outputs."""
        return self._places[node]

    def place_name(self, place: int) -> str:
        """The name of the node, with the output if it has several."""
        node = self.node_at[place]
        name = self.trace.name(node)
        return name if len(self.places(node)) == 1 else f"{name}[{place - self.first_place[node]}]"

    def _reach(self) -> list[int]:
        """Walk the order of computation backwards, which visits consumers first."""
        nodes = self.trace.nodes
        met = [False] * len(nodes)
        for place in self.seeds:
            met[self.node_at[place]] = True
        order = []
        for index in range(len(nodes) - 1, -1, -1):
            if not met[index]:
                continue
            order.append(index)
            node = nodes[index]
            self.edges[index] = edges = tuple(
                (argument, self.first_place[edge.node] + edge.output)
                for argument, edge in node.edges
                if _carries(self.trace, node, argument, edge)
            )
            for _, place in edges:
                source = self.node_at[place]
                met[source] = True
                self.consumers.setdefault(source, []).append(index)
        return order

    @property
    def inner(self) -> list[int]:
        """The nodes with inputs, consumers first: a valid order."""
        return [node for node in self.reached if self.edges[node]]

    def leading_to(self, places: Iterable[int]) -> set[int]:
        """The nodes of these places, and all nodes that lead to them."""
        stack = [self.node_at[place] for place in places]
        leading = set(stack)
        while stack:
            for consumer in self.consumers.get(stack.pop(), ()):
                if consumer not in leading:
                    leading.add(consumer)
                    stack.append(consumer)
        return leading

    # -- numbers -----------------------------------------------------------------------------------

    def zero(self, place: int) -> Any:
        """A zero gradient of a place."""
        if self.trace.scalar:
            return 0.0
        node = self.node_at[place]
        shape, dtype = self.trace.nodes[node].metas[place - self.first_place[node]]
        return np.zeros(shape, dtype)

    def slopes(self, node: int) -> tuple[float, ...]:
        """The local derivative along each edge of a scalar node."""
        slopes = self._slopes.get(node)
        if slopes is None:
            pulled = replay.pull(self.trace, self.trace.nodes[node], 1.0)
            slopes = tuple([pulled[argument] for argument, _ in self.edges[node]])
            self._slopes[node] = slopes
        return slopes

    def pull(self, node: int, outputs: list[Any]) -> list[Any]:
        """What a node pushes along each edge, given the gradients of its outputs."""
        if self.trace.scalar:
            g = outputs[0]
            if math.isfinite(g):
                return [g * slope for slope in self._slopes.get(node) or self.slopes(node)]
            # As the engine does: a mask avoids inf × 0 = NaN.
            pulled: Sequence[Any] = replay.pull(self.trace, self.trace.nodes[node], g)
        else:
            pulled = self._pull_arrays(self.trace.nodes[node], outputs)
        return [pulled[argument] for argument, _ in self.edges[node]]

    def _pull_arrays(self, node: TraceNode, outputs: list[Any]) -> Sequence[Any]:
        gs = replay.filled(node, outputs)
        try:
            return replay.pull(self.trace, node, gs)
        except replay.NotReplayable:
            if replay.op_of(node) is None:
                raise self._unknown(node) from None
            known = replay.pull_as_recorded(self.trace, node, gs)  # an operand was not kept
            if known is None:
                raise
            return known

    def _unknown(self, node: TraceNode) -> replay.NotReplayable:
        made = f" ({node.line})" if node.line is not None else ""
        return replay.NotReplayable(
            f"{self.trace.name(node.index)}{made} is a custom function, {node.op}. The trace has "
            "what it pushed for the gradient it received, and this order gives it another "
            "gradient, which is not a multiple of that. Fix: choose an order that visits "
            f"{self.trace.name(node.index)} after all of its consumers, or define {node.op} as an "
            "op (CONTRIBUTING.md), so that the trace can compute its derivative."
        )


def _seeds(trace: Trace, first_place: list[int]) -> dict[int, Any]:
    if not trace.nodes:
        raise ValueError("the trace is empty: nothing was recorded")
    if not trace.sweeps:
        shape, dtype = trace.nodes[-1].metas[0]
        return {first_place[-1]: 1.0 if trace.scalar else np.ones(shape, dtype)}
    seeds = replay.kept_seeds(trace.sweep)
    return {first_place[edge.node] + edge.output: seed for edge, seed in seeds.items()}


def _carries(trace: Trace, node: TraceNode, argument: int, edge: Edge) -> bool:
    """Whether an edge carries gradient."""
    if not trace.nodes[edge.node].needs_grad or not node.needs_grad:
        return False
    op = replay.op_of(node)
    if op is not None:
        return op.rule(argument) is not None
    pushed = [s.pushed[node.index] for s in trace.sweeps if node.index in s.pushed]
    return any(argument < len(p) and p[argument] is not None for p in pushed)


class Amounts:
    """Sum the amounts along paths: the gradient itself."""

    def __init__(self, graph: BackwardGraph) -> None:
        self.seeds = graph.seeds.copy
        self.push = graph.pull

    def add(self, one: Any, other: Any) -> Any:
        return one + other


class Counts:
    """Count paths exactly, or up to `most`."""

    def __init__(self, graph: BackwardGraph, most: int | None = None) -> None:
        self.graph = graph
        self.most = most

    def seeds(self) -> dict[int, int]:
        return dict.fromkeys(self.graph.seeds, 1)

    def add(self, one: int, other: int) -> int:
        return one + other if self.most is None else min(one + other, self.most)

    def push(self, node: int, outputs: list[Any]) -> list[int]:
        total = sum(filter(None, outputs))
        return [total] * len(self.graph.edges[node])


def _plus(weights: Weights, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return weights.add(one, other)


def _pushes(
    graph: BackwardGraph, weights: Weights, node: int, outputs: list[Any]
) -> Iterable[tuple[int, Any]]:
    """Yield (place, arrival) for each edge of a node."""
    if not graph.edges[node]:
        return []
    if all(out is None for out in outputs):
        return [(place, None) for _, place in graph.edges[node]]
    pushed = weights.push(node, outputs)
    return [(place, part) for (_, place), part in zip(graph.edges[node], pushed)]


def over_all_paths(
    graph: BackwardGraph,
    weights: Weights,
    among: set[int] | None = None,
    begin: Sums | None = None,
    keep: set[int] | None = None,
) -> Sums:
    """The right backward pass: each node after all its consumers.

    `begin` replaces the seeds of the roots and is consumed; its sums count only behind their
    places, not at them. `among` restricts the nodes. `keep` restricts the answer to some places;
    the others are dropped as soon as they are used.
    """
    sums: Sums = [None] * len(graph.node_at)
    if begin is None:
        begin = [None] * len(graph.node_at)
        for place, seed in weights.seeds().items():
            sums[place] = seed
    for node in graph.reached:
        if among is not None and node not in among:
            continue
        outputs = [_plus(weights, sums[p], begin[p]) for p in graph.places(node)]
        for p in graph.places(node):
            begin[p] = None
            if keep is not None and p not in keep:
                sums[p] = None
        if all(out is None for out in outputs):
            continue
        for place, part in _pushes(graph, weights, node, outputs):
            if part is not None and (among is None or graph.node_at[place] in among):
                sums[place] = _plus(weights, sums[place], part)
    return sums


def as_run(graph: BackwardGraph, weights: Weights, passes: Passes, overwrite: bool) -> Sums:
    """What arrives if the nodes are visited in this order and each pushes what it has by then.

    With `overwrite` an arrival replaces the gradient: `=` instead of `+=`. Every pass sets the
    gradient of the roots and clears nothing.
    """
    sums: Sums = [None] * len(graph.node_at)
    for visits in passes:
        for place, seed in weights.seeds().items():
            sums[place] = seed
        for node in visits:
            outputs = [sums[p] for p in graph.places(node)]
            for place, part in _pushes(graph, weights, node, outputs):
                sums[place] = part if overwrite else _plus(weights, sums[place], part)
    return sums


def lost_and_extra(
    graph: BackwardGraph,
    weights: Weights,
    passes: Passes,
    keep: set[int] | None = None,
) -> tuple[Sums, Sums]:
    """Sums over the paths an order loses, and over those it runs once too often.

    A path runs once for every way to find its nodes, from the root down, in the order of the
    visits. Of these ways the one that takes each node at its first chance is the right one, the
    others are extra. So each place has two sums: what is *fresh*, arrived since its node's last
    visit, and what is *stale*, pushed before, and extra if it is pushed again. What is still
    fresh at the end of a pass was never pushed: every path that goes on from there is lost.
    A further pass sets the gradient of the roots again, so what they had is lost as well.
    """
    among = None if keep is None else graph.leading_to(keep)
    fresh: Sums = [None] * len(graph.node_at)
    stale: Sums = [None] * len(graph.node_at)
    stuck: Sums = [None] * len(graph.node_at)
    extra: Sums = [None] * len(graph.node_at)
    at_root = dict.fromkeys(weights.seeds())  # what arrived there in this pass
    replaced: dict[int, Any] = {}  # what was there before the next pass
    left = Counter(node for visits in passes for node in visits)

    def visit(node: int) -> None:
        places = graph.places(node)
        left[node] -= 1
        first = _pushes(graph, weights, node, [fresh[p] for p in places])
        again = _pushes(graph, weights, node, [stale[p] for p in places])
        for p in places:
            stale[p] = _plus(weights, stale[p], fresh[p]) if left[node] else None
            fresh[p] = None
        for (to, part), (_, repeated) in zip(first, again):
            source = graph.node_at[to]
            if among is not None and source not in among:
                continue
            if part is not None and graph.edges[source]:
                fresh[to] = _plus(weights, fresh[to], part)
            if to in at_root:
                at_root[to] = _plus(weights, at_root[to], part)
            if repeated is not None:
                if left[source]:
                    stale[to] = _plus(weights, stale[to], repeated)
                if keep is None or to in keep:
                    extra[to] = _plus(weights, extra[to], repeated)

    for visits in passes:
        for p, sum_ in enumerate(fresh):
            if sum_ is not None:  # from an earlier pass, and not cleared
                stale[p], fresh[p] = _plus(weights, stale[p], sum_), None
        for p, seed in weights.seeds().items():
            replaced[p] = _plus(weights, replaced.get(p), at_root[p])
            fresh[p], stale[p], extra[p], at_root[p] = seed, None, None, seed
        for node in visits:
            if graph.edges[node] and (among is None or node in among):
                visit(node)
            else:
                left[node] -= 1
        for p, sum_ in enumerate(fresh):
            if sum_ is not None:
                stuck[p] = _plus(weights, stuck[p], sum_)
    lost = over_all_paths(graph, weights, among, stuck, keep)
    for p, sum_ in replaced.items():
        if keep is None or p in keep:
            lost[p] = _plus(weights, lost[p], sum_)
    return lost, extra
