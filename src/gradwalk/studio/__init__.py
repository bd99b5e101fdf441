"""The studio: walk any graph in the browser. docs/studio/using.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwalk.studio.exporting import Exported
    from gradwalk.studio.launch import Shown
    from gradwalk.studio.notebook import StudioFrame
    from gradwalk.studio.notebook_widget import StudioWidget

__all__ = ["export", "show", "widget"]

# Each function imports what it needs when it is called: training needs none of it.


def show(
    loss: Any = None,
    title: str | None = None,
    *,
    open_browser: bool = True,
    wait: bool = False,
    port: int | None = None,
) -> Shown:
    """Open the studio on a loss (a Value or a Tensor) or a trace; without one, the last recording.

    The first call starts a server on this machine, in a thread of this program; further calls add
    to it. The address is printed, and opened in the browser if there is one. The result has the
    address as `.url`; `.stop()` removes the graph. With `wait=True` a script waits until Ctrl+C.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0, label="a")
    >>> shown = gw.studio.show(a * a, "a square", open_browser=False, port=0)
    a square: http://127.0.0.1:...
    >>> shown.stop()
    """
    from gradwalk.studio.launch import show as show_it

    return show_it(loss, title, open_browser=open_browser, wait=wait, port=port)


def export(
    loss: Any,
    path: str | os.PathLike[str],
    title: str | None = None,
    *,
    budget: int | None = None,
) -> Exported:
    """Write one HTML file that holds the studio and a graph, and needs no network and no Python.

    Graphs of numbers stay live; graphs of tensors replay the recording. `budget` limits the bytes
    of arrays (8 MiB); arrays beyond it are reduced to statistics.

    >>> import gradwalk as gw, pathlib, tempfile
    >>> a = gw.Value(3.0, label="a")
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "square.html"
    >>> gw.studio.export(a * a, page).left_out
    0
    """
    from gradwalk.studio.exporting import BUDGET
    from gradwalk.studio.exporting import export as export_it

    return export_it(loss, path, title, budget=BUDGET if budget is None else budget)


def widget(
    what: Any = None,
    title: str | None = None,
    *,
    values: Mapping[str, float] | None = None,
    height: int = 640,
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
    from gradwalk.studio.notebook import BUDGET
    from gradwalk.studio.notebook import widget as show_it

    return show_it(what, title, values, height, BUDGET if budget is None else budget)
