"""Wrong ways to walk a graph backward: which of them gives the gradients an engine has?

Only numbers are known of the engine, and local derivatives are right by then. For every wrong walk
the graph is run the way that walk would go. An engine may keep inputs in a set, so that its order
is unknown; each walk is therefore run in every way it could go, and fits a graph if one of them
gives the engine's numbers.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gradwalk.inspect.order.lab import run_order
from gradwalk.inspect.order.path_sums import BackwardGraph
from gradwalk.inspect.order.recipes import RECIPES, consumers_first
from gradwalk.inspect.trace.trace import Trace

MOST_RUNS = 256  # of one walk through one graph

Arrive = Callable[[float, float, str], float]  # what is there, what arrives, the consumer's op
Orders = Callable[[BackwardGraph], Iterable[Sequence[int]]]
WalkRun = tuple[Sequence[int], dict[int, float]]  # the visits, and the gradients they leave
WalkRuns = Callable[[Trace], Iterator[WalkRun]]


def walk_that_fits(
    graphs: Sequence[tuple[Trace, Callable[[Mapping[str, float]], bool]]],
) -> tuple[str, list[Sequence[int]]] | None:
    """Return the name of the first wrong walk that explains every graph, and its visits in each.

    With each trace comes a function: whether these gradients, by label, are the engine's.
    """
    for name, runs in WALKS.items():
        visits = [_fitting(runs, trace, fits) for trace, fits in graphs]
        if None not in visits:
            return name, [order for order in visits if order is not None]
    return None


def _fitting(runs: WalkRuns, trace: Trace, fits: Callable[..., bool]) -> Sequence[int] | None:
    for visits, gradients in itertools.islice(runs(trace), MOST_RUNS):
        if fits({node.label: gradients.get(node.index, 0.0) for node in trace if node.label}):
            return visits
    return None


def first_early_visit(trace: Trace, visits: Sequence[int]) -> str:
    """Say which node was visited before which of its consumers; "" if none was."""
    pair = run_order(trace, visits).first_inversion
    return "" if pair is None else f"It fits that {pair.early} is visited before {pair.late}."


# -- ways to go ------------------------------------------------------------------------------------


def _overwrite(*ops: str) -> Arrive:
    return lambda before, amount, op: amount if op in ops else before + amount


def _turned(trace: Trace) -> Iterator[BackwardGraph]:
    """The graph with the inputs of its nodes in every order."""
    first = BackwardGraph(trace)
    several = [node for node in first.inner if len(first.edges[node]) > 1]
    for turns in itertools.product((False, True), repeat=len(several)):
        graph = BackwardGraph(trace)
        for node in itertools.compress(several, turns):
            graph.edges[node] = graph.edges[node][::-1]
        yield graph


def _one_edge(trace: Trace) -> Iterator[BackwardGraph]:
    """Of several edges between the same two nodes one is kept: the last, or the first."""
    for graph in _turned(trace):
        for node in graph.inner:
            kept = {place: (argument, place) for argument, place in graph.edges[node]}
            graph.edges[node] = tuple(kept.values())
        yield graph


def _right_orders(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    edges = [(n, graph.node_at[place]) for n in graph.inner for _, place in graph.edges[n]]
    for visits in itertools.permutations(graph.inner):
        when = {node: i for i, node in enumerate(visits)}
        if all(when[node] < when.get(source, len(visits)) for node, source in edges):
            yield visits


def _as_met(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    """Every node, leaves too, as a queue or a stack gives them when something has arrived."""
    for take in (deque.popleft, deque.pop):
        visits, met = [], [graph.node_at[place] for place in graph.seeds]
        waiting = deque(met)
        while waiting:
            visits.append(take(waiting))
            sources = (graph.node_at[place] for _, place in graph.edges[visits[-1]])
            new = [source for source in dict.fromkeys(sources) if source not in met]
            met += new
            waiting.extend(new)
        yield visits


def _runs(
    orders: Orders,
    arrive: Arrive = lambda before, amount, op: before + amount,
    graphs: Callable[[Trace], Iterable[BackwardGraph]] = lambda trace: [BackwardGraph(trace)],
    local_only: bool = False,
    closed: bool = False,
) -> WalkRuns:
    """Every run of these graphs in these orders.

    `local_only` hands on slopes alone; `closed` ignores what arrives after a node's visit.
    """

    def run(graph: BackwardGraph, visits: Sequence[int]) -> WalkRun:
        gradients = {graph.node_at[place]: seed for place, seed in graph.seeds.items()}
        visited: set[int] = set()
        for node in visits:
            visited.add(node)
            g = 1.0 if local_only else gradients[node]
            amounts = graph.pull(node, [g]) if graph.edges[node] else ()
            for (_, place), amount in zip(graph.edges[node], amounts):
                source = graph.node_at[place]
                before = gradients.get(source)
                if before is None:
                    gradients[source] = amount
                elif not (closed and source in visited):
                    gradients[source] = arrive(before, amount, graph.trace.nodes[node].op)
        return [node for node in visits if graph.edges[node]], gradients

    return lambda trace: (run(g, visits) for g in graphs(trace) for visits in orders(g))


# The course's words for them are in course/checker/mistakes.toml.
WALKS: dict[str, WalkRuns] = {
    "local-not-total": _runs(_right_orders, local_only=True),
    "forgets-a-use edge": _runs(lambda graph: [consumers_first(graph)], graphs=_one_edge),
    "overwrites": _runs(_right_orders, _overwrite("add", "mul")),
    "overwrites mul": _runs(_right_orders, _overwrite("mul")),
    "overwrites add": _runs(_right_orders, _overwrite("add")),
    "forgets-a-use later": _runs(_right_orders, lambda before, amount, op: before),
    "before-complete depth-first": _runs(RECIPES["depth-first"].passes, graphs=_turned),
    "before-complete breadth-first": _runs(RECIPES["breadth-first"].passes, graphs=_turned),
    "before-complete at-once": _runs(_as_met, graphs=_turned, closed=True),
    "plain-recursion": _runs(RECIPES["plain recursion"].passes, graphs=_turned),
}
