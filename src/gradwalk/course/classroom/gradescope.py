"""A grade as Gradescope's results.json."""

from __future__ import annotations

from typing import Any

from gradwalk.course.checker.grading import CheckedFile, CheckedStage


def gradescope(checked: CheckedFile) -> dict[str, Any]:
    """The results.json of one file: a test for each part, and the mistakes as the output."""
    said = checked.reason or "\n\n".join(f"It {m.title}.\n{m.text}" for m in checked.mistakes)
    tests = [_test(stage) for stage in checked.stages]
    return {
        "score": checked.points,
        "max_score": checked.out_of,
        "output": said or "All parts are right.",
        "output_format": "text",
        "visibility": "visible",
        "tests": tests,
    }


def _test(stage: CheckedStage) -> dict[str, Any]:
    return {
        "name": stage.title,
        "score": stage.points,
        "max_score": stage.out_of,
        "status": "passed" if stage.points == stage.out_of else "failed",
        "output": f"{stage.right} of {stage.tried} graphs are right.",
        "visibility": "visible",
    }
