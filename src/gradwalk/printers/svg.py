"""A scalar graph as a drawing: leaves left, root right, values and gradients in every node."""

from __future__ import annotations

from html import escape
from typing import Any

from gradwalk.graph.order import inputs_first
from gradwalk.ops.op import Op
from gradwalk.printers.scalars import local_derivative, names_of, number

WIDTH, HEIGHT = 104, 52  # of a node
ACROSS, DOWN = 156, 66  # from one node to the next
MARGIN = 14
_STYLE = (
    "text{font-family:DejaVu Sans Mono,Menlo,Consolas,monospace;font-size:12px;fill:#222}"
    ".op{fill:#777}.grad{fill:#b3400a}.edge{stroke:#9aa3ad;fill:none;stroke-width:1.3}"
    ".slope{font-size:11px;fill:#5a6672;stroke:#fff;stroke-width:3px;paint-order:stroke}.paper{fill:#fff}"
    ".box{fill:#f4f7fa;stroke:#8fa1b3;rx:7}.leaf{fill:#fdf6e9;stroke:#cbb27a;rx:7}"
)


def graph_svg(root: Any) -> str:
    """The graph of a Value as SVG text; call backward() first to see the gradients.

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> graph_svg(a * a).count('class="edge"')
    2
    """
    order = inputs_first([root])
    places = _layout(order)
    names = names_of(order)
    width = 2 * MARGIN + max(x for x, _ in places.values()) + WIDTH
    height = 2 * MARGIN + max(y for _, y in places.values()) + HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(names[root])} and what it was computed from</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        f'<g transform="translate({MARGIN} {MARGIN})">',
    ]
    for v in order:
        parts += [_edge(v, position, places) for position in range(len(v.inputs))]
    parts += [_node(v, names[v], places[v]) for v in order]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _layout(order: list[Any]) -> dict[Any, tuple[float, float]]:
    """Columns by distance from the leaves; a node stands at the middle height of its inputs."""
    column: dict[Any, int] = {}
    for v in order:
        column[v] = 1 + max((column[i] for i in v.inputs), default=-1)
    for v in reversed(order):  # leaves move right, beside the first node that uses them
        for i in v.inputs:
            if not i.inputs:
                uses = [column[c] for c in order if i in c.inputs]
                column[i] = min(uses) - 1
    height: dict[Any, float] = {}
    leaves = 0
    for v in order:
        if v.inputs:
            height[v] = sum(height[i] for i in v.inputs) / len(v.inputs)
        else:
            height[v] = float(leaves)
            leaves += 1
    for place in set(column.values()):  # no two in one column closer than one row
        below = -1.0
        for v in sorted((v for v in order if column[v] == place), key=height.__getitem__):
            height[v] = max(height[v], below + 1)
            below = height[v]
    return {v: (column[v] * ACROSS, height[v] * DOWN) for v in order}


def _node(v: Any, name: str, place: tuple[float, float]) -> str:
    x, y = place
    kind = "box" if v.inputs else "leaf"
    op = f' <tspan class="op">{escape(v._op)}</tspan>' if v.inputs else ""
    return (
        f'<g transform="translate({x:.0f} {y:.0f})">'
        f'<rect class="{kind}" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text x="9" y="16">{escape(name)}{op}</text>'
        f'<text x="9" y="31">{number(v.data)}</text>'
        f'<text x="9" y="46" class="grad">grad {number(v.grad)}</text></g>'
    )


def _edge(v: Any, position: int, places: dict[Any, tuple[float, float]]) -> str:
    source = v.inputs[position]
    (x, y), (to_x, to_y) = places[source], places[v]
    # Each edge arrives at a height of its own, so that two edges from one node are two curves.
    arrive = to_y + HEIGHT * (position + 1) / (len(v.inputs) + 1)
    x, y, half = x + WIDTH, y + HEIGHT / 2, (to_x - x - WIDTH) / 2
    slope = f"×{number(local_derivative(v, position))}" if isinstance(v.op, Op) else ""
    return (
        f'<path class="edge" d="M{x:.0f} {y:.0f}C{x + half:.0f} {y:.0f} {to_x - half:.0f} '
        f'{arrive:.0f} {to_x:.0f} {arrive:.0f}"/>'
        f'<text class="slope" text-anchor="end" x="{to_x - 5:.0f}" y="{arrive - 4:.0f}">'
        f"{slope}</text>"
    )
