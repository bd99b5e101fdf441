"""The frames of a walk: what is known after each step, forward and then backward.

Every printer that draws steps (SVG, TikZ) draws these, on one layout, so that nothing jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.printers.graphs.view import GraphView, ViewNode, amount, view_of
from gradwalk.printers.scalars import number

LONGEST = 120  # letters in a caption


@dataclass(slots=True)
class Frame:
    """One step: what is known after it, and its focus."""

    step: int
    steps: int
    lines: list[str]  # the caption
    known: set[int]  # nodes whose value is known
    grads: dict[int, str] = field(default_factory=dict)  # gradients so far, by node
    focus: int | None = None  # the focused node
    live: set[tuple[int, int]] = field(default_factory=set)  # the edges it used
    last: bool = False
    widest: int = 0  # letters in the longest caption of all frames, so that all have one size


def frames_of(graph: Any) -> list[Frame]:
    """The frames of a trace, or of the graph behind a Value: leaves, forward, seed, backward.

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> b = a * a
    >>> b.backward()
    >>> [frame.lines[1] for frame in frames_of(b)][1:3]
    ['v1 = a² = 9', 'backward begins at v1: its gradient is 1']
    """
    view = view_of(graph)
    frames: list[Frame] = []
    known = {n.index for n in view.nodes if n.is_leaf}
    _add(frames, "Forward", "the leaves are given", known)
    for node in view.nodes:
        if not node.is_leaf:
            known = known | {node.index}
            live = {(e.target, e.position) for e in node.edges}
            text = f"{node.name} = {view.computed_as(node)} = {view.value_text(node)}"
            _add(frames, "Forward", text, known, focus=node.index, live=live)
    if view.swept:
        _backward(view, frames, known)
    frames[-1].last = True
    for frame in frames:
        frame.steps = len(frames) - 1
        frame.lines[0] = f"step {frame.step} of {frame.steps} · {frame.lines[0]}"
    widest = max(len(line) for frame in frames for line in frame.lines)
    for frame in frames:
        frame.widest = widest
    return frames


def _add(frames: list[Frame], phase: str, text: str, known: set[int], **more: Any) -> None:
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    frames.append(Frame(len(frames), 0, [phase, text], known, **more))


def _backward(view: GraphView, frames: list[Frame], known: set[int]) -> None:
    root = view.nodes[view.root]
    total: dict[int, Any] = {view.root: root.grad}
    text = f"backward begins at {root.name}: its gradient is {view.grad_text(root)}"
    _add(frames, "Backward", text, known, focus=view.root, grads=_texts(total))
    missing = list(view.uses)  # contributions that are still missing
    for index in view.visits:
        node = view.nodes[index]
        live = set()
        said = []
        for edge in node.edges:
            source = view.nodes[edge.source]
            missing[edge.source] -= 1
            if edge.pushed is None or not source.needs_grad:
                continue
            live.add((edge.target, edge.position))
            before = total.get(edge.source)
            total[edge.source] = edge.pushed if before is None else _sum(before, edge.pushed)
            said.append(f"{_pushed(view, node, edge.slope, edge.pushed)} to {source.name}")
        text = f"{node.name} hands on {', '.join(said) or 'nothing'}"
        _add(frames, "Backward", text, known, focus=index, live=live, grads=_texts(total, missing))


def _pushed(view: GraphView, node: ViewNode, slope: float | None, pushed: Any) -> str:
    """`0.5 × −3 = −1.5`: gradient times local derivative."""
    if view.scalar and slope is not None and node.grad is not None:
        return f"{number(node.grad)} × {number(slope)} = {amount(pushed)}"
    return amount(pushed)


def _sum(one: Any, other: Any) -> Any:
    """Add contributions; None where only statistics were kept."""
    plain = (int, float, np.ndarray, np.generic)
    known = isinstance(one, plain) and isinstance(other, plain)
    return np.add(one, other) if known else None


def _texts(total: dict[int, Any], missing: list[int] | None = None) -> dict[int, str]:
    texts = {index: amount(grad) for index, grad in total.items()}
    for index, text in texts.items():
        if missing is not None and missing[index] > 0:
            texts[index] = f"{text} + …"
    return texts
