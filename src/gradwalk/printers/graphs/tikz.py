r"""A graph as TikZ pictures for LaTeX: one, or one page per step of the walk.

The text is plain TikZ with one style per kind of node, so that it is easy to edit.
"""

from __future__ import annotations

from typing import Any

from gradwalk.printers.formulas.latex import GREEK_LETTERS
from gradwalk.printers.graphs.frames import Frame, frames_of
from gradwalk.printers.graphs.svg import Sheet
from gradwalk.printers.graphs.view import ViewEdge, ViewNode, view_of

SCALE = 0.022  # centimetres per pixel of the drawing
_HEAD = r"""\documentclass[tikz,border=4pt]{standalone}
% Made by gradwalk. Every tikzpicture is one page; they share one size, so nothing jumps.
\usetikzlibrary{arrows.meta}
"""
_STYLES = r"""\tikzset{
  gradwalk/.style={x=1cm, y=1cm, font=\footnotesize},
  gw/.style={draw, rounded corners=2pt, inner sep=3pt, align=left},
  gwleaf/.style={gw, fill=orange!8, draw=orange!60!black!50},
  gwconstant/.style={gw, fill=black!2, draw=black!25},
  gwop/.style={gw, fill=blue!4, draw=blue!40!black!50},
  gwgroup/.style={gw, fill=green!6, draw=green!40!black!50},
  gwround/.style={rounded corners=10pt},
  gwlater/.style={opacity=0.3},
  gwfocus/.style={draw=red!75!black, very thick},
  gwedge/.style={->, draw=black!45},
  gwlive/.style={->, draw=red!75!black, thick},
  gwslope/.style={font=\scriptsize, text=black!65, inner sep=1pt, anchor=south east},
  gwgate/.style={font=\tiny, fill=white, draw=black!40, rounded corners=3pt, inner sep=1.2pt},
}
"""
_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    "^": r"\^{}",
    "~": r"\~{}",
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "√": r"$\sqrt{\ }$",
    "²": "$^2$",
    "³": "$^3$",
    "∂": r"$\partial$",
    "‖": r"$\|$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\ne$",
    "<": "$<$",
    ">": "$>$",
    "|": r"$|$",
    "…": r"\ldots{}",
    "ᵀ": r"$^\top$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}


def graph_tikz(graph: Any, drawing: str = "nodes") -> str:
    """A trace, or the graph behind a Value, as a LaTeX document with one TikZ picture.

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> graph_tikz(a * a).count("gwedge] (n0")
    2
    """
    sheet = Sheet(view_of(graph), drawing)
    return _document([_picture(sheet, None)])


def frames_tikz(graph: Any, drawing: str = "nodes") -> str:
    """The walk as a LaTeX document, one TikZ picture and so one page per step.

    >>> from gradwalk import Value
    >>> frames_tikz(Value(3.0, label="a") * 2).count("begin{tikzpicture}")
    4
    """
    view = view_of(graph)
    sheet = Sheet(view, drawing)
    return _document([_picture(sheet, frame) for frame in frames_of(view)])


def _document(pictures: list[str]) -> str:
    head = _HEAD + _STYLES + r"\begin{document}"
    return "\n".join([head, *pictures, r"\end{document}", ""])


def _picture(sheet: Sheet, frame: Frame | None) -> str:
    lines = [r"\begin{tikzpicture}[gradwalk, >=Stealth]"]
    shown = [n for n in sheet.view.nodes if n.index not in sheet.hidden]
    if frame is not None:  # the same size on every page
        right, bottom = sheet.size()
        right = max(right, frame.widest * 7.0)  # a page is as wide as the longest caption
        low = _cm(-bottom) + f" - {0.5 * len(frame.lines) + 0.5}"
        lines.append(rf"\useasboundingbox (-0.4, 0.4) rectangle ({_cm(right)} + 0.4, {low});")
    lines += [_node(sheet, node, frame) for node in shown]
    lines += [_edge(sheet, i, edge, frame) for i, edge in enumerate(sheet.edges)]
    lines += [gate for node in shown for gate in _gates(sheet, node)]
    if frame is not None:
        _, bottom = sheet.size()
        for i, text in enumerate(frame.lines):
            place = f"(0, {_cm(-bottom)} - {0.5 * i + 0.6})"
            lines.append(rf"\node[anchor=base west, inner sep=0pt] at {place} {{{latex(text)}}};")
    return "\n".join([*lines, r"\end{tikzpicture}"])


def _cm(pixels: float) -> str:
    return f"{pixels * SCALE:.2f}"


def _node(sheet: Sheet, node: ViewNode, frame: Frame | None) -> str:
    x, y = sheet.corner(node.index)
    styles = [f"gw{node.kind}"]
    if sheet.on_edges:
        styles.append("gwround")
    if frame is not None and node.index not in frame.known:
        styles.append("gwlater")
    if frame is not None and node.index == frame.focus:
        styles.append("gwfocus")
    rows = []
    for row in sheet.rows(node, frame):
        text = latex(row.text) + (
            rf" \textcolor{{gray}}{{{latex(row.after)}}}" if row.after else ""
        )
        text += rf"\hfill\ {{\tiny {latex(row.move)}}}" if row.move else ""
        rows.append(rf"\textcolor{{orange!60!black}}{{{text}}}" if row.kind == "grad" else text)
    size = f"text width={_cm(sheet.width - 10)}cm, minimum height={_cm(sheet.height)}cm"
    middle = f"({_cm(x + sheet.width / 2)}, {_cm(-y - sheet.height / 2)})"
    body = r"\\ ".join(row or r"\strut" for row in rows)
    return rf"\node[{', '.join(styles)}, {size}] (n{node.index}) at {middle} {{{body}}};"


def _edge(sheet: Sheet, i: int, edge: ViewEdge, frame: Frame | None) -> str:
    live = frame is not None and (edge.target, edge.position) in frame.live
    later = frame is not None and edge.target not in frame.known
    style = ("gwlive" if live else "gwedge") + (", gwlater" if later else "")
    to_x, _ = sheet.corner(edge.target)
    arrive = sheet.arrivals[i]
    parts = [f"(n{edge.source}.east)"]
    for x, y in sheet.bends(i):
        parts.append(
            f"to[out=0, in=180] ({_cm(x)}, {_cm(-y)}) -- ({_cm(x + sheet.width)}, {_cm(-y)})"
        )
    before = f"({_cm(to_x - sheet.straight)}, {_cm(-arrive)})"
    parts.append(f"to[out=0, in=180] {before} -- ({_cm(to_x)}, {_cm(-arrive)})")
    line = rf"\draw[{style}] {' '.join(parts)};"
    label = "" if later else sheet.label(edge)
    if label:
        place = f"({_cm(to_x - 7)}, {_cm(-arrive)})"
        line += rf" \node[gwslope] at {place} {{{latex(label)}}};"
    return line


def _gates(sheet: Sheet, node: ViewNode) -> list[str]:
    """Gate badges: above, what an op does to a gradient; below, that several gradients add up."""
    sides = zip(("north", "south"), sheet.gates(node))
    return [
        rf"\node[gwgate] at ([xshift=-0.5cm]n{node.index}.{side} east) {{{gate}}};"
        for side, gate in sides
        if gate
    ]


def latex(text: str) -> str:
    r"""Escape text for LaTeX; mathematical signs and Greek letters become mathematics.

    >>> latex("w_1 × −3%")
    'w\\_1 $\\times$ $-$3\\%'
    """
    return "".join(_sign(c) for c in text)


def _sign(c: str) -> str:
    if c in _SIGNS:
        return _SIGNS[c]
    c = GREEK_LETTERS.get(c, c)
    if c.startswith("\\"):
        return f"${c}$"
    return c if c.isascii() and c.isprintable() else "?"
