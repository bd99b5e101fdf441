"""Exceptions in a learner's code: what the class lacks, and what simply goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gradwalk.course.checker.outcomes import NOT_TRIED, Mistake, Outcome, raised

METHOD = {
    "add": "__add__",
    "sub": "__sub__",
    "mul": "__mul__",
    "div": "__truediv__",
    "neg": "__neg__",
    "power": "__pow__",
}
MOST = 3  # exceptions told about
_IN_A_WALK = ("recursion-limit", "plain-recursion", "every-path")  # which explain RecursionError
_NO_VALUE = re.compile(r"'(int|float)' object has no attribute")


def not_written(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """What the class does not have, or has and does not finish."""
    lacking: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        what = _lack(outcome)
        if what is not None:
            lacking.setdefault(what[0], {}).setdefault(what[1], outcome)
    # With neither a + b nor 1 + a, the first is what to write first.
    without = lacking.get("missing", {}).keys() | lacking.get("unwritten", {}).keys()
    for key in ("no-reflected", "no-numbers"):
        found = lacking.get(key, {})
        lacking[key] = {name: found[name] for name in found if name not in without}
    return [_SAID[key](lacking[key]) for key in _SAID if lacking.get(key)]


def _lack(outcome: Outcome) -> tuple[str, str] | None:
    """What an exception shows to be absent: the key of the mistake, and of which method."""
    failure = outcome.failure
    if failure is None:
        return None
    if failure.kind == "NotImplementedError":
        return "unwritten", failure.function or "a method"
    if failure.phase == "backward" and "has no attribute 'backward'" in failure.message:
        return "no-backward", "backward"
    if failure.phase != "forward" or failure.kind not in ("TypeError", "AttributeError"):
        return None
    op, *operands = outcome.trial.steps[failure.step]
    if op == "leaf":
        return None
    if _NO_VALUE.match(failure.message):
        return "no-numbers", METHOD.get(op, op)
    if failure.function not in ("", "<module>"):  # it is there, and does something wrong
        return None
    if op in METHOD and not isinstance(operands[0], tuple):
        return "no-reflected", METHOD[op]
    if op != "power" and not isinstance(operands[-1], tuple):
        return "no-numbers", METHOD[op]
    return "missing", METHOD.get(op, op)


def _unwritten(found: dict[str, Outcome]) -> Mistake:
    first = min(o.failure.line for o in found.values() if o.failure is not None)
    text = f"NotImplementedError in {', '.join(found)}, first in line {first}."
    return Mistake("unwritten", "is not finished", text)


def _no_backward(found: dict[str, Outcome]) -> Mistake:
    return Mistake("no-backward", "has no backward", "The class Value has no method backward().")


def _missing(found: dict[str, Outcome]) -> Mistake:
    return Mistake("missing", f"has no {', '.join(found)}", _first(found))


def _no_reflected(found: dict[str, Outcome]) -> Mistake:
    methods = ", ".join(name.replace("__", "__r", 1) for name in found)
    text = f"{_first(found)} With a number on the left Python asks the right side: write {methods}."
    return Mistake("no-reflected", "does not take a number on the left", text)


def _no_numbers(found: dict[str, Outcome]) -> Mistake:
    text = f"{_first(found)} A number is not a Value: make it one first."
    return Mistake("no-numbers", "does not take plain numbers", text)


def _first(found: dict[str, Outcome]) -> str:
    return next(iter(found.values())).in_words()


_SAID: dict[str, Callable[[dict[str, Outcome]], Mistake]] = {
    "unwritten": _unwritten,
    "no-backward": _no_backward,
    "missing": _missing,
    "no-reflected": _no_reflected,
    "no-numbers": _no_numbers,
}


def raised_otherwise(outcomes: Sequence[Outcome], before: list[Mistake]) -> list[Mistake]:
    """Other exceptions, each once; those that a named mistake explains are left out."""
    recursion_is_named = any(mistake.key in _IN_A_WALK for mistake in before)
    found: dict[tuple[str, int, str], Mistake] = {}
    for outcome in outcomes:
        failure = outcome.failure
        if failure is None or _lack(outcome) is not None:
            continue
        if failure.kind == "RecursionError" and recursion_is_named:
            continue
        phase = "backward() " if failure.phase == "backward" else ""
        text = f"{outcome.trial.text}: {phase}{raised(failure)}."
        # The message may have numbers in it, which are others in every graph.
        what = (failure.kind, failure.line, "" if failure.line else failure.message)
        found.setdefault(what, Mistake("raises", f"raises {failure.kind}", text))
    stopped = next((o for o in outcomes if o.ended and o.ended != NOT_TRIED), None)
    if stopped is not None and not before:
        return [Mistake("stops", "does not come to an end", stopped.in_words())]
    return list(found.values())[:MOST]
