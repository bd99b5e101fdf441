"""Recipes for a backward pass: the right one, and wrong ones that people write.

A recipe chooses the visits. A visit pushes `gradient so far × local derivative` along every edge of
the node; leaves push nothing and are not visited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from graphlib import TopologicalSorter

from gradwalk.inspect.order.path_sums import BackwardGraph, Counts, over_all_paths
from gradwalk.inspect.report import large

MOST_VISITS = 1_000_000


@dataclass(frozen=True)
class Recipe:
    """A way to run backward."""

    name: str
    text: str  # what it does, in a line
    visits: Callable[[BackwardGraph], list[int]]
    overwrite: bool = False
    runs: int = 1

    def passes(self, graph: BackwardGraph) -> list[list[int]]:
        """The nodes to visit, for each call of backward."""
        return [self.visits(graph)] * self.runs


def _roots(graph: BackwardGraph) -> list[int]:
    return list(dict.fromkeys(graph.node_at[place] for place in graph.seeds))


def _inputs(graph: BackwardGraph, node: int) -> list[int]:
    """The inputs that are not leaves, one entry per edge."""
    sources = (graph.node_at[place] for _, place in graph.edges[node])
    return [source for source in sources if graph.edges[source]]


def consumers_first(graph: BackwardGraph) -> list[int]:
    """A right order: each node as soon as all of its consumers were visited."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for node in dict.fromkeys([*_roots(graph), *graph.inner]):
        if graph.edges[node]:
            sorter.add(node)
        for source in _inputs(graph, node):
            sorter.add(source, node)
    return list(sorter.static_order())


def _recursion(graph: BackwardGraph) -> list[int]:
    """`def backward(v): push(v); for i in inputs: backward(i)`: once for every path."""
    counts = over_all_paths(graph, Counts(graph))
    expected = sum(counts[p] or 0 for node in graph.inner for p in graph.places(node))
    if expected > MOST_VISITS:
        raise ValueError(
            f"plain recursion visits a node once for every path to it: here {large(expected)} "
            f"visits, and the lab runs at most {MOST_VISITS}. Fix: try it on a smaller graph."
        )
    return _depth_first(graph, repeat=True)


def _depth_first(graph: BackwardGraph, repeat: bool = False) -> list[int]:
    """Each node as soon as it is met: the first time only, or every time."""
    visits: list[int] = []
    seen: set[int] = set()
    stack = _roots(graph)[::-1]
    while stack:
        node = stack.pop()
        if repeat or node not in seen:
            seen.add(node)
            visits.append(node)
            stack += _inputs(graph, node)[::-1]
    return visits


def _breadth_first(graph: BackwardGraph) -> list[int]:
    visits = _roots(graph)
    seen = set(visits)
    waiting = deque(visits)
    while waiting:
        for source in _inputs(graph, waiting.popleft()):
            if source not in seen:
                seen.add(source)
                visits.append(source)
                waiting.append(source)
    return visits


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("right", "each node after all of its consumers", consumers_first),
        Recipe("plain recursion", "each node pushes, then calls its inputs", _recursion),
        Recipe("depth-first", "depth-first, each node when it is first met", _depth_first),
        Recipe("breadth-first", "nearest to the root first", _breadth_first),
        Recipe("overwrite", "the right order with = instead of +=", consumers_first, True),
        Recipe("twice", "run twice, inner gradients not cleared", consumers_first, runs=2),
    )
}


def recipe_called(name: str) -> Recipe | None:
    """The recipe of that name in any spelling; None if there is none."""
    plain = name.strip().lower().replace("_", " ").replace("-", " ")
    return next((r for r in RECIPES.values() if r.name.replace("-", " ") == plain), None)
