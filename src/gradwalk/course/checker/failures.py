"""Exceptions in a learner's code: missing methods, and other errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwalk.course.checker.outcomes import NOT_TRIED, Mistake, Outcome, raised

METHOD = {
    "add": "__add__",
    "sub": "__sub__",
    "mul": "__mul__",
    "div": "__truediv__",
    "neg": "__neg__",
    "power": "__pow__",
}
MOST = 3  # exceptions that are reported
_IN_A_WALK = ("recursion-limit", "plain-recursion", "every-path")  # which explain RecursionError
_NO_VALUE = re.compile(r"'(int|float)' object has no attribute")
# Title and text by key; they name the missing methods, their reflected forms, an example, a line.
LACKS = {
    "unwritten": (
        "is not finished",
        "NotImplementedError in {methods}, first in line {line}.",
    ),
    "no-backward": ("has no backward", "The class Value has no method backward()."),
    "missing": ("has no {methods}", "{example}"),
    "no-reflected": (
        "does not take a number on the left",
        "{example} With a number on the left Python asks the right side: write {reflected}.",
    ),
    "no-numbers": (
        "does not take plain numbers",
        "{example} A number is not a Value: make it one first.",
    ),
}


def not_written(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """Methods that the class lacks, or has and does not finish."""
    lacking: dict[str, dict[str, Outcome]] = {key: {} for key in LACKS}
    for outcome in outcomes:
        key, method = _lack(outcome)
        if key:
            lacking[key].setdefault(method, outcome)
    # Without a + b and 1 + a, only the first is reported: it comes first.
    for method in [*lacking["missing"], *lacking["unwritten"]]:
        lacking["no-reflected"].pop(method, None)
        lacking["no-numbers"].pop(method, None)
    mistakes = []
    for key, (title, text) in LACKS.items():
        if examples := lacking[key]:
            words = {
                "methods": ", ".join(examples),
                "reflected": ", ".join(name.replace("__", "__r", 1) for name in examples),
                "example": next(iter(examples.values())).in_words(),
                "line": min(o.failure.line for o in examples.values() if o.failure is not None),
            }
            mistakes.append(Mistake(key, title.format(**words), text.format(**words)))
    return mistakes


def _lack(outcome: Outcome) -> tuple[str, str]:
    """What is missing, told from an exception: a key of LACKS and the method, or "" twice."""
    failure = outcome.failure
    if failure is None:
        return "", ""
    if failure.kind == "NotImplementedError":
        return "unwritten", failure.function or "a method"
    if failure.phase == "backward" and "has no attribute 'backward'" in failure.message:
        return "no-backward", "backward"
    op, *operands = outcome.trial.steps[failure.step]
    if failure.phase != "forward" or failure.kind not in ("TypeError", "AttributeError"):
        return "", ""
    if op == "leaf":
        return "", ""
    method = METHOD.get(op, op)
    if _NO_VALUE.match(failure.message):
        return "no-numbers", method
    if failure.function not in ("", "<module>"):  # the method exists, and fails
        return "", ""
    if op in METHOD and not isinstance(operands[0], tuple):
        return "no-reflected", method
    if op != "power" and not isinstance(operands[-1], tuple):
        return "no-numbers", method
    return "missing", method


def raised_otherwise(outcomes: Sequence[Outcome], before: list[Mistake]) -> list[Mistake]:
    """Other exceptions, each once; those that a named mistake explains are left out."""
    stopped = next((o for o in outcomes if o.ended and o.ended != NOT_TRIED), None)
    if stopped is not None and not before:
        return [Mistake("stops", "does not come to an end", stopped.in_words())]
    recursion_is_named = any(mistake.key in _IN_A_WALK for mistake in before)
    mistakes: dict[tuple[str, int, str], Mistake] = {}
    for outcome in outcomes:
        failure = outcome.failure
        if failure is None or _lack(outcome)[0]:
            continue
        if failure.kind == "RecursionError" and recursion_is_named:
            continue
        phase = "backward() " if failure.phase == "backward" else ""
        text = f"{outcome.trial.text}: {phase}{raised(failure)}."
        # The message may have numbers in it that differ between graphs.
        what = (failure.kind, failure.line, "" if failure.line else failure.message)
        mistakes.setdefault(what, Mistake("raises", f"raises {failure.kind}", text))
    return list(mistakes.values())[:MOST]
