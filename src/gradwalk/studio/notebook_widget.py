"""The studio as an anywidget; imported only if anywidget is installed and a widget is created.

The page is in a frame; `web/src/widget.ts` creates it and synchronizes the traits below with
Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from gradwalk.printers.graphs.plain_data import jsonable
from gradwalk.studio.notebook import HEIGHT, frame_html
from gradwalk.studio.pages import widget_module


class StudioWidget(anywidget.AnyWidget):
    """A graph in the studio, as the output of a cell; its state can be read and set.

    `w.observe(function, "position")` calls a function whenever the page moves.
    """

    _esm = widget_module()
    _page = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(HEIGHT, min=1).tag(sync=True)  # pixels
    position = traitlets.Int(0, min=0).tag(sync=True)  # steps done
    steps = traitlets.Int(0).tag(sync=True)  # how many there are; the page says it
    selection = traitlets.Unicode().tag(sync=True)  # "n", an edge "n.0", a path "o>n>w1"
    # The leaves' numbers by name; NaN and infinity are sent as text, because JSON lacks them.
    values = traitlets.Dict().tag(
        sync=True,
        to_json=lambda values, widget: jsonable(values),
        from_json=lambda values, widget: values,
    )

    @traitlets.validate("values")
    def _numbers(self, proposal: Mapping[str, Any]) -> dict[str, float]:
        try:
            return {str(name): float(value) for name, value in proposal["value"].items()}
        except (TypeError, ValueError) as error:
            raise traitlets.TraitError(
                f"values are numbers by the leaves' names: {error}"
            ) from None

    def __repr__(self) -> str:
        return f"<{self.title} in the studio: step {self.position}>"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        # A viewer without widgets (a static export of the notebook) shows the frame alone.
        data, metadata = bundle
        return {**data, "text/html": frame_html(self._page, self.title, self.height)}, metadata
