"""The notebook runs from top to bottom, and what it shows is rich: tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "inside.ipynb"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Jupyter's own, about its event loop and file permissions
def test_the_notebook_runs_and_shows() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [displays(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert len(shown) > 8
    for number, kinds in enumerate(shown):
        assert kinds & {"text/html", "image/svg+xml"}, f"code cell {number} shows {kinds}"
    drawn = [cell.source for cell in notebook.cells if "<svg" in str(cell.get("outputs"))]
    for question in (
        "gw.show(o)",
        "walk\n",
        "gw.why(w1",
        "gw.why(model",
        "gw.health",
        "gw.show(trace)",
    ):
        assert any(question in f"{source}\n" for source in drawn), f"no picture for {question}"


def displays(cell: Any) -> set[str]:
    """The kinds of output of a cell; an error raises."""
    assert not any(o.output_type == "error" for o in cell.outputs)
    return {kind for o in cell.outputs for kind in o.get("data", {})}


def test_the_notebook_is_kept_without_outputs() -> None:
    import nbformat

    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)
