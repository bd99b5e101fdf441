"""The notebook display of a Value: its numbers, and its graph if that is small."""

from __future__ import annotations

from html import escape
from typing import Any

from gradwalk.printers.graphs.svg import graph_svg

MOST = 40  # nodes that are drawn by default


def value_html(value: Any) -> str:
    """HTML for a Value; a large graph is detected without a full walk and only mentioned.

    >>> from gradwalk import Value
    >>> "<svg" in value_html(Value(2.0) * 3), "<svg" in value_html(Value(2.0))
    (True, False)
    """
    text = f'<code class="gradwalk">{escape(repr(value))}</code>'
    if not value.inputs:
        return text
    if not _is_small(value):
        return f"{text} <small>of more than {MOST} nodes: gradwalk.show(value) draws them</small>"
    return f"<div>{text}</div>{scrolled(graph_svg(value))}"


def scrolled(svg: str) -> str:
    """A drawing that scrolls where it is wider than the page."""
    return f'<div style="overflow-x:auto">{svg}</div>'


def _is_small(value: Any) -> bool:
    seen = {id(value)}
    stack = [value]
    while stack:
        for source in stack.pop().inputs:
            if id(source) not in seen:
                seen.add(id(source))
                if len(seen) > MOST:
                    return False
                stack.append(source)
    return True
