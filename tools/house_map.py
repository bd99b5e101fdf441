"""Draw the house: `python -m tools.house_map` writes docs/images/house.svg.

A box is a room: a folder of src/gradwalk with its subfolders. An arrow means that modules of one
room import modules of another. Rooms are drawn above the rooms they import. Implied arrows (a
imports b, b imports c) are omitted. Rooms that import each other are side by side. A test compares
the picture with the code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.project.imports import imports

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "gradwalk"
PICTURE = ROOT / "docs" / "images" / "house.svg"
FRONT = "gradwalk"  # the modules beside the rooms: public names and namespaces
ENTRANCES = ("__main__",)  # modules that only start something

Graph = dict[str, set[str]]

WIDTH, LINE, MARGIN, GAP, ROW_GAP = 184, 14, 24, 28, 38
LETTERS = 25  # in a line of a box
DUMMY = 10  # the width of a place where an arrow passes a row


# -- the graph -------------------------------------------------------------------------------------


def rooms(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Every room with its subfolders; for the front, its modules."""
    modules = [p.stem for p in sorted(package.glob("*.py")) if not p.stem.startswith("_")]
    found = {FRONT: modules}
    for folder in sorted(package.iterdir()):
        if (folder / "__init__.py").exists():
            found[folder.name] = [p.parent.name for p in sorted(folder.glob("*/__init__.py"))]
    return found


def import_graph(package: Path = PACKAGE) -> Graph:
    """The rooms that each room imports."""
    known = rooms(package)
    found: Graph = {room: set() for room in known}
    for path in sorted(package.rglob("*.py")):
        first = path.relative_to(package).parts[0].removesuffix(".py")
        room = first if first in known else FRONT
        if first in ENTRANCES:
            continue
        for one in imports(path, package):
            top, _, inside = one.target.partition(".")
            target = inside.partition(".")[0]
            if top == package.name and (target if target in known else FRONT) != room:
                found[room].add(target if target in known else FRONT)
    # The front exports rooms that are themselves built on it: not a dependency.
    found[FRONT] = {room for room in found[FRONT] if FRONT not in found[room]}
    return found


def components(graph: Graph) -> list[frozenset[str]]:
    """Group rooms that import each other."""
    reached = {room: set(_reachable(graph, room)) for room in graph}
    found = {frozenset({room, *(r for r in reached[room] if room in reached[r])}) for room in graph}
    return sorted(found, key=sorted)


def _reachable(graph: Graph, start: str) -> Iterator[str]:
    seen: set[str] = set()
    stack = [start]
    while stack:
        for room in graph[stack.pop()] - seen:
            seen.add(room)
            stack.append(room)
            yield room


def reduced(graph: Graph) -> Graph:
    """The transitive reduction of an acyclic graph."""
    reached = {room: set(_reachable(graph, room)) for room in graph}
    return {
        room: {r for r in direct if not any(r in reached[other] for other in direct - {r})}
        for room, direct in graph.items()
    }


# -- rows ------------------------------------------------------------------------------------------


@dataclass
class Place:
    """Rooms side by side in a row, usually one; or, without rooms, a point that an arrow passes."""

    rooms: list[str]
    row: int
    x: float = 0.0  # its middle

    @property
    def width(self) -> int:
        """Its width in the row."""
        return len(self.rooms) * (WIDTH + GAP) - GAP if self.rooms else DUMMY

    def middle(self, room: str) -> float:
        """The middle of one of its rooms."""
        left = self.x - self.width / 2
        return left + self.rooms.index(room) * (WIDTH + GAP) + WIDTH / 2


def rank(graph: Graph) -> dict[str, int]:
    """The number of rows between a room and the lowest row."""
    found: dict[str, int] = {}

    def of(room: str) -> int:
        if room not in found:
            found[room] = 1 + max(map(of, graph[room]), default=-1)
        return found[room]

    for room in graph:
        of(room)
    return found


@dataclass
class Arrow:
    """An import of one room by another, and the places it connects and passes, from the top."""

    start: str
    end: str
    places: list[Place]


@dataclass
class Drawing:
    """Places in rows from the top, and arrows between them."""

    rows: list[list[Place]]
    arrows: list[Arrow]
    inside: dict[str, list[str]]  # lines of text about each room

    def order(self) -> None:
        """Sort each row by the neighbours of its places, so that few arrows cross."""
        beside: dict[int, list[Place]] = {}
        for arrow in self.arrows:
            for upper, lower in pairwise(arrow.places):
                beside.setdefault(id(upper), []).append(lower)
                beside.setdefault(id(lower), []).append(upper)
        for turn in range(24):
            self.spread()
            for row in self.rows if turn % 2 else reversed(self.rows):
                self.spread()
                middle = {
                    id(p): sum(n.x for n in beside.get(id(p), [p])) / len(beside.get(id(p), [p]))
                    for p in row
                }
                row.sort(key=lambda place: (middle[id(place)], place.rooms))
        self.spread()

    def spread(self) -> None:
        """Place each row's places side by side and center the row."""
        for row in self.rows:
            x = -(sum(p.width for p in row) + GAP * (len(row) - 1)) / 2
            for place in row:
                place.x = x + place.width / 2
                x += place.width + GAP


def drawing(package: Path = PACKAGE) -> Drawing:
    """The house in rows."""
    graph = import_graph(package)
    together = {room: sorted(component) for component in components(graph) for room in component}
    joined: Graph = {names[0]: set() for names in together.values()}
    for room, targets in graph.items():
        own = together[room][0]
        joined[own] |= {together[t][0] for t in targets} - {own}
    height = rank(joined)
    top = max(height.values())
    places = {first: Place(together[first], top - height[first]) for first in sorted(joined)}
    rows: list[list[Place]] = [[] for _ in range(top + 1)]
    for place in places.values():
        rows[place.row].append(place)
    arrows = []
    drawn = reduced(joined)
    for room, targets in sorted(graph.items()):
        for target in sorted(targets):
            upper, lower = together[room][0], together[target][0]
            if lower not in drawn[upper]:
                continue
            passed = [Place([], row) for row in range(places[upper].row + 1, places[lower].row)]
            for point in passed:
                rows[point.row].append(point)
            arrows.append(Arrow(room, target, [places[upper], *passed, places[lower]]))
    inside = {
        room: textwrap.wrap(", ".join(names), LETTERS, break_on_hyphens=False)
        for room, names in rooms(package).items()
    }
    found = Drawing(rows, arrows, inside)
    found.order()
    return found


# -- the picture -----------------------------------------------------------------------------------

STYLE = """\
.paper{fill:#fff}.room{fill:#f4f7fa;stroke:#8fa1b3}.arrow{fill:none;stroke:#8794a1;stroke-width:1.4}
.tip{fill:#8794a1}
text{font-family:DejaVu Sans,Helvetica,Arial,sans-serif;fill:#1c2733;text-anchor:middle}
.name{font-size:14px;font-weight:bold}.inside{font-size:11px;fill:#52606d}
@media (prefers-color-scheme: dark){.paper{fill:#14181e}.room{fill:#222b35;stroke:#61758a}
.arrow{stroke:#76879a}.tip{fill:#76879a}text{fill:#e3e9ef}.inside{fill:#a9b6c3}}"""


def svg(found: Drawing) -> str:
    """The picture."""
    tall = {room: 30 + (LINE * len(text) + 6 if text else 0) for room, text in found.inside.items()}
    heights = [max(tall[room] for place in row for room in place.rooms) for row in found.rows]
    tops = [MARGIN]
    for height in heights:
        tops.append(tops[-1] + height + ROW_GAP)
    widest = max(place.x + place.width / 2 for row in found.rows for place in row)
    width, height = 2 * (widest + MARGIN), tops[-1] - ROW_GAP + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">',
        "<title>The rooms of gradwalk, and which imports which</title>",
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        f'<g transform="translate({widest + MARGIN:g} 0)">',
    ]
    for arrow in found.arrows:
        first, *passed, last = arrow.places
        x, top = first.middle(arrow.start), tops[first.row]
        points = [(x, top + tall[arrow.start])]
        if heights[first.row] > tall[arrow.start]:  # past its taller neighbours
            points.append((x, top + heights[first.row]))
        for point in passed:
            points += [(point.x, tops[point.row]), (point.x, tops[point.row] + heights[point.row])]
        points.append((last.middle(arrow.end), tops[last.row] - 6))
        parts += _arrow(points)
    for row, top in zip(found.rows, tops):
        for place in row:
            for left, right in pairwise(map(place.middle, place.rooms)):
                parts.append(_pair(left + WIDTH / 2, right - WIDTH / 2, top + 15))
            for room in place.rooms:
                parts.append(_box(room, place.middle(room), top, tall[room], found.inside[room]))
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _box(room: str, x: float, top: float, height: float, inside: list[str]) -> str:
    lines = "".join(
        f'<text class="inside" x="{x:g}" y="{top + 38 + LINE * i:g}">{line}</text>'
        for i, line in enumerate(inside)
    )
    title = room if room == FRONT else f"{room}/"
    return (
        f'<rect class="room" x="{x - WIDTH / 2:g}" y="{top:g}" width="{WIDTH}" '
        f'height="{height:g}" rx="6"/>'
        f'<text class="name" x="{x:g}" y="{top + 20:g}">{title}</text>{lines}'
    )


def _pair(left: float, right: float, y: float) -> str:
    """Two rooms that import each other."""
    return (
        f'<path class="arrow" d="M{left + 6:g} {y:g}H{right - 6:g}"/>'
        f'<path class="tip" d="M{left:g} {y:g}l8 -4v8zM{right:g} {y:g}l-8 -4v8z"/>'
    )


def _arrow(points: list[tuple[float, float]]) -> list[str]:
    """A line from the bottom of a room, straight down past other rows, to the top of another."""
    (x, y), *rest = points
    path = [f"M{x:g} {y:g}"]
    for next_x, next_y in rest:
        half = (y + next_y) / 2
        path.append(
            f"V{next_y:g}"
            if next_x == x
            else f"C{x:g} {half:g} {next_x:g} {half:g} {next_x:g} {next_y:g}"
        )
        x, y = next_x, next_y
    return [
        f'<path class="arrow" d="{"".join(path)}"/>',
        f'<path class="tip" d="M{x:g} {y + 6:g}l-4 -8h8z"/>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(svg(drawing()), encoding="utf-8")
