"""show: a graph to look at, in a notebook, in a terminal or as a file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Trace
from gradwalk.io.atomic import write_atomically
from gradwalk.printers.graphs.dot import graph_dot
from gradwalk.printers.graphs.frames import Frame, frames_of
from gradwalk.printers.graphs.groups import close_groups
from gradwalk.printers.graphs.plain_data import graph_data
from gradwalk.printers.graphs.svg import DRAWINGS, Sheet
from gradwalk.printers.graphs.tikz import frames_tikz, graph_tikz
from gradwalk.printers.graphs.view import GraphView, view_of
from gradwalk.printers.notebook import MOST, scrolled


def show(loss: Any = None, *, drawing: str = "nodes", depth: int | None = None) -> Picture:
    """A picture of a loss, a Value or a trace: a notebook draws it, `print` lists it.

    `drawing` says where the operations stand: on the "nodes", or on the "edges". `depth` closes
    groups: 1 draws every outermost module call as one node, 2 the calls inside it, and so on.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0, label="a")
    >>> picture = gw.show(a * a)
    >>> picture.nodes, picture.edges
    (2, 2)
    """
    if drawing not in DRAWINGS:
        raise ValueError(f"drawing is one of {', '.join(map(repr, DRAWINGS))}, not {drawing!r}")
    if depth is not None and depth < 1:
        raise ValueError(f"depth is 1 for the outermost groups, 2 inside them, ..., not {depth}")
    trace = as_trace(loss)
    if not trace.nodes:
        raise ValueError("nothing was recorded, so there is nothing to draw")
    view = view_of(trace)
    if depth is not None:
        view = close_groups(view, trace, depth)
    return Picture(len(view.nodes), len(view.edges), drawing, _view=view, _trace=trace)


@dataclass
class Picture(Report):
    """A graph to look at. `save` writes it as SVG, DOT or TikZ, by the name of the file."""

    nodes: int
    edges: int
    drawing: str
    _view: GraphView
    _trace: Trace

    def svg(self) -> str:
        """The drawing as SVG text."""
        return Sheet(self._view, self.drawing).svg()

    def dot(self) -> str:
        """The graph in the DOT language of Graphviz."""
        return graph_dot(self._view, self.drawing)

    def tikz(self) -> str:
        """The drawing as a LaTeX document with one TikZ picture."""
        return graph_tikz(self._view, self.drawing)

    def tikz_frames(self) -> str:
        """Every step of the walk as a page of a LaTeX document."""
        return frames_tikz(self._view, self.drawing)

    def frames(self, folder: str | Path) -> list[Path]:
        """Write one SVG per step of the walk, all with the same layout; returns the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sheet = Sheet(self._view, self.drawing)
        frames = frames_of(self._view)
        digits = max(2, len(str(len(frames) - 1)))
        written = []
        for frame in frames:
            path = folder / f"step-{frame.step:0{digits}d}.svg"
            write_atomically(path, [sheet.svg(frame).encode()])
            written.append(path)
        return written

    def save(self, path: str | Path) -> Path:
        """Write the picture: .svg, .dot (or .gv) or .tex, as the name says."""
        path = Path(path)
        makers = {".svg": self.svg, ".dot": self.dot, ".gv": self.dot, ".tex": self.tikz}
        make = makers.get(path.suffix.lower())
        if make is None:
            known = ", ".join(makers)
            raise ValueError(f"'{path.name}': the name must end in one of {known}")
        write_atomically(path, [make().encode()])
        return path

    def text(self, width: int = 80, tree: bool = False) -> str:
        """Tables of the walk, or a tree, as plain text."""
        from rich.console import Console

        from gradwalk.printers.graphs.terminal import show_tree, show_walk

        console = Console(file=io.StringIO(), width=width, color_system=None, force_jupyter=False)
        (show_tree if tree else show_walk)(self._view, console)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """The graph as plain data; see docs/inspect/command-line.md."""
        return graph_data(self._view)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return scrolled(self.svg())


# -- displays of walks and answers in notebooks: the graph itself if it is small ------------------


def step_html(trace: Trace, forward: Sequence[int], position: int, text: str) -> str:
    """A walk of `trace` that has done `position` steps, the first of them through `forward`."""
    if not trace.sweeps or len(forward) > MOST:
        return _preformatted(text)
    view = view_of(trace)
    frame = _at(view, forward, position)
    frame.lines = []  # the text says it
    return scrolled(Sheet(view).svg(frame)) + _preformatted(text)


def _at(view: GraphView, forward: Sequence[int], position: int) -> Frame:
    place = {node.key: node.index for node in view.nodes}
    frames = frames_of(view)
    if position > len(forward):  # one frame per visit, and they are the last
        return frames[position - len(forward) - len(view.visits) - 1]
    known = {place[key] for key in forward[:position]}
    focus = place[forward[position - 1]] if position else None
    live = {(e.target, e.position) for e in view.nodes[focus].edges} if focus is not None else set()
    return Frame(position, 0, [], known, focus=focus, live=live)


def ways_html(trace: Trace | None, node: int, text: str) -> str:
    """The graph with every path from `node` to the loss marked, above the text."""
    if trace is None or not trace.sweeps:
        return _preformatted(text)
    # Counted before anything is laid out: the trace of a training run is long.
    if len(leading_to(trace, {edge.node for edge in trace.sweeps[-1].seeds})) > MOST:
        return _preformatted(text)
    view = view_of(trace)
    place = {n.key: n.index for n in view.nodes}
    if node not in place:
        return _preformatted(text)
    above = {place[node]}
    live = set()
    for n in view.nodes:  # inputs come first
        for edge in n.edges:
            if edge.source in above and n.needs_grad:
                above.add(n.index)
                live.add((edge.target, edge.position))
    grads = {n.index: view.grad_text(n) for n in view.nodes if n.grad is not None}
    frame = Frame(0, 0, [], set(place.values()), grads, place[node], live, last=True)
    return scrolled(Sheet(view).svg(frame)) + _preformatted(text)


def _preformatted(text: str) -> str:
    return f'<pre class="gradwalk">{escape(text)}</pre>'
