"""A graph as a drawing: leaves left, root right, values and gradients in every node.

There are two drawings. With the operations on the nodes, an edge shows its local derivative; with
the operations on the edges, a node is a value and an edge shows the operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from gradwalk.printers.graphs.frames import Frame
from gradwalk.printers.graphs.layout import layout
from gradwalk.printers.graphs.view import (
    MOST_NODES,
    GraphView,
    ViewEdge,
    ViewNode,
    shortened,
    view_of,
)

WIDTH, HEIGHT = 104, 56  # of a node, at least
WIDEST = 216
GAP = 52  # between columns, at least
DOWN = 14  # between rows
MARGIN = 14
LINE = 15  # of text
LETTER = 7.3  # the width of one in a monospaced font of 12 pixels
SMALL = 6.7  # and of 11 pixels
DRAWINGS = ("nodes", "edges")
_STYLE = (
    "text{font-family:DejaVu Sans Mono,Menlo,Consolas,monospace;font-size:12px;fill:#222}"
    ".grad{fill:#b3400a}.size{fill:#667}.edge{stroke:#9aa3ad;fill:none;"
    "stroke-width:1.3}.tip{fill:#9aa3ad}.slope{font-size:11px;fill:#5a6672;stroke:#fff;"
    "stroke-width:3px;paint-order:stroke}.does{fill:#24527a}.paper{fill:#fff}"
    ".sign{fill:#777}.op{fill:#f4f7fa;stroke:#8fa1b3}.leaf{fill:#fdf6e9;stroke:#cbb27a}"
    ".constant{fill:#fbfbfb;stroke:#c4c4c4}.group{fill:#eef3ee;stroke:#86a386}"
    ".pill{fill:#fff;stroke-width:.8}.gate{font-size:9px}"
    ".distributor{stroke:#3b7dbf}.swapper{stroke:#8a5fbf}.router{stroke:#2e8b57}"
    ".adder{stroke:#b3781a}.move{font-size:10px;fill:#0b6b5d}"
    ".later{opacity:.35}.focus{stroke:#d9480f;stroke-width:2.6}"
    ".live{stroke:#d9480f;stroke-width:2.2}.livetip{fill:#d9480f}.caption{font-size:13px}"
)


def graph_svg(graph: Any, drawing: str = "nodes") -> str:
    """The drawing of a trace, or of the graph behind a Value, as SVG text.

    A Value shows the gradients it has: call backward() first. `drawing` says where the operations
    stand, on the "nodes" or on the "edges".

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> graph_svg(a * a).count('class="edge"')
    2
    """
    if drawing not in DRAWINGS:
        raise ValueError(f"drawing is one of {', '.join(map(repr, DRAWINGS))}, not {drawing!r}")
    return Sheet(view_of(graph), drawing).svg()


@dataclass(slots=True)
class Row:
    """A line of text in a node."""

    text: str
    kind: str = ""
    after: str = ""  # the op, behind the name
    move: str = ""  # which way to move it, at the right end

    @property
    def letters(self) -> int:
        """How many letters it has room for."""
        after = len(self.after) + 1 if self.after else 0
        return len(self.text) + after + (7 if self.move else 0)


class Sheet:
    """A graph laid out once; all frames of a walk share the layout."""

    def __init__(self, view: GraphView, drawing: str = "nodes") -> None:
        if len(view.nodes) > MOST_NODES:
            raise ValueError(
                f"{len(view.nodes):,} nodes are too many to draw (at most {MOST_NODES:,}). Fix: "
                "draw groups closed (show(loss, depth=1)), or a smaller part"
            )
        self.view = view
        self.on_edges = drawing == "edges"
        self.hidden = view.folded() if self.on_edges else set()
        self.edges = [e for e in view.edges if e.source not in self.hidden]
        shown = [n for n in view.nodes if n.index not in self.hidden]
        self.number_of = {node.index: i for i, node in enumerate(shown)}
        arcs = [(self.number_of[e.source], self.number_of[e.target]) for e in self.edges]
        self.places = layout(len(shown), arcs)
        self.inset = 16 if self.on_edges else 9
        full = [self.rows(n, None) for n in shown]
        letters = max((row.letters for rows in full for row in rows), default=0)
        self.width = min(max(WIDTH, round(letters * LETTER) + 2 * self.inset), WIDEST)
        self.height = max(HEIGHT, 11 + LINE * max((len(rows) for rows in full), default=0))
        # An edge ends in a straight segment as long as the longest edge text.
        self.straight = (
            round(max((len(self._text_of(e)) for e in self.edges), default=0) * SMALL) + 8
        )
        self.gap = max(GAP, self.straight + 30)
        self.arrivals = self._arrivals()

    def corner(self, index: int) -> tuple[float, float]:
        """The upper left corner of a node."""
        i = self.number_of[index]
        return self._point(self.places.columns[i], self.places.rows[i])

    def size(self) -> tuple[float, float]:
        """The width and height of the drawing."""
        wide, high = self.places.width, self.places.height
        return wide * (self.width + self.gap) - self.gap, high * (self.height + DOWN) - DOWN

    def bends(self, i: int) -> list[tuple[float, float]]:
        """Where edge number i enters each column that it only crosses."""
        points = [self._point(column, row) for column, row in self.places.routes[i]]
        return [(x, y + self.height / 2) for x, y in points]

    def gates(self, node: ViewNode) -> tuple[str, str]:
        """The badges of a node: its gate, and whether gradients add up in it."""
        gate, adder = self.view.badges(node)
        return "" if self.on_edges else gate, adder if node.needs_grad else ""

    def label(self, edge: ViewEdge) -> str:
        """The text on an edge; empty where many edges leave no room."""
        beside = sum(1 for e in self.view.nodes[edge.target].edges if e.source not in self.hidden)
        return "" if self.height / (beside + 1) < 10.5 else self._text_of(edge)

    def _point(self, column: int, row: float) -> tuple[float, float]:
        return column * (self.width + self.gap), row * (self.height + DOWN)

    # -- text ------------------------------------------------------------------------------------

    def svg(self, frame: Frame | None = None) -> str:
        """The drawing, finished or at one step of the walk."""
        width, height = (2 * MARGIN + size for size in self.size())
        caption = ""
        if frame is not None:
            width = max(width, 2 * MARGIN + round(frame.widest * 7.9))
            below = height + 14
            height += 20 * len(frame.lines) + 4
            caption = "".join(
                f'<text class="caption" x="{MARGIN}" y="{below + 20 * i:.0f}">{escape(text)}</text>'
                for i, text in enumerate(frame.lines)
            )
        root = escape(self.view.nodes[self.view.root].name)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gradwalk" viewBox="0 0 {width:.0f} '
            f'{height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{root} and what it was computed from</title>",
            f"<style>{_scoped(_STYLE)}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            f'<g transform="translate({MARGIN} {MARGIN})">',
        ]
        drawn = [self._edge(i, edge, frame) for i, edge in enumerate(self.edges)]
        parts += [line for line, _ in drawn]
        parts += [label for _, label in drawn if label]  # on top of every line
        for node in self.view.nodes:
            if node.index not in self.hidden:
                parts.append(self._node(node, frame))
        return "\n".join([*parts, "</g>", *([caption] if caption else []), "</svg>", ""])

    def rows(self, node: ViewNode, frame: Frame | None) -> list[Row]:
        """The text in a node, at one step of the walk or when all is done."""
        view = self.view
        known = frame is None or node.index in frame.known
        op = "" if self.on_edges and not node.detail else node.sign
        rows = [Row(node.name, after="constant" if node.constant else op)]
        if node.nameless:
            rows = [Row(node.op or "leaf", after=f"#{node.key}")]
        if not view.scalar:
            kind = "" if node.dtype.startswith("float") else f" {node.dtype}"
            rows.append(Row(("scalar" if node.shape == () else str(node.shape)) + kind, "size"))
        if node.detail:
            rows.append(Row(node.detail, "size"))
        elif not node.constant and (node.dtype.startswith("float") or node.shape == ()):
            arrow = "↑ raise" if node.raises > 0 else "↓ lower"
            shown = node.raises != 0 and (frame is None or frame.last)
            rows.append(Row(view.value_text(node) if known else "", move=arrow if shown else ""))
        if view.swept and node.needs_grad:
            text = view.grad_text(node) if frame is None else frame.grads.get(node.index, "")
            rows.append(Row(f"grad {text}" if text else "", "grad"))
        return rows

    def _text_of(self, edge: ViewEdge) -> str:
        return self.view.edge_text(edge, self.on_edges)

    def _node(self, node: ViewNode, frame: Frame | None) -> str:
        x, y = self.corner(node.index)
        later = ' class="later"' if frame is not None and node.index not in frame.known else ""
        focus = " focus" if frame is not None and node.index == frame.focus else ""
        kind = node.kind
        round_corner = round(self.height / 2) if self.on_edges else 7
        parts = [
            f'<g transform="translate({x:.0f} {y:.0f})"{later}>',
            f'<rect class="{kind}{focus}" width="{self.width}" height="{self.height}" '
            f'rx="{round_corner}"/>',
            f"<title>{escape(self._tooltip(node))}</title>",
        ]
        room = int((self.width - 2 * self.inset + 4) / LETTER)
        for i, row in enumerate(self.rows(node, frame)):
            parts.append(_text(row, self.inset, 17 + LINE * i, room))
            if row.move:
                parts.append(
                    f'<text class="move" text-anchor="end" x="{self.width - self.inset + 2}" '
                    f'y="{17 + LINE * i}">{row.move}</text>'
                )
        gate, adder = self.gates(node)
        if gate:
            parts.append(self._pill(gate, -7))
        if adder:
            parts.append(self._pill(adder, self.height - 6))
        return "".join([*parts, "</g>"])

    def _pill(self, text: str, y: int) -> str:
        width = round(len(text) * 5.5) + 9
        x = self.width - width - (18 if self.on_edges else 6)
        return (
            f'<rect class="pill {text}" x="{x}" y="{y}" width="{width}" height="13" rx="6.5"/>'
            f'<text class="gate" x="{x + 4.5}" y="{y + 9.5}">{text}</text>'
        )

    def _tooltip(self, node: ViewNode) -> str:
        view = self.view
        lines = [f"{node.name} = {view.computed_as(node)}", view.value_text(node)]
        if view.swept:
            lines.append(f"gradient {view.grad_text(node)}")
        lines += [node.detail, node.group, node.line]
        return "\n".join(line for line in lines if line)

    def _edge(self, i: int, edge: ViewEdge, frame: Frame | None) -> tuple[str, str]:
        """The line of an edge, and its text."""
        x, y = self.corner(edge.source)
        to_x, _ = self.corner(edge.target)
        arrive = self.arrivals[i]
        x, y = x + self.width, y + self.height / 2
        path = [f"M{x:.0f} {y:.0f}"]
        for bend_x, bend_y in self.bends(i):
            path.append(_curve(x, y, bend_x, bend_y))
            path.append(f"H{bend_x + self.width:.0f}")
            x, y = bend_x + self.width, bend_y
        path.append(_curve(x, y, to_x - self.straight, arrive))
        path.append(f"H{to_x:.0f}")
        live = frame is not None and (edge.target, edge.position) in frame.live
        later = " later" if frame is not None and edge.target not in frame.known else ""
        kind = ("edge live" if live else "edge") + later
        tip = ("livetip" if live else "tip") + later
        line = (
            f'<path class="{kind}" d="{"".join(path)}"/>'
            f'<path class="{tip}" d="M{to_x:.0f} {arrive:.0f}l-6 -3v6z"/>'
        )
        return line, "" if later else self._slope(edge, to_x, arrive)

    def _arrivals(self) -> list[float]:
        """The height at which each edge arrives, distinct so that a × a has two curves.

        In the order of their sources, so that they do not cross near the end.
        """
        heights = [0.0] * len(self.edges)
        arriving: dict[int, list[int]] = {}
        for i, edge in enumerate(self.edges):
            arriving.setdefault(edge.target, []).append(i)
        rows = [
            route[-1][1] if route else self.places.rows[self.number_of[edge.source]]
            for edge, route in zip(self.edges, self.places.routes)
        ]
        for target, edges in arriving.items():
            top = self.corner(target)[1]
            edges.sort(key=lambda i: (rows[i], self.edges[i].position))
            for place, i in enumerate(edges, 1):
                heights[i] = top + self.height * place / (len(edges) + 1)
        return heights

    def _slope(self, edge: ViewEdge, x: float, y: float) -> str:
        label = escape(self.label(edge))
        if not label:
            return ""
        if self.on_edges and "∂" in label:
            does, _, slope = label.partition("∂")
            label = f'<tspan class="does">{does.rstrip()}</tspan> ∂{slope}'
        return (
            f'<text class="slope" text-anchor="end" x="{x - 9:.0f}" y="{y - 4:.0f}">{label}</text>'
        )


def _scoped(style: str) -> str:
    """Restrict the style to our drawings, because a page may contain other SVGs."""
    rules = [rule for rule in style.split("}") if rule]
    return "".join(f".gradwalk {rule}}}" for rule in rules)


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (to_x - x) / 2
    return f"C{x + half:.0f} {y:.0f} {to_x - half:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"


def _text(row: Row, x: int, y: int, room: int) -> str:
    behind = row.after
    if len(row.text) + len(behind) + 1 > room and len(behind) > room // 2:
        behind = behind[: room // 2 - 1] + "…"
    left = room - (len(behind) + 1 if behind else 0)
    kind = f' class="{row.kind}"' if row.kind else ""
    after = f' <tspan class="sign">{escape(behind)}</tspan>' if behind else ""
    return f'<text x="{x}" y="{y}"{kind}>{escape(shortened(row.text, left))}{after}</text>'
