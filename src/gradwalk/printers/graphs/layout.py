"""Where to draw the nodes of a graph: in columns, from the inputs on the left to the root.

The usual four steps, each in about linear time, so that a transformer of 2,000 operations takes a
fraction of a second, and the same graph always looks the same:

1. a column for every node, right of its inputs and close to its consumers;
2. a bend in every column that a long edge crosses, so that edges do not run behind nodes;
3. an order within each column that keeps crossings few (each goes to the middle of its neighbours);
4. heights: as near to the neighbours as the order and the distances allow, by least squares.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

Arc = tuple[int, int]  # from a node to a node that comes after it
SWEEPS = 8
MOST_BENDS = 20_000  # beyond this long edges are drawn straight
BEND = 0.35  # the room a bend takes, in rows
ASIDE = 0.05  # the weight of a leaf with one use: it gives way, so that the main line is straight


@dataclass(slots=True)
class Layout:
    """Columns and rows; a row is one node high, and rows need not be whole numbers."""

    columns: list[int]
    rows: list[float]
    routes: list[list[tuple[int, float]]]  # for each arc the (column, row) of its bends
    width: int = 0  # columns
    height: float = 0.0  # rows


@dataclass(slots=True)
class _Places:
    """Nodes and bends alike: their columns and connections."""

    column: list[int]
    before: list[list[int]] = field(default_factory=list)
    after: list[list[int]] = field(default_factory=list)
    columns: list[list[int]] = field(default_factory=list)
    row: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    nodes: int = 0


def layout(count: int, arcs: Sequence[Arc]) -> Layout:
    """Place `count` nodes, numbered so that every arc goes from a smaller to a larger number.

    >>> placed = layout(3, [(0, 2), (1, 2)])
    >>> placed.columns, placed.rows
    ([0, 0, 1], [0.0, 1.0, 0.5])
    """
    column = _columns(count, arcs)
    places, chains = _with_bends(count, arcs, column)
    _order(places)
    _heights(places)
    top = min(places.row, default=0.0)
    rows = [row - top for row in places.row]
    routes = [[(places.column[bend], rows[bend]) for bend in chain] for chain in chains]
    return Layout(
        column,
        rows[:count],
        routes,
        1 + max(column, default=-1),
        1 + max(rows, default=-1.0),
    )


# -- columns -------------------------------------------------------------------------------------


def _columns(count: int, arcs: Sequence[Arc]) -> list[int]:
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in arcs:
        before[target].append(source)
        after[source].append(target)
    column = [0] * count
    for node in range(count):
        column[node] = 1 + max((column[i] for i in before[node]), default=-1)
    # A node moves towards its first consumer if that does not make edges longer in total. Inputs
    # that only it uses move along with it, and so do not count.
    for node in range(count - 1, -1, -1):
        if after[node]:
            held = sum(1 for i in before[node] if len(after[i]) > 1)
            if held <= len(after[node]):
                column[node] = min(column[c] for c in after[node]) - 1
    first = min(column, default=0)
    return [c - first for c in column]


def _with_bends(
    count: int, arcs: Sequence[Arc], column: list[int]
) -> tuple[_Places, list[list[int]]]:
    """Edges of one node share their bends, except two that go to the same node."""
    places = _Places(list(column), [[] for _ in range(count)], [[] for _ in range(count)])
    places.nodes = count
    total = 0
    chains: dict[tuple[int, int], list[int]] = {}
    seen: dict[Arc, int] = {}
    routes: list[list[int]] = []
    bend_all = sum(column[t] - column[s] - 1 for s, t in set(arcs)) <= 20 * MOST_BENDS
    for source, target in arcs:
        again = seen[source, target] = seen.get((source, target), -1) + 1
        chain = chains.setdefault((source, again), [])
        needed = column[target] - column[source] - 1
        if not bend_all or total + needed - len(chain) > MOST_BENDS:
            routes.append([])
            continue
        while len(chain) < needed:
            bend = len(places.column)
            places.column.append(column[source] + 1 + len(chain))
            places.before.append([])
            places.after.append([])
            _join(places, chain[-1] if chain else source, bend)
            chain.append(bend)
            total += 1
        route = chain[:needed]
        _join(places, route[-1] if route else source, target)
        routes.append(route)
    return places, routes


def _join(places: _Places, one: int, other: int) -> None:
    places.after[one].append(other)
    places.before[other].append(one)


# -- order within a column -----------------------------------------------------------------------


def _order(places: _Places) -> None:
    width = 1 + max(places.column, default=-1)
    places.columns = [[] for _ in range(width)]
    for place in _depth_first(places):
        places.columns[places.column[place]].append(place)
    best, fewest = [list(c) for c in places.columns], _crossings(places)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        rightwards = sweep % 2 == 0
        index = _indices(places)
        steps = range(width) if rightwards else range(width - 1, -1, -1)
        neighbours = places.before if rightwards else places.after
        for at in steps:
            column = places.columns[at]
            middle = {}
            for i, place in enumerate(column):
                beside = neighbours[place]
                middle[place] = sum(index[n] for n in beside) / len(beside) if beside else i
            column.sort(key=middle.__getitem__)  # equal ones keep their order
            for i, place in enumerate(column):
                index[place] = i
        crossings = _crossings(places)
        if crossings < fewest:
            best, fewest = [list(c) for c in places.columns], crossings
    places.columns = best


def _indices(places: _Places) -> dict[int, int]:
    """The position of each place in its column."""
    return {place: i for column in places.columns for i, place in enumerate(column)}


def _depth_first(places: _Places) -> list[int]:
    """From the roots through the operands in order: a graph that is a tree comes out uncrossed."""
    seen = [False] * len(places.column)
    order = []
    roots = [p for p in range(len(places.column) - 1, -1, -1) if not places.after[p]]
    stack = roots[::-1]
    while stack:
        place = stack.pop()
        if seen[place]:
            continue
        seen[place] = True
        order.append(place)
        stack += [i for i in reversed(places.before[place]) if not seen[i]]
    return order


def _crossings(places: _Places) -> int:
    """Pairs of edges that cross, by counting inversions column by column."""
    index = _indices(places)
    total = 0
    for at, column in enumerate(places.columns[:-1]):
        ends = [
            index[target]
            for place in column
            for target in sorted(places.after[place], key=index.__getitem__)
            if places.column[target] == at + 1
        ]
        total += _inversions(ends)
    return total


def _inversions(ends: list[int]) -> int:
    seen: list[int] = []  # in order
    total = 0
    for end in ends:
        at = bisect_right(seen, end)
        total += len(seen) - at
        seen.insert(at, end)
    return total


# -- heights -------------------------------------------------------------------------------------


def _heights(places: _Places) -> None:
    places.row = [0.0] * len(places.column)
    places.weight = [
        2.0  # bends are most visible
        if place >= places.nodes
        else ASIDE
        if not places.before[place] and len(places.after[place]) < 2
        else 1.0
        for place in range(len(places.column))
    ]
    for column in places.columns:
        row = 0.0
        for i, place in enumerate(column):
            row += _gap(places, column[i - 1], place) if i else 0.0
            places.row[place] = row
    width = len(places.columns)
    # the last one goes right, so that a node is centred on its inputs
    for sweep in range(SWEEPS - 1):
        rightwards = sweep % 2 == 0
        steps = range(width) if rightwards else range(width - 1, -1, -1)
        for at in steps:
            _settle(places, places.columns[at], rightwards)


def _gap(places: _Places, one: int, other: int) -> float:
    """The least distance of two neighbours in a column."""
    bends = (one >= places.nodes) + (other >= places.nodes)
    return (1.0, (1 + BEND) / 2, BEND)[bends]


def _middle(places: _Places, beside: list[int]) -> float:
    """The mean row of the neighbours; leaves have little weight."""
    total = sum(places.weight[n] for n in beside)
    return sum(places.row[n] * places.weight[n] for n in beside) / total


def _settle(places: _Places, column: list[int], rightwards: bool) -> None:
    """Move a column to where its neighbours are, in its order and no closer than allowed.

    With the least distances subtracted, the rows only have to be nondecreasing; the nearest such
    rows (isotonic regression) result from merging neighbours that are out of order into blocks at
    their mean.
    """
    blocks: list[list[float]] = []  # sum of weights, weighted sum, how many
    offset = 0.0
    offsets = []
    for i, place in enumerate(column):
        offset += _gap(places, column[i - 1], place) if i else 0.0
        offsets.append(offset)
        beside = places.before[place] if rightwards else places.after[place]
        if not beside:
            beside = places.before[place] or places.after[place]
        weight = places.weight[place]
        wanted = _middle(places, beside) if beside else places.row[place]
        blocks.append([weight, weight * (wanted - offset), 1])
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][0] > blocks[-1][1] * blocks[-2][0]:
            weight, total, size = blocks.pop()
            blocks[-1][0] += weight
            blocks[-1][1] += total
            blocks[-1][2] += size
    at = 0
    for weight, total, size in blocks:
        for _ in range(int(size)):
            places.row[column[at]] = total / weight + offsets[at]
            at += 1
