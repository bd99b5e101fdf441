"""The studio inside a notebook.

With anywidget, page and Python exchange state (`notebook_widget.py`); without it the same page runs
alone in a sandboxed frame. See docs/studio/notebook.md.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gradwalk.inspect.expression.parser import parse
from gradwalk.studio.exporting import document_of, document_of_expression
from gradwalk.studio.launch import title_of, trace_of
from gradwalk.studio.pages import TITLE, page

if TYPE_CHECKING:
    from gradwalk.studio.notebook_widget import StudioWidget

HEIGHT = 640
BUDGET = 2 << 20  # bytes of arrays: they are kept in the notebook's file
SYNCED = ("position", "selection", "steps", "values")


class StudioFrame:
    """The page in an isolated frame."""

    def __init__(self, page: str, title: str, height: int) -> None:
        self.page = page
        self.title = title
        self.height = height

    def _repr_html_(self) -> str:
        return frame_html(self.page, self.title, self.height)

    def __repr__(self) -> str:
        return f"<{self.title} in the studio>"

    def __getattr__(self, name: str) -> Any:
        why = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in SYNCED:
            why = f"the page sends its {name} only through anywidget, which is not installed. Fix: "
            why += "pip install 'gradwalk[jupyter]'"
        raise AttributeError(why)


def widget(
    what: Any = None,
    title: str | None = None,
    *,
    values: Mapping[str, float] | None = None,
    height: int = HEIGHT,
    budget: int | None = None,
) -> StudioWidget | StudioFrame:
    """The studio as the output of a notebook's cell: of a loss, a trace, or an expression as text.

    With anywidget (`pip install 'gradwalk[jupyter]'`), `.position`, `.selection` and `.values` can
    be read and set; without it the page runs in a sandboxed frame. `values` are those of an
    expression's names; `height` is in pixels; `budget` as in `export`.

    >>> import gradwalk as gw
    >>> gw.studio.widget("y = x^3 + 5·x", values={"x": 2}).values
    {'x': 2.0}
    """
    kept = BUDGET if budget is None else budget
    document, leaves = _document(what, title, values or {}, kept)
    name = str(document["title"])
    content = page("widget", document=document, title=f"{name[:200]} · {TITLE}")
    if find_spec("anywidget") is None:
        return StudioFrame(content, name, height)
    from gradwalk.studio.notebook_widget import StudioWidget

    return StudioWidget(_page=content, title=name, height=height, values=leaves)


def frame_html(page: str, title: str, height: int) -> str:
    """A page in a sandboxed frame: it can run its script, and reach nothing."""
    return (
        f'<iframe title="{html.escape(title)}" sandbox="allow-scripts" '
        f'style="display:block;width:100%;height:{int(height)}px;border:0" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


def _document(
    what: Any, title: str | None, values: Mapping[str, float], budget: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """The document of the page, and the values of its named leaves."""
    if isinstance(what, str):
        built = parse(what).build(values)
        given = {name: float(built.names[name].data) for name in built.program.leaves}
        return document_of_expression(what, given, title or ""), given
    if values:
        raise TypeError("values= are for an expression: a graph has its numbers already")
    trace = trace_of(what)
    document, _ = document_of(trace, title or title_of(trace), budget)
    leaves = {n.label: n.value for n in trace if trace.scalar and n.is_leaf and n.label}
    return document, leaves
