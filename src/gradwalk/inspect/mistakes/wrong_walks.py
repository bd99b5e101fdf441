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
from typing import Any

from gradwalk.inspect.order.lab import run_order
from gradwalk.inspect.order.path_sums import BackwardGraph
from gradwalk.inspect.order.recipes import RECIPES, consumers_first
from gradwalk.inspect.trace.trace import Trace

MOST_RUNS = 256  # of one walk through one graph
MOST_VISITS = 10_000  # of a walk that visits a node once for every path

# What is there, what arrives, the consumer's op, and which of its inputs this is.
Arrive = Callable[[float, float, str, int], float]
Orders = Callable[[BackwardGraph], Iterable[Sequence[int]]]
WalkRun = tuple[Sequence[int], dict[int, float]]  # the visits, and the gradients they leave
WalkNames = tuple[str, ...]
WalkRuns = Callable[[Trace], Iterator[WalkRun]]


def walk_that_fits(
    graphs: Sequence[tuple[Trace, Callable[[Mapping[str, float]], bool]]],
) -> tuple[WalkNames, list[Sequence[int]]] | None:
    """Return the first wrong walk that explains every graph, and its visits in each.

    With each trace comes a function: whether these gradients, by label, are the engine's. A walk
    has one name, or two if its order is wrong and also what it does with contributions.
    """
    for names, runs in _EVERY_WALK.items():
        visits = []
        for trace, fits in graphs:
            found = _fitting(runs, trace, fits)
            if found is None:
                break
            visits.append(found)
        else:
            return names, visits
    return None


def _fitting(runs: WalkRuns, trace: Trace, fits: Callable[..., bool]) -> Sequence[int] | None:
    for visits, gradients in itertools.islice(runs(trace), MOST_RUNS):
        if fits({node.label: gradients.get(node.index, 0.0) for node in trace if node.label}):
            return visits
    return None


def gives(names: WalkNames, trace: Trace, fits: Callable[[Mapping[str, float]], bool]) -> bool:
    """Whether this wrong walk gives the engine's gradients in a graph."""
    return _fitting(_EVERY_WALK[names], trace, fits) is not None


def first_early_visit(trace: Trace, visits: Sequence[int]) -> str:
    """Say which node was visited before which of its consumers; "" if none was."""
    pair = run_order(trace, visits).first_inversion
    return "" if pair is None else f"It fits that {pair.early} is visited before {pair.late}."


# -- ways to go ------------------------------------------------------------------------------------


_BASIC = ("add", "mul")


def _overwrite(*ops: str, arguments: Sequence[int] = (0, 1)) -> Arrive:
    def arrive(before: float, amount: float, op: str, argument: int) -> float:
        return amount if op in ops and argument in arguments else before + amount

    return arrive


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


def _inputs_first(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    """A topological order, not reversed: only the root has a gradient when it is visited."""
    yield consumers_first(graph)[::-1]


def _every_time(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    """Each node pushes whenever it is met, once for every path: all edges, or each input once.

    A recursive function goes this way, and so does a reversed order without the nodes seen.
    """
    for distinct in (False, True):
        visits: list[int] = []
        stack = [graph.node_at[place] for place in graph.seeds]
        while stack and len(visits) < MOST_VISITS:
            node = stack.pop()
            sources = [graph.node_at[place] for _, place in graph.edges[node]]
            if sources:
                visits.append(node)
                stack += [*(dict.fromkeys(sources) if distinct else sources)][::-1]
        yield visits


def _unknown_inputs(*ops: str, from_argument: int = 0) -> Orders:
    """Nodes of these ops pass on what they have, and the walk does not go beyond them.

    `from_argument`: it knows the inputs before this one.
    """

    def orders(graph: BackwardGraph) -> Iterator[Sequence[int]]:
        def known(node: int) -> list[int]:
            sources = [graph.node_at[place] for _, place in graph.edges[node]]
            if graph.trace.nodes[node].op not in ops:
                return sources
            alone = from_argument and _beside_a_number(graph, node)  # then a is the first input
            return sources if alone else sources[:from_argument]

        met = [graph.node_at[place] for place in graph.seeds]
        for node in met:  # it grows
            met += [source for source in known(node) if source not in met]
        inner = [node for node in met if graph.edges[node]]
        for visits in itertools.permutations(inner):
            when = {node: i for i, node in enumerate(visits)}
            if all(when[n] < when.get(i, len(visits)) for n in visits for i in known(n)):
                yield visits

    return orders


def _twice(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    """Each node passes its gradient on twice."""
    yield [node for node in consumers_first(graph) for _ in range(2)]


def _root_twice(graph: BackwardGraph) -> Iterator[Sequence[int]]:
    visits = consumers_first(graph)
    yield [visits[0], *visits]


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


def _beside_a_number(graph: BackwardGraph, node: int) -> bool:
    """Whether an input is a plain number: 3·a is a·3 to an engine, by __rmul__."""
    sources = (graph.trace.nodes[source] for source in graph.trace.nodes[node].inputs)
    return any(not source.inputs and not source.label for source in sources)


def _runs(
    orders: Orders,
    arrive: Arrive = lambda before, amount, op, argument: before + amount,
    graphs: Callable[[Trace], Iterable[BackwardGraph]] = lambda trace: [BackwardGraph(trace)],
    local_only: Sequence[str] = (),
    closed: bool = False,
) -> WalkRuns:
    """Every run of these graphs in these orders.

    Nodes of the ops in `local_only` pass on slopes alone; `closed` ignores what arrives after a
    node's visit.
    """

    def run(graph: BackwardGraph, visits: Sequence[int]) -> WalkRun:
        gradients = {graph.node_at[place]: seed for place, seed in graph.seeds.items()}
        visited: set[int] = set()
        for node in visits:
            visited.add(node)
            op = graph.trace.nodes[node].op
            g = 1.0 if op in local_only else gradients.get(node, 0.0)
            amounts = graph.pull(node, [g]) if graph.edges[node] else ()
            for (argument, place), amount in zip(graph.edges[node], amounts):
                source = graph.node_at[place]
                argument = 0 if _beside_a_number(graph, node) else argument
                before = gradients.get(source)
                if before is None:
                    gradients[source] = amount
                elif not (closed and source in visited):
                    gradients[source] = arrive(before, amount, op, argument)
        return [node for node in visits if graph.edges[node]], gradients

    return lambda trace: (run(g, visits) for g in graphs(trace) for visits in orders(g))


# What engines do wrong with contributions, in a right order.
_CONTRIBUTIONS: dict[str, dict[str, Any]] = {
    "local-not-total": {"local_only": _BASIC},
    "local-not-total mul": {"local_only": ("mul",)},
    "local-not-total add": {"local_only": ("add",)},
    "overwrites": {"arrive": _overwrite(*_BASIC)},
    "overwrites mul": {"arrive": _overwrite("mul")},
    "overwrites add": {"arrive": _overwrite("add")},
    "overwrites first": {"arrive": _overwrite(*_BASIC, arguments=[0])},
    "overwrites second": {"arrive": _overwrite(*_BASIC, arguments=[1])},
    "overwrites mul first": {"arrive": _overwrite("mul", arguments=[0])},
    "overwrites mul second": {"arrive": _overwrite("mul", arguments=[1])},
    "overwrites add first": {"arrive": _overwrite("add", arguments=[0])},
    "overwrites add second": {"arrive": _overwrite("add", arguments=[1])},
    "forgets-a-use later": {"arrive": lambda before, amount, op, argument: before},
}
# Orders that are wrong whatever happens to contributions.
_ORDERS: dict[str, Orders] = {
    "before-complete inputs-first": _inputs_first,
    "before-complete depth-first": RECIPES["depth-first"].passes,
    "before-complete breadth-first": RECIPES["breadth-first"].passes,
    "plain-recursion": _every_time,
}
# The course's words for them are in course/checker/mistakes.toml.
WALKS: dict[str, WalkRuns] = {
    "forgets-a-use edge": _runs(lambda graph: [consumers_first(graph)], graphs=_one_edge),
    **{name: _runs(_right_orders, **how) for name, how in _CONTRIBUTIONS.items()},
    **{name: _runs(orders, graphs=_turned) for name, orders in _ORDERS.items()},
    "before-complete at-once": _runs(_as_met, graphs=_turned, closed=True),
    "unknown-inputs": _runs(_unknown_inputs(*_BASIC)),
    "unknown-inputs mul": _runs(_unknown_inputs("mul")),
    "unknown-inputs add": _runs(_unknown_inputs("add")),
    "unknown-inputs second": _runs(_unknown_inputs(*_BASIC, from_argument=1)),
    "unknown-inputs mul second": _runs(_unknown_inputs("mul", from_argument=1)),
    "unknown-inputs add second": _runs(_unknown_inputs("add", from_argument=1)),
    "visits-twice root": _runs(_root_twice),
    "visits-twice": _runs(_twice),
}
_EVERY_WALK: dict[WalkNames, WalkRuns] = {(name,): runs for name, runs in WALKS.items()} | {
    (order, name): _runs(orders, graphs=_turned, **how)
    for order, orders in _ORDERS.items()
    for name, how in _CONTRIBUTIONS.items()
}
