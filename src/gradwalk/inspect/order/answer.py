"""The answer of the order lab: what each node got, what is correct, and the paths in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.inspect.order.path_sums import (
    Amounts,
    BackwardGraph,
    Counts,
    Sums,
    as_run,
    lost_and_extra,
    over_all_paths,
)
from gradwalk.inspect.order.single_paths import (
    COLUMNS,
    Candidate,
    GradientPath,
    Inversion,
    Largest,
    Pair,
    VisitTimes,
    first_inversions,
    listed,
    path_of,
    size_of,
)
from gradwalk.inspect.report import Report, columns, large, plain, short
from gradwalk.inspect.trace.trace import Edge, Trace

ROWS = 40  # of a printed table
DETAILED = 500  # places up to which to_dict() lists the paths of each
KINDS = ("lost", "extra")
SPARE = 8  # candidates beyond those listed: some may not be lost


@dataclass
class OrderRun(Report):
    """A backward pass in some order; `run[x]` describes the gradient of x."""

    passes: list[list[int]]  # the nodes visited, for each call of backward
    overwrite: bool = False  # whether an arrival replaces the gradient
    recipe: str = ""
    top: int = 5  # paths listed
    _graph: BackwardGraph = field(kw_only=True, repr=False)

    def __getitem__(self, thing: Any) -> NodeGradient:
        return self._at(place_of(self._graph, thing))

    def __iter__(self) -> Iterator[NodeGradient]:
        return iter(self.nodes)

    @cached_property
    def nodes(self) -> list[NodeGradient]:
        """Every node behind the root, in computed order; one entry per output."""
        graph = self._graph
        return [self._at(p) for node in reversed(graph.reached) for p in graph.places(node)]

    @cached_property
    def first_inversion(self) -> Inversion | None:
        """The first two nodes visited out of order; None if the order is valid."""
        first = min(self._inversions.values(), default=None)
        return None if first is None else self._inversion(first)

    @property
    def wrong(self) -> list[NodeGradient]:
        """The nodes with wrong gradients."""
        return [node for node in self.nodes if node.wrong]

    # -- the sums over paths, each computed once ---------------------------------------------------

    @cached_property
    def _got(self) -> Sums:
        return as_run(self._graph, Amounts(self._graph), self.passes, self.overwrite)

    @cached_property
    def _correct(self) -> Sums:
        sums = over_all_paths(self._graph, Amounts(self._graph))
        calls = len(self.passes)
        return sums if calls == 1 else [None if s is None else calls * s for s in sums]

    @cached_property
    def _differences(self) -> tuple[Sums, Sums]:
        """Lost and extra totals; None where there is no path."""
        if not self.overwrite:
            return lost_and_extra(self._graph, Amounts(self._graph), self.passes)
        # With overwriting, the final gradient is everything that was not lost.
        few = Counts(self._graph, most=2)
        paths, kept = over_all_paths(self._graph, few), as_run(self._graph, few, self.passes, True)
        lost: Sums = [None] * len(paths)
        for place, correct in enumerate(self._correct):
            complete = len(self.passes) == 1 and paths[place] == 1 == kept[place]
            if correct is not None and not complete:
                got = self._got[place]
                lost[place] = correct if got is None else correct - got
        return lost, [None] * len(paths)

    @cached_property
    def _times(self) -> VisitTimes:
        return VisitTimes(self._graph, self.passes)

    @cached_property
    def _inversions(self) -> dict[int, Pair]:
        return first_inversions(self._graph, self._times)

    def _inversion(self, pair: Pair) -> Inversion:
        visit, early, late, after = pair
        name = self._graph.trace.name
        return Inversion(name(early), name(late), visit, after)

    def _at(self, place: int) -> NodeGradient:
        graph = self._graph
        node = graph.node_at[place]
        if node not in graph.in_reach:
            raise KeyError(f"{graph.place_name(place)}: no gradient can reach it from the root")
        lost, extra = (sums[place] for sums in self._differences)
        inversion = self._inversions.get(node) if lost is not None or extra is not None else None
        zero = graph.zero(place)
        got, correct = self._got[place], self._correct[place]
        return NodeGradient(
            index=node,
            name=graph.place_name(place),
            got=zero if got is None else got,
            correct=zero if correct is None else correct,
            lost=PathSum(zero if lost is None else lost, "lost", lost is None, self, place),
            extra=PathSum(zero if extra is None else extra, "extra", extra is None, self, place),
            first_inversion=None if inversion is None else self._inversion(inversion),
        )

    # -- paths, only of the places asked about -----------------------------------------------------

    @cached_property
    def _known(self) -> dict[int, _Paths]:
        return {}

    def _paths(self, place: int) -> _Paths:
        if place not in self._known:
            self._look_at({place})
        return self._known[place]

    def _look_at(self, places: set[int]) -> None:
        """Count the paths to these places and find the largest, in one pass."""
        graph, counts = self._graph, Counts(self._graph)
        weights = Largest(graph, self.top + (SPARE if self.overwrite else 0))
        among = graph.leading_to(places)
        total = over_all_paths(graph, counts, among, keep=places)
        if self.overwrite:
            none: Sums = [None] * len(graph.node_at)
            kept, calls = as_run(graph, counts, self.passes, True), len(self.passes)
            lost = {p: calls * (total[p] or 0) - (kept[p] or 0) for p in places}
            counted: tuple[Any, Sums] = lost, none
            largest = over_all_paths(graph, weights, among, keep=places), none
        else:
            counted = lost_and_extra(graph, counts, self.passes, places)
            largest = lost_and_extra(graph, weights, self.passes, places)
        for p in places:
            self._known[p] = _Paths(
                total[p] or 0,
                {kind: sums[p] or 0 for kind, sums in zip(KINDS, counted)},
                {kind: self._listed(sums[p], kind) for kind, sums in zip(KINDS, largest)},
                weights.exact,
            )

    def _listed(self, candidates: list[Candidate] | None, kind: str) -> list[GradientPath]:
        """Candidates written out, with how often each is lost or extra, and why."""
        graph, times = self._graph, self._times
        paths = []
        for candidate in candidates or ():
            path = path_of(graph, candidate)
            if self.overwrite:
                path.times = len(self.passes) - times.survives(path)
            elif kind == "lost":
                times.explain(path)
            if path.times:
                path.amount = path.times * path.amount
                paths.append(path)
        paths.sort(key=lambda path: -path.size)
        return paths[: self.top]

    # -- as text -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the single paths only of small graphs."""
        name = self._graph.trace.name
        detailed = len(self.nodes) <= DETAILED
        if detailed:
            self._look_at({node.lost._place for node in self.nodes})
        return {
            "order": [[name(node) for node in visits] for visits in self.passes],
            "passes": plain(self.passes),
            "overwrite": self.overwrite,
            "recipe": self.recipe,
            "first_inversion": plain(self.first_inversion),
            "nodes": [node.to_dict() if detailed else node.totals() for node in self.nodes],
        }

    def __str__(self) -> str:
        shown = self._shown()
        wrong = [node for node in shown if node.wrong]
        result = "every gradient is right"
        if wrong:
            verb = "is" if len(wrong) == 1 else "are"
            result = f"{len(wrong)} of {len(shown)} gradients {verb} wrong"
        lines = [f"{self._title(76 - len(result))}: {result}"]
        rows = shown
        if len(shown) > ROWS:
            rows = sorted(wrong or shown, key=lambda node: -size_of(node.error))[:ROWS]
        table, has_pairs = _table(rows, arrays=not self._graph.trace.scalar)
        lines += table
        if len(shown) > len(rows):
            lines.append(f"... and {len(shown) - len(rows)} more")
        if self.first_inversion is not None and not has_pairs:
            lines.append(f"first pair out of order: {self.first_inversion}")
        ends = [node for node in wrong if not self._graph.edges[node.index]] or wrong
        worst = sorted(ends, key=lambda node: -size_of(node.error))[:3]
        if worst:
            self._look_at({node.lost._place for node in worst})
        for node in worst:
            lines += node.path_lines()
        return "\n".join(lines)

    def _shown(self) -> list[NodeGradient]:
        """Omit unnamed leaves, which are constants, if others have names."""
        trace, edges = self._graph.trace, self._graph.edges

        def named(node: NodeGradient) -> bool:
            return bool(trace.nodes[node.index].label or trace.names.get(node.index))

        if not any(named(node) for node in self.nodes if not edges[node.index]):
            return self.nodes
        return [node for node in self.nodes if edges[node.index] or named(node)]

    def _title(self, room: int) -> str:
        name, count = self._graph.trace.name, len(self.passes)
        begin = self.recipe or "visited"
        how = " with = for +=" if self.overwrite else ""
        room = (room - len(begin) - len(how) - 7 * (count - 1)) // max(count, 1)
        listed = (names_in_order([name(n) for n in visits], room) for visits in self.passes)
        visited = "; then ".join(names or "nothing" for names in listed)
        return f"{begin} {visited or 'nothing'}{how}"


@dataclass(slots=True)
class _Paths:
    """The paths to one place."""

    total: int
    counts: dict[str, int]  # of each kind
    largest: dict[str, list[GradientPath]]
    exact: bool


@dataclass
class NodeGradient(Report):
    """One gradient: got = correct − Σ lost + Σ extra."""

    index: int
    name: str
    got: Any
    correct: Any  # times the number of calls of backward
    lost: PathSum
    extra: PathSum
    first_inversion: Inversion | None  # the first visit that spoiled it

    @property
    def error(self) -> Any:
        """The error."""
        return self.got - self.correct

    @property
    def wrong(self) -> bool:
        """Whether the error exceeds rounding."""
        if self.lost.none and self.extra.none:
            return False
        tolerance = 1e-9
        if isinstance(self.got, np.ndarray) and self.got.dtype.itemsize < 8:
            tolerance = 1e-5
        size = max(size_of(self.got), size_of(self.correct))
        return not size_of(self.error) <= tolerance * size

    @property
    def paths(self) -> int:
        """How many paths lead here from the root."""
        return self.lost._behind.total

    def totals(self) -> dict[str, Any]:
        """Plain data without the single paths."""
        names = ("index", "name", "got", "correct", "first_inversion")
        data = {name: plain(getattr(self, name)) for name in names}
        return data | {"lost": plain(self.lost.total), "extra": plain(self.extra.total)}

    def number(self, amount: Any) -> str:
        """A gradient in a table: itself, or the norm of an array."""
        if isinstance(amount, float):
            return short(amount + 0.0)  # −0 is 0
        return f"|{short(size_of(amount))}|"

    def numbers(self) -> tuple[str, str, str]:
        """Got, lost, extra."""
        lost, extra = (
            "—" if part.none else self.number(part.total) for part in (self.lost, self.extra)
        )
        return self.number(self.got), lost, extra

    def path_lines(self) -> list[str]:
        """The lost and the extra paths."""
        lines: list[str] = []
        if not self.lost.none:
            total = self.paths * len(self.lost._run.passes)
            count = f"{large(self.lost.count)} of {large(total)}"
            lines += [f"lost on the way to {self.name}, {count} paths:", *listed(self.lost)]
        if not self.extra.none:
            count = f"{large(self.extra.count)} path{'s' * (self.extra.count != 1)} too many"
            lines += [f"extra on the way to {self.name}, {count}:", *listed(self.extra)]
        return lines

    def __str__(self) -> str:
        got, lost, extra = self.numbers()
        right = self.number(self.correct)
        sum_ = f"{self.name}: got {got} = correct {right} − lost {lost} + extra {extra}"
        inversion = self.first_inversion
        pair = [f"first pair out of order: {inversion}"] if inversion else []
        return "\n".join([sum_.replace("—", "0"), *pair, *self.path_lines()])


@dataclass
class PathSum(Report):
    """The sum over the lost or the extra paths. Iterating yields the largest paths."""

    DATA = ("total", "count", "paths", "exact")
    total: Any
    kind: str  # one of KINDS
    none: bool  # whether there are no such paths
    _run: OrderRun = field(repr=False)
    _place: int = field(repr=False)

    @property
    def count(self) -> int:
        """The exact number of paths, counted without listing them."""
        return 0 if self.none else self._behind.counts[self.kind]

    @property
    def paths(self) -> list[GradientPath]:
        """The largest paths."""
        return [] if self.none else self._behind.largest[self.kind]

    @property
    def exact(self) -> bool:
        """Whether these are certainly the largest; always so for numbers."""
        return self.none or self._behind.exact

    @property
    def _behind(self) -> _Paths:
        return self._run._paths(self._place)

    def __iter__(self) -> Iterator[GradientPath]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __bool__(self) -> bool:
        return not self.none

    def __str__(self) -> str:
        count = f"{large(self.count)} {self.kind} path{'s' * (self.count != 1)}"
        return "\n".join([count, *listed(self.paths)])


def place_of(graph: BackwardGraph, thing: Any) -> int:
    """The place of a Value, a Tensor, an Edge, a label or an index."""
    output = thing.output if isinstance(thing, Edge) else graph.trace.output(thing)
    return graph.first_place[node_of(graph.trace, thing)] + output


def node_of(trace: Trace, thing: Any) -> int:
    """The node of an entry of an order."""
    if isinstance(thing, Edge):
        thing = thing.node
    return trace.find(int(thing) if isinstance(thing, np.integer) else thing)


def names_in_order(names: Sequence[str], most: int = 36) -> str:
    """Names joined by commas, cut after `most` characters."""
    text = ", ".join(names)
    if len(text) <= most:
        return text
    count = f"... ({len(names)} visits)"
    begin = text[: max(most - len(count), 0)].rpartition(",")[0]
    return f"{begin}, {count}" if begin else count


def _table(rows: list[NodeGradient], arrays: bool) -> tuple[list[str], bool]:
    """The lines, and whether there was room for the pairs out of order."""
    bars = "|" if arrays else ""  # the numbers are norms
    heads = [f"{bars}{head}{bars}" for head in ("got", "correct", "lost", "extra")]
    cells = [["node", *heads, "first pair out of order"]]
    for node in rows:
        got, lost, extra = (text.strip("|") for text in node.numbers())
        right, pair = node.number(node.correct).strip("|"), str(node.first_inversion or "")
        cells.append([_cut(node.name), got, right, lost, extra, pair])
    lines = columns(cells)
    has_pairs = max(map(len, lines)) <= COLUMNS
    return (lines if has_pairs else columns([[*row[:-1], ""] for row in cells])), has_pairs


def _cut(name: str, most: int = 22) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
