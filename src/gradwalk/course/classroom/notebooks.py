"""The checker in a notebook: what the cells and tests of otter and nbgrader call."""

from __future__ import annotations

import functools
from pathlib import Path

from gradwalk.course.checker.grading import CheckedFile, check_source


def checked_notebook_file(path: str | Path = "engine.py") -> CheckedFile:
    """Check a file that a cell wrote (`%%writefile engine.py`), once for each version of it."""
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"there is no {path}: run the cell that begins with %%writefile {path}"
        ) from error
    return _checked(source, str(path))


@functools.lru_cache(maxsize=8)
def _checked(source: bytes, name: str) -> CheckedFile:
    return check_source(source, name)


def stage_points(part: str, path: str | Path = "engine.py") -> int:
    """Print what is wrong in a part, and return its points: nbgrader takes them as the score."""
    checked = checked_notebook_file(path)
    if checked.reason:
        print(checked.reason)
        return 0
    stage = next((stage for stage in checked.stages if stage.key == part), None)
    if stage is None:
        parts = ", ".join(stage.key for stage in checked.stages)
        raise ValueError(f"the exercise has no part '{part}'; its parts are {parts}")
    print(f"{stage.title}: {stage.points} of {stage.out_of} points")
    if stage.points < stage.out_of:
        for mistake in checked.mistakes:
            print(f"It {mistake.title}. {mistake.text}")
    return stage.points


def require(part: str, path: str | Path = "engine.py") -> None:
    """Raise unless a part has all of its points: otter takes this as a failed test."""
    points = stage_points(part, path)
    checked = checked_notebook_file(path)
    out_of = next((stage.out_of for stage in checked.stages if stage.key == part), 0)
    assert points == out_of and not checked.reason, f"{part}: {points} of {out_of} points"
