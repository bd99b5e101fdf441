"""Small charts: numbers per name as bars on a logarithmic scale, bytes over time as an area."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

ROW = 18
BAR = 150
GAP = 24
LETTER = 7.0
MOST_ROWS = 60
COLOURS = ("#3b7dbf", "#d9822b")
_STYLE = (
    "text{font-family:DejaVu Sans Mono,Menlo,Consolas,monospace;font-size:11px;fill:#222}"
    ".head{fill:#667}.bad{fill:#c0392b}.paper{fill:#fff}.axis{stroke:#ccc}"
)


def bars_svg(
    names: Sequence[str],
    columns: Mapping[str, Sequence[float]],
    marked: Sequence[str] = (),
) -> str:
    """A row per name and a column of logarithmic bars per title.

    Names in `marked` are red. Numbers that have no logarithm get no bar.
    """
    left_out = len(names) - MOST_ROWS
    names = list(names)[:MOST_ROWS]
    wide = LETTER * max((len(name) for name in names), default=1) + GAP
    width = wide + len(columns) * (BAR + 10 * LETTER + GAP)
    height = (len(names) + 2 + (left_out > 0)) * ROW
    body = []
    for number, (title, values) in enumerate(columns.items()):
        x = wide + number * (BAR + 10 * LETTER + GAP)
        body.append(f'<text class="head" x="{x:.0f}" y="{ROW - 5}">{escape(title)}</text>')
        logs = [math.log10(v) for v in values if 0 < v < math.inf]
        low, high = (min(logs), max(logs)) if logs else (0.0, 1.0)
        low = min(low, high - 1)  # span at least a power of ten, so that equal numbers look equal
        for row, value in enumerate(values[:MOST_ROWS]):
            y = (row + 1) * ROW
            length = 0.0
            if 0 < value < math.inf:
                length = 4 + (BAR - 4) * (math.log10(value) - low) / (high - low)
            body.append(
                f'<rect x="{x:.0f}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" '
                f'fill="{COLOURS[number % len(COLOURS)]}"/>'
                f'<text x="{x + length + 4:.1f}" y="{y + ROW - 5}">{value:.3g}</text>'
            )
    for row, name in enumerate(names):
        kind = ' class="bad"' if name in marked else ""
        body.append(f'<text{kind} x="4" y="{(row + 2) * ROW - 5}">{escape(name)}</text>')
    if left_out > 0:
        y = (len(names) + 2) * ROW - 5
        body.append(f'<text class="head" x="4" y="{y}">and {left_out} more</text>')
    return _sheet(width, height, body)


def area_svg(parts: Mapping[str, Sequence[float]], label: str, budget: float | None = None) -> str:
    """Numbers over time, one part behind the other, with a line at `budget`."""
    width, height, foot = 640.0, 200.0, 30.0
    total = sum(len(values) for values in parts.values())
    highest = max((v for values in parts.values() for v in values), default=0.0)
    highest = max(highest, budget or 0.0) or 1.0
    step = (width - 2 * GAP) / max(total, 1)
    body, x = [], float(GAP)

    def up(value: float) -> float:
        return height - foot - (height - foot - GAP) * value / highest

    for number, (title, values) in enumerate(parts.items()):
        places = [f"{x:.1f},{height - foot:.1f}"]
        for position, value in enumerate(values):
            y = up(value)
            places.append(f"{x + position * step:.1f},{y:.1f}")
            places.append(f"{x + (position + 1) * step:.1f},{y:.1f}")
        end = x + len(values) * step
        places.append(f"{end:.1f},{height - foot:.1f}")
        colour = COLOURS[number % len(COLOURS)]
        body.append(f'<polygon points="{" ".join(places)}" fill="{colour}"/>')
        body.append(f'<text x="{x + 4:.1f}" y="{height - 12}">{escape(title)}</text>')
        x = end
    body.append(f'<text x="{GAP}" y="14">{escape(label)}</text>')
    if budget is not None:
        y = up(budget)
        body.append(f'<line class="axis" x1="{GAP}" x2="{width - GAP}" y1="{y:.1f}" y2="{y:.1f}"/>')
    return _sheet(width, height, body)


def _sheet(width: float, height: float, body: list[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>'
        f'<rect class="paper" width="100%" height="100%"/>{"".join(body)}</svg>\n'
    )
