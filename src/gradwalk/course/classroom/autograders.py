"""The files that grading services need to run the checker: one function for each service."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gradwalk import __version__
from gradwalk.course.checker.grading import starter
from gradwalk.course.checker.trials import OUT_OF, STAGES, Stage

FILE = "engine.py"
_REQUIRED = f"gradwalk=={__version__}"


def for_gradescope() -> dict[str, str]:
    """The files of a Gradescope autograder: zip them and upload the zip."""
    setup = f"""\
#!/usr/bin/env bash
set -e
apt-get update
apt-get install -y python3 python3-venv
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install '{_REQUIRED}'
"""
    run = f"""\
#!/usr/bin/env bash
# Exit status 1 means that points are missing, which is a result and no failure.
/autograder/venv/bin/gradwalk course check /autograder/submission/{FILE} --gradescope \\
    > /autograder/results/results.json || [ $? -eq 1 ]
"""
    return {"setup.sh": setup, "run_autograder": run}


def for_github() -> dict[str, str]:
    """A workflow for GitHub Actions, and the test of GitHub Classroom's own autograding."""
    workflow = f"""\
name: Check the engine
on: [push, workflow_dispatch]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install '{_REQUIRED}'
      - name: Points by part
        run: gradwalk course check {FILE} --csv || true
      - name: Check the engine
        run: gradwalk course check {FILE}
"""
    test = {
        "name": "Write the engine",
        "setup": f"pip install '{_REQUIRED}'",
        "run": f"gradwalk course check {FILE}",
        "input": "",
        "output": "",
        "comparison": "included",
        "timeout": 5,
        "points": OUT_OF,
    }
    listed = json.dumps({"tests": [test]}, indent=2) + "\n"
    return {
        ".github/workflows/classroom.yml": workflow,
        ".github/classroom/autograding.json": listed,
    }


def for_otter() -> dict[str, str]:
    """A notebook for otter-grader, and a test file for each part."""
    cells = [*_cells(), _code("import otter\n\ngrader = otter.Notebook()")]
    for stage in STAGES:
        cells.append(_markdown(f"### {stage.title.capitalize()} ({stage.points} points)"))
        cells.append(_code(f'grader.check("{stage.key}")'))
    tests = {f"tests/{stage.key}.py": _otter_test(stage) for stage in STAGES}
    return {"engine.ipynb": _notebook(cells), **tests}


def _otter_test(stage: Stage) -> str:
    return f'''\
from otter.test_files import test_case

OK_FORMAT = False

name = "{stage.key}"
points = {stage.points}


@test_case(points={stage.points}, hidden=False)
def test_{stage.key}():
    from gradwalk.course.classroom.notebooks import require

    require("{stage.key}")
'''


def for_nbgrader() -> dict[str, str]:
    """An assignment for nbgrader: its grading cells give partial credit."""
    first, solution = _cells()
    cells = [first, _graded(solution, "engine", 0, solution=True)]
    for stage in STAGES:
        cells.append(_markdown(f"### {stage.title.capitalize()} ({stage.points} points)"))
        lines = "from gradwalk.course.classroom.notebooks import stage_points"
        test = _code(f'{lines}\n\nstage_points("{stage.key}")')
        cells.append(_graded(test, f"check-{stage.key}", stage.points, solution=False))
    return {"source/engine/engine.ipynb": _notebook(cells)}


# -- notebooks -------------------------------------------------------------------------------------


def _cells() -> tuple[dict[str, Any], dict[str, Any]]:
    said = (
        "# Write the engine\n\nThe next cell writes the file that is checked. Edit it, run it, and "
        "run the cells below."
    )
    return _markdown(said), _code(f"%%writefile {FILE}\n{starter()}")


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "metadata": {}, "source": text, **empty}


def _graded(cell: dict[str, Any], name: str, points: int, solution: bool) -> dict[str, Any]:
    about = {
        "schema_version": 3,
        "grade_id": name,
        "grade": not solution,
        "solution": solution,
        "locked": not solution,
        "task": False,
    }
    if not solution:
        about["points"] = points
    return {**cell, "metadata": {"nbgrader": about}}


def _notebook(cells: list[dict[str, Any]]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    numbered = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells)]
    notebook = {
        "cells": numbered,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


SERVICES: dict[str, Callable[[], dict[str, str]]] = {
    "gradescope": for_gradescope,
    "github": for_github,
    "nbgrader": for_nbgrader,
    "otter": for_otter,
}
