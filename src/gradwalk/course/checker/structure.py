"""How an engine walks, found out from its gradients: which wrong recipe gives all of them?

Only graphs of + and · are used, whose local derivatives are known to be right by then. For every
suspect the order lab (`inspect/order/path_sums.py`) runs the graph the way that suspect would. A
learner's engine may keep inputs in a set, so that nobody knows which it visits first; each suspect
is therefore run in every way it could go, and fits a graph if one of them gives the learner's
numbers.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gradwalk.course.checker.outcomes import Mistake, Outcome, close
from gradwalk.course.checker.trials import Trial
from gradwalk.inspect.order.lab import run_order
from gradwalk.inspect.order.path_sums import Amounts, BackwardGraph, Sums, Weights, as_run
from gradwalk.inspect.order.recipes import RECIPES, consumers_first

MOST_WAYS = 256  # in which one suspect may go through one graph


class Way(NamedTuple):
    """One way to run a graph backward: what arrives, and the visits."""

    graph: BackwardGraph
    sums: Sums
    visits: list[int]


class Suspect(NamedTuple):
    """A way to go wrong, with all the ways it can go."""

    key: str
    title: str
    why: str
    ways: Callable[[Trial], Iterator[Way]]
    names_the_visit: bool = False


def is_structural(trial: Trial) -> bool:
    """Whether only the walk can be wrong here."""
    return trial.stage in ("adding", "order") and trial.ops <= {"add", "mul"}


def suspect_of(outcomes: Sequence[Outcome]) -> Mistake | None:
    """The first suspect that explains every one of these outcomes; None if none does."""
    wrong = [o for o in outcomes if o.differences]
    for suspect in SUSPECTS:
        found = [_way_that_fits(suspect, outcome) for outcome in outcomes]
        if all(found):
            example = min(wrong, key=lambda o: len(o.trial.steps))
            if suspect.names_the_visit:
                example = min(wrong, key=lambda o: (o.trial.stage != "order", len(o.trial.steps)))
            parts = [example.in_words(), suspect.why]
            way = found[outcomes.index(example)]
            if suspect.names_the_visit and way is not None:
                parts[1:1] = _first_pair(example.trial, way)
            return Mistake(suspect.key, suspect.title, " ".join(parts))
    return None


def _way_that_fits(suspect: Suspect, outcome: Outcome) -> Way | None:
    trial = outcome.trial
    index = {node.label: node.index for node in trial.trace}
    for way in itertools.islice(suspect.ways(trial), MOST_WAYS):
        place = way.graph.first_place
        arrived = {name: way.sums[place[index[name]]] or 0.0 for name in trial.names}
        if all(close(outcome.of(name), arrived[name]) for name in trial.names):
            return way
    return None


def _first_pair(trial: Trial, way: Way) -> list[str]:
    pair = run_order(trial.trace, way.visits).first_inversion
    return [] if pair is None else [f"It fits that {pair.early} is visited before {pair.late}."]


# -- ways to go ------------------------------------------------------------------------------------


class _Arrivals:
    """Amounts, where some arrivals replace what was there, or come to nothing after the first."""

    def __init__(
        self, graph: BackwardGraph, replacing: Sequence[str] = (), first_only: bool = False
    ) -> None:
        self._graph = graph
        self._replacing = replacing
        self._first_only = first_only

    def seeds(self) -> dict[int, Any]:
        return {place: (seed, False) for place, seed in self._graph.seeds.items()}

    def add(self, one: Any, other: Any) -> Any:
        if self._first_only:
            return one
        return other if other[1] else (one[0] + other[0], False)

    def hand(self, node: int, outputs: list[Any]) -> list[Any]:
        replaces = self._graph.trace.nodes[node].op in self._replacing
        return [(x, replaces) for x in self._graph.pull(node, [outputs[0][0]])]


class _LocalsOnly:
    """Each edge brings its local derivative, whatever the gradient above it is."""

    def __init__(self, graph: BackwardGraph) -> None:
        self.seeds = graph.seeds.copy
        self._graph = graph

    def add(self, one: float, other: float) -> float:
        return one + other

    def hand(self, node: int, outputs: list[Any]) -> Sequence[float]:
        return self._graph.slopes(node)


def _turned(trial: Trial) -> Iterator[BackwardGraph]:
    """The graph with the inputs of its nodes in every order."""
    first = BackwardGraph(trial.trace)
    several = [node for node in first.inner if len(first.edges[node]) > 1]
    for turns in itertools.product((False, True), repeat=len(several)):
        graph = BackwardGraph(trial.trace)
        for node, turned in zip(several, turns):
            if turned:
                graph.edges[node] = graph.edges[node][::-1]
        yield graph


def _by_recipe(name: str) -> Callable[[Trial], Iterator[Way]]:
    def ways(trial: Trial) -> Iterator[Way]:
        for graph in _turned(trial):
            (visits,) = RECIPES[name].passes(graph)
            yield Way(graph, as_run(graph, Amounts(graph), [visits], False), visits)

    return ways


def _taken_at_once(trial: Trial) -> Iterator[Way]:
    """Each value is visited when something has arrived; what comes later is never looked at."""
    for graph, take in itertools.product(_turned(trial), (deque.popleft, deque.pop)):
        arrived = dict(graph.seeds)
        taken: Sums = [None] * len(graph.node_at)
        visits = []
        waiting = deque(arrived)
        while waiting:
            place = take(waiting)
            node = graph.node_at[place]
            taken[place] = arrived[place]
            if not graph.edges[node]:
                continue
            visits.append(node)
            for (_, source), amount in zip(graph.edges[node], graph.pull(node, [taken[place]])):
                if source not in arrived:
                    waiting.append(source)
                arrived[source] = arrived.get(source, 0.0) + amount
        yield Way(graph, taken, visits)


def _in_right_orders(
    weigh: Callable[[BackwardGraph], Weights], paired: bool = True
) -> Callable[[Trial], Iterator[Way]]:
    """Every right order of the visits, with other arithmetic; `paired`: as (amount, flag)."""

    def ways(trial: Trial) -> Iterator[Way]:
        graph = BackwardGraph(trial.trace)
        for visits in _right_orders(graph):
            sums = as_run(graph, weigh(graph), [visits], False)
            if paired:
                sums = [None if s is None else s[0] for s in sums]
            yield Way(graph, sums, list(visits))

    return ways


def _right_orders(graph: BackwardGraph) -> Iterator[tuple[int, ...]]:
    for visits in itertools.permutations(graph.inner):
        position = {node: i for i, node in enumerate(visits)}
        if all(
            position[node] < position[graph.node_at[place]]
            for node in visits
            for _, place in graph.edges[node]
            if graph.node_at[place] in position
        ):
            yield visits


def _one_edge(trial: Trial) -> Iterator[Way]:
    """Of several edges between the same two nodes one is kept: the last, or the first."""
    for graph in _turned(trial):
        for node in graph.inner:
            kept = {place: (argument, place) for argument, place in graph.edges[node]}
            graph.edges[node] = tuple(kept.values())
        visits = consumers_first(graph)
        yield Way(graph, as_run(graph, Amounts(graph), [visits], False), visits)


_ADD = "Every use of a value brings a part of its gradient, and the parts add: write += and not =."
SUSPECTS = (
    Suspect(
        "local-not-total",
        "hands on the local derivative alone",
        "What goes to an input is the node's own gradient × the local derivative: the factor "
        "out.grad is missing.",
        _in_right_orders(_LocalsOnly, paired=False),
    ),
    Suspect(
        "forgets-a-use",
        "forgets a use: two edges from one input count as one",
        "a·a has two edges from a, and each brings something. A set or a dict of inputs holds a "
        "only once: keep them in a list or a tuple.",
        _one_edge,
    ),
    Suspect(
        "overwrites",
        "overwrites instead of adding",
        _ADD,
        _in_right_orders(lambda graph: _Arrivals(graph, ("add", "mul"))),
    ),
    Suspect(
        "overwrites",
        "overwrites instead of adding, in a·b",
        f"{_ADD} Your + does, your · does not.",
        _in_right_orders(lambda graph: _Arrivals(graph, ("mul",))),
    ),
    Suspect(
        "overwrites",
        "overwrites instead of adding, in a + b",
        f"{_ADD} Your · does, your + does not.",
        _in_right_orders(lambda graph: _Arrivals(graph, ("add",))),
    ),
    Suspect(
        "forgets-a-use",
        "forgets a use: only the first to arrive counts",
        f"What arrives later at the same value comes to nothing. {_ADD}",
        _in_right_orders(lambda graph: _Arrivals(graph, first_only=True)),
    ),
    Suspect(
        "before-complete",
        "visits a node before its gradient is complete",
        "A node may hand its gradient on only when all of its consumers have been visited. These "
        "numbers are those of a depth-first walk from the root: make a topological order first "
        "(every node after its inputs) and go through it from the end.",
        _by_recipe("depth-first"),
        names_the_visit=True,
    ),
    Suspect(
        "before-complete",
        "visits a node before its gradient is complete",
        "A node may hand its gradient on only when all of its consumers have been visited. These "
        "numbers are those of a breadth-first walk, nearest to the root first: make a topological "
        "order first (every node after its inputs) and go through it from the end.",
        _by_recipe("breadth-first"),
        names_the_visit=True,
    ),
    Suspect(
        "before-complete",
        "visits a node before its gradient is complete",
        "A node may be visited only when all of its consumers have been. Yours is visited as soon "
        "as something has arrived, and what arrives later comes to nothing: count its uses, or "
        "make a topological order first (every node after its inputs) and go through it from the "
        "end.",
        _taken_at_once,
        names_the_visit=True,
    ),
    Suspect(
        "plain-recursion",
        "hands the same gradient on several times (plain recursion)",
        "A node that calls backward on its inputs is called once for every path to it, and each "
        "time hands on all it has so far. Visit every node once, in topological order, and only "
        "when its gradient is complete.",
        _by_recipe("plain recursion"),
    ),
)
