"""What an engine lacks or does wrong, told from the exceptions it raises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwalk.course.checker.outcomes import NOT_TRIED, Mistake, Outcome, mistake, raised
from gradwalk.course.checker.process import Failure
from gradwalk.course.checker.runner import OPERATIONS
from gradwalk.course.checker.trials import SPELLED

# The operators have methods of their own names; exp, tanh and relu are called by theirs.
METHOD = {op: f"__{f.__name__}__" for op, f in OPERATIONS.items() if f.__name__ != "<lambda>"}
MOST = 3  # exceptions that are reported
_IN_A_WALK = ("recursion-limit", "plain-recursion", "every-path", "calls-itself")
_NO_VALUE = re.compile(r"'(int|float)' object has no attribute")
_RETURNED = re.compile(
    r"'(int|float|bool|NoneType)' object has no attribute '(data|grad|backward)'"
)
# What an engine may lack, told from an exception.
LACKS = ("unwritten", "no-backward", "missing", "no-reflected", "no-numbers", "calls-itself")


_OF_NUMBERS = ("ZeroDivisionError", "OverflowError", "ValueError")
# Exceptions whose cause is plain, by what their message has in it.
_PLAIN = {
    "called-at-once": "'NoneType' object is not callable",
    "unhashable": "unhashable type: 'Value'",
    "wraps-values": ".data is Value, not a number",
    "gradient-is-value": ".grad is Value, not a number",
}


class Causes(NamedTuple):
    """Mistakes that exceptions tell, and the ops that go wrong because of them."""

    mistakes: list[Mistake]
    ops: frozenset[str]


# -- what an operation returns ---------------------------------------------------------------------


def wrong_results(outcomes: Sequence[Outcome]) -> Causes:
    """Operations that return nothing, or a plain number: graphs of one operation tell."""
    returned: dict[str, dict[str, Outcome]] = {"returns nothing": {}, "returns number": {}}
    for outcome in outcomes:
        failure = outcome.failure
        told = _RETURNED.match(failure.message) if failure and failure.phase != "forward" else None
        if failure is None or told is None or failure.step != len(outcome.trial.steps) - 1:
            continue
        name = "returns nothing" if told[1] == "NoneType" else "returns number"
        returned[name].setdefault(outcome.trial.steps[-1][0], outcome)
    mistakes = [
        next(iter(found.values())).shows(name, shown=", ".join(map(spelled, found)))
        for name, found in returned.items()
        if found
    ]
    return Causes(mistakes, frozenset(op for found in returned.values() for op in found))


def spelled(op: str) -> str:
    """An operation as a person writes it: `a/b`."""
    return SPELLED[op].format("a", "n" if op == "power" else "b")


# -- what the class lacks --------------------------------------------------------------------------


def not_written(outcomes: Sequence[Outcome], known: frozenset[str]) -> Iterator[Mistake]:
    """Methods that the class lacks, or has and does not finish; `known` ops are explained."""
    lacking: dict[str, dict[str, Outcome]] = {key: {} for key in LACKS}
    for outcome in outcomes:
        key, method = _lack(outcome)
        if key == "unwritten" or (key and not outcome.trial.ops & known):
            lacking[key].setdefault(method, outcome)
    # Without a + b and 1 + a, only the first is reported: it comes first.
    for method in [*lacking["missing"], *lacking["unwritten"]]:
        lacking["no-reflected"].pop(method, None)
        lacking["no-numbers"].pop(method, None)
    for key, examples in lacking.items():
        if examples:
            yield next(iter(examples.values())).shows(
                key,
                methods=", ".join(examples),
                reflected=", ".join(name.replace("__", "__r", 1) for name in examples),
                line=min(o.failure.line for o in examples.values() if o.failure is not None),
            )


def _lack(outcome: Outcome) -> tuple[str, str]:
    """What is missing, told from an exception: a key of LACKS and the method, or "" twice."""
    failure = outcome.failure
    if failure is None:
        return "", ""
    if failure.kind == "NotImplementedError":
        return "unwritten", failure.function or "a method"
    no_backward = failure.phase == "backward" and "has no attribute 'backward'" in failure.message
    if no_backward and not _RETURNED.match(failure.message):
        return "no-backward", "backward"
    if failure.kind == "RecursionError" and failure.phase == "forward" and failure.step < 10:
        return "calls-itself", failure.function or "a method"
    op, *operands = outcome.trial.steps[failure.step]
    unusable = failure.phase == "forward" and failure.kind in ("TypeError", "AttributeError")
    if not unusable or op == "leaf":
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


# -- the rest --------------------------------------------------------------------------------------


def raised_otherwise(
    outcomes: Sequence[Outcome], before: list[Mistake], known: frozenset[str]
) -> list[Mistake]:
    """Other exceptions, each once; those that a named mistake explains are left out."""
    stopped = next((o for o in outcomes if o.ended and o.ended != NOT_TRIED), None)
    if stopped is not None and not before:
        return [stopped.shows("stops")]
    recursion_is_named = any(one.key in _IN_A_WALK for one in before)
    off = {one.key.partition("-")[2] for one in before if one.key.startswith("value-")}
    changed = any(one.key == "data" for one in before)
    if any(one.key == "loop-variable" for one in before):
        off |= {"exp", "tanh", "relu"}
    mistakes: dict[tuple[str, int, str], Mistake] = {}
    for outcome in outcomes:
        failure = outcome.failure
        if failure is None or _lack(outcome)[0] or outcome.trial.ops & known:
            continue
        if failure.kind == "RecursionError" and recursion_is_named:
            continue
        if failure.kind in _OF_NUMBERS and (changed or outcome.trial.ops & off):
            continue
        if "unsupported operand" in failure.message and any(m.key == "missing" for m in before):
            continue
        # The message may have numbers in it that differ between graphs.
        what = (failure.kind, failure.line, "" if failure.line else failure.message)
        mistakes.setdefault(what, _exception(outcome, failure))
    named = {one.key: one for one in reversed(mistakes.values()) if one.key != "raises"}
    if "wraps-values" in named:  # the rest is what a number in a number leads to
        return [one for key, one in named.items() if key != "gradient-is-value"]
    others = [one for one in mistakes.values() if one.key == "raises"]
    return [*named.values(), *others][:MOST]


def _exception(outcome: Outcome, failure: Failure) -> Mistake:
    """An exception by a name of its own, if what causes it is plain."""
    for name, message in _PLAIN.items():
        if message in failure.message:
            return outcome.shows(name)
    phase = "backward() " if failure.phase == "backward" else ""
    text = f"{outcome.trial.text}: {phase}{raised(failure)}."
    return mistake("raises", kind=failure.kind, raised=text)
