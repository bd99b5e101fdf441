"""Single paths: the largest, how often an order runs each, and where it breaks off."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradwalk.inspect.order.path_sums import BackwardGraph, Passes
from gradwalk.inspect.report import Report, short

COLUMNS = 79
Pair = tuple[int, int, int, int]  # visit, node visited too early, late consumer, its visit
BEAM = 64  # of arrays, how many candidates are followed: norms do not multiply as numbers do


class Candidate(NamedTuple):
    """A partial path in the search for the largest: its last edge (node:argument) and the rest."""

    size: float
    amount: Any
    identity: int  # the same for the same path
    before: Any  # the path up to that node; None at the root
    node: int  # of the root its place
    argument: int
    times: int = 1  # how often it arrived


class Largest:
    """Weights whose sums are lists of paths, largest first, cut after `count`.

    For numbers this is exact: extending two paths by one edge keeps their order. For arrays the
    norm says little about the next push, so more candidates are followed, and `exact` says whether
    none was dropped.
    """

    def __init__(self, graph: BackwardGraph, count: int) -> None:
        self.graph = graph
        self.count = count if graph.trace.scalar else max(count, BEAM)
        self.exact = True

    def seeds(self) -> dict[int, list[Candidate]]:
        return {
            place: [Candidate(size_of(seed), seed, place, None, place, -1)]
            for place, seed in self.graph.seeds.items()
        }

    def add(self, one: list[Candidate], other: list[Candidate]) -> list[Candidate]:
        distinct: dict[int, Candidate] = {}
        for path in [*one, *other]:
            known = distinct.get(path.identity)
            if known is not None:
                path = path._replace(times=path.times + known.times)
            distinct[path.identity] = path
        return self._cut(list(distinct.values()))

    def _cut(self, candidates: list[Candidate]) -> list[Candidate]:
        candidates.sort(key=_size, reverse=True)
        if len(candidates) > self.count:
            self.exact = self.exact and self.graph.trace.scalar
            del candidates[self.count :]
        return candidates

    def push(self, node: int, outputs: list[Any]) -> list[list[Candidate]]:
        edges = self.graph.edges[node]
        pushed: list[list[Candidate]] = [[] for _ in edges]
        for number, candidates in enumerate(outputs):
            for path in candidates or ():
                gs = [None] * len(outputs)
                gs[number] = path.amount
                amounts = self.graph.pull(node, gs)
                for arriving, (argument, _), amount in zip(pushed, edges, amounts):
                    same = hash((path.identity, node, argument))
                    edge = path, node, argument
                    arriving.append(Candidate(size_of(amount), amount, same, *edge, path.times))
        return [self._cut(arriving) for arriving in pushed]


_size = operator.itemgetter(0)


def size_of(amount: Any) -> float:
    """The size of a number or the norm of an array; NaN counts as infinite."""
    if amount is None:
        return 0.0
    if isinstance(amount, float):
        size = abs(amount)
    else:
        with np.errstate(all="ignore"):
            size = float(np.linalg.norm(np.asarray(amount, np.float64).reshape(-1)))
    return math.inf if math.isnan(size) else size


@dataclass
class GradientPath(Report):
    """One path from the root to a node, and what an order does with it."""

    nodes: list[int]  # from the root down; the last is the one it leads to
    arguments: list[int]  # the edge out of each but the last: node:argument
    names: list[str]
    amount: Any  # what it brings, times how often
    times: int = 1  # how often it is lost, or runs too often
    reason: str = ""  # of a lost one
    pair: tuple[str, str] | None = None  # visited in this order, and should be the other way round
    _places: list[int] = field(default_factory=list, repr=False)

    @property
    def size(self) -> float:
        """The size of the amount."""
        return size_of(self.amount)

    def route(self, most: int = 60) -> str:
        """The names joined by arrows; a path longer than `most` characters keeps its ends."""
        names, count = self.names, len(self.names)
        for shown in range(min(count, most // 4), 2, -1):
            if shown < count:
                tail = count - shown // 2
                more = f"({count - shown} more)"
                names = [*self.names[: shown - shown // 2], more, *self.names[tail:]]
            text = " → ".join(names)
            if len(text) <= most:
                return text
        return " → ".join([*self.names[:1], *self.names[1:][-1:]]) if count < 3 else text

    def __str__(self) -> str:
        return "\n".join(listed([self], indent=""))


def path_of(graph: BackwardGraph, candidate: Candidate) -> GradientPath:
    """Expand a candidate."""
    steps: list[tuple[int, int]] = []
    path = candidate
    while path.before is not None:
        steps.append((path.node, path.argument))
        path = path.before
    steps.reverse()
    places = [path.node]
    for node, argument in steps:
        places.append(next(p for a, p in graph.edges[node] if a == argument))
    nodes = [graph.node_at[p] for p in places]
    return GradientPath(
        nodes=nodes,
        arguments=[argument for _, argument in steps],
        names=[graph.trace.name(n) for n in nodes],
        amount=candidate.amount,
        times=candidate.times,
        _places=places,
    )


class VisitTimes:
    """When each node is visited, and what that means for a path."""

    def __init__(self, graph: BackwardGraph, passes: Passes) -> None:
        self.graph = graph
        self.passes = passes
        self.times: list[dict[int, list[int]]] = []  # of each pass
        clock = 0
        for visits in passes:
            times: dict[int, list[int]] = {}
            for node in visits:
                clock += 1  # the first visit is number 1
                times.setdefault(node, []).append(clock)
            self.times.append(times)

    def explain(self, path: GradientPath) -> None:
        """Say at which pair of nodes a lost path breaks off, in the first pass that loses it."""
        for times in self.times:
            now, above = 0, ""
            for node in path.nodes[:-1]:
                name, own = self.graph.trace.name(node), times.get(node, [])
                later = bisect.bisect_right(own, now)
                if later == len(own):
                    path.reason = f"{name} was not visited"
                    if own:
                        path.pair = name, above
                        path.reason = f"{name} was visited before {above}"
                    return
                now, above = own[later], name
        path.reason = "set again by the next call"

    def survives(self, path: GradientPath) -> bool:
        """Whether a path survives when arrivals overwrite; if not, say why."""
        last = len(path.nodes) - 1
        at = {place: i for i, place in enumerate(path._places)}
        step = {node: i for i, node in enumerate(path.nodes[:-1])}
        holds = [False] * len(path.nodes)
        was_there = [False] * len(path.nodes)
        visited_since = [False] * len(path.nodes)
        by = [-1] * len(path.nodes)  # the overwriting path
        for visits in self.passes:
            for place in self.graph.seeds:
                if place in at:
                    holds[at[place]] = at[place] == 0
                was_there[0] = True
            for node in visits:
                own = step.get(node)
                if own is not None and was_there[own]:
                    visited_since[own] = True
                for argument, place in self.graph.edges[node]:
                    i = at.get(place)
                    if i is None:
                        continue
                    mine = own == i - 1 and argument == path.arguments[i - 1]
                    arrives = mine and holds[i - 1]
                    if holds[i] and not arrives:
                        by[i] = node
                    holds[i] = arrives
                    was_there[i] = was_there[i] or arrives
        if holds[last]:
            return True
        stop = max((i for i in range(len(path.nodes)) if was_there[i]), default=0)
        if by[stop] >= 0 and (stop == last or visited_since[stop]):
            name = self.graph.trace.name
            path.reason = f"overwritten in {name(path.nodes[stop])} by {name(by[stop])}"
        else:
            self.explain(path)
        return False


@dataclass
class Inversion(Report):
    """Two nodes visited the wrong way round: an input before a node it goes into."""

    early: str  # visited too early, before its gradient was complete
    late: str  # what still had something for it
    early_visit: int  # the number of the visit in the order, from 1
    late_visit: int

    def __str__(self) -> str:
        return f"{self.early} before {self.late}"


def first_inversions(graph: BackwardGraph, times: VisitTimes) -> dict[int, Pair]:
    """For each node the first visit that spoils its gradient.

    A visit is too early if a consumer is visited after it. It spoils everything behind the node
    that was visited, and not that node itself.
    """
    spoiled: dict[int, Pair] = {}
    for visits in times.times:
        early: dict[int, Pair] = {}
        for node in graph.reached:
            options = [spoiled[node]] if node in spoiled else []
            for consumer in graph.consumers.get(node, ()):
                options += [of[consumer] for of in (early, spoiled) if consumer in of]
            if options:
                spoiled[node] = min(options)
            own = _too_early(graph, visits, node)
            if own is not None:
                early[node] = own
    return spoiled


def _too_early(graph: BackwardGraph, visits: dict[int, list[int]], node: int) -> Pair | None:
    if node not in visits:
        return None
    first = visits[node][0]
    after = []
    for consumer in graph.consumers.get(node, ()):
        own = visits.get(consumer, ())
        later = bisect.bisect_right(own, first)
        if later < len(own):
            after.append((own[later], consumer))
    return (first, node, *min(after)[::-1]) if after else None


def listed(paths: Iterable[GradientPath], indent: str = "  ") -> list[str]:
    """Paths as lines of text, the amounts in a column."""
    rows = [
        (short(p.amount) if isinstance(p.amount, float) else f"|{short(p.size)}|", p) for p in paths
    ]
    wide = max((len(number) for number, _ in rows), default=0)
    lines = []
    for number, path in rows:
        often = "" if path.times == 1 else f" ({path.times} times)"
        begin = f"{indent}{number:>{wide}}  "
        line = f"{begin}{path.route(COLUMNS - len(begin) - len(often))}{often}"
        if path.reason and len(line) + 2 + len(path.reason) <= COLUMNS:
            lines.append(f"{line}: {path.reason}")
        else:
            lines += [line, *([f"{' ' * len(begin)}{path.reason}"] if path.reason else [])]
    return lines
