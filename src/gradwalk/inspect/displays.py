"""Notebook displays of walks and answers: the graph itself if it is small."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Trace
from gradwalk.printers.graphs.frames import Frame, frames_of
from gradwalk.printers.graphs.svg import Sheet
from gradwalk.printers.graphs.view import GraphView, view_of
from gradwalk.printers.notebook import MOST, scrolled


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
