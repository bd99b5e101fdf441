"""The studio: walk any graph in the browser. docs/studio/using.md."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwalk.studio.exporting import export
    from gradwalk.studio.launch import show
    from gradwalk.studio.notebook import widget

__all__ = ["export", "show", "widget"]

_PLACES = {"export": "exporting", "show": "launch", "widget": "notebook"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when it is used: training needs none of it.
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
