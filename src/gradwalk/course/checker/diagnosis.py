"""Name what an engine does wrong: each cause once, and not its consequences.

The names come from `gradwalk.inspect.mistakes`: wrong rules are tried on single operations, wrong
walks on graphs of + and ·, whose local derivatives are known to be right by then. Exceptions tell
which methods are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradwalk.course.checker.outcomes import (
    NOT_TRIED,
    SLOW,
    TOLERANCE,
    Mistake,
    Outcome,
    close,
    mistake,
    raised,
)
from gradwalk.course.checker.runner import OPERATIONS
from gradwalk.course.checker.trials import SPELLED
from gradwalk.inspect.mistakes.diagnosis import Evidence, Slope, fits, wrong_rule
from gradwalk.inspect.mistakes.diagnosis import diagnose as diagnose_numbers
from gradwalk.inspect.mistakes.wrong_walks import first_early_visit, walk_that_fits

# Ops often built from others, a + (−b) and a·b**−1: one mistake is not reported twice.
_MADE_OF = {"sub": "neg", "div": "power"}
_BASIC = ("add", "mul")  # every other graph uses them
# The operators have methods of their own names; exp, tanh and relu are called by theirs.
METHOD = {op: f"__{f.__name__}__" for op, f in OPERATIONS.items() if f.__name__ != "<lambda>"}
MOST = 3  # exceptions that are reported
_IN_A_WALK = ("recursion-limit", "plain-recursion", "every-path")  # which explain RecursionError
_NO_VALUE = re.compile(r"'(int|float)' object has no attribute")


def diagnose(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """List the mistakes, the first cause first; empty if everything is right."""
    if all(outcome.right for outcome in outcomes):
        return []
    stages: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        stages.setdefault(outcome.trial.stage, []).append(outcome)
    mistakes = [*_not_written(outcomes), *_wrong_values(stages["values"])]
    if not any(one.key == "no-backward" for one in mistakes):
        mistakes += _wrong_gradients(stages, {one.key for one in mistakes})
    mistakes += _raised_otherwise(outcomes, mistakes)
    return mistakes or [_smallest(o for o in outcomes if not o.right).shows("somewhere")]


def _wrong_gradients(stages: dict[str, list[Outcome]], before: set[str]) -> list[Mistake]:
    seed = _wrong_seed(stages["locals"])
    if seed is not None:
        return [seed]
    mistakes = list(_wrong_locals(stages["locals"], before))
    known = before.union(one.key for one in mistakes)
    if known & {f"{what}-{op}" for op in _BASIC for what in ("value", "derivative")}:
        return mistakes  # nothing made of these can be right
    walk = _wrong_walk([*stages["adding"], *stages["order"]])
    mistakes += walk or _wrong_again(stages["again"])
    if not any(one.key == "plain-recursion" for one in walk):
        mistakes += _wrong_on_long(stages["long"], bool(walk))
    return mistakes


def _smallest(outcomes: Iterable[Outcome]) -> Outcome:
    return min(outcomes, key=lambda outcome: len(outcome.trial.steps))


# -- exceptions ------------------------------------------------------------------------------------

# What an engine may lack, told from an exception.
LACKS = ("unwritten", "no-backward", "missing", "no-reflected", "no-numbers")


def _not_written(outcomes: Sequence[Outcome]) -> Iterator[Mistake]:
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
    if failure.phase == "backward" and "has no attribute 'backward'" in failure.message:
        return "no-backward", "backward"
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


def _raised_otherwise(outcomes: Sequence[Outcome], before: list[Mistake]) -> list[Mistake]:
    """Other exceptions, each once; those that a named mistake explains are left out."""
    stopped = next((o for o in outcomes if o.ended and o.ended != NOT_TRIED), None)
    if stopped is not None and not before:
        return [stopped.shows("stops")]
    recursion_is_named = any(one.key in _IN_A_WALK for one in before)
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
        mistakes.setdefault(what, mistake("raises", kind=failure.kind, raised=text))
    return list(mistakes.values())[:MOST]


# -- values ----------------------------------------------------------------------------------------


def _wrong_values(outcomes: list[Outcome]) -> list[Mistake]:
    mistakes: dict[str, Mistake] = {}
    for outcome in outcomes:
        op, first, *_ = outcome.trial.steps[-1]
        for difference in outcome.differences:
            name, key, shown = "value", f"value-{op}", outcome.trial.step_text(-1)
            if difference.what == "gradient":
                name = key = "first-gradient"
            elif difference.node < len(outcome.trial.steps) - 1:
                name = key = "data"
            elif key in mistakes or f"value-{_MADE_OF.get(op)}" in mistakes:
                continue
            elif not isinstance(first, tuple):  # a number on the left, as in 2 − a and 6/a
                key = f"value-r{op}"
                a, f = outcome.of("a", "value"), outcome.of("f", "value")
                exchanged = a - first if op == "sub" else a / first if op == "div" else np.nan
                name = "value exchanged" if close(f, exchanged) else "value"
            mistakes.setdefault(key, outcome.shows(name, key, shown=shown))
    return list(mistakes.values())


# -- local derivatives -----------------------------------------------------------------------------


def _wrong_seed(outcomes: list[Outcome]) -> Mistake | None:
    """Whether the walk begins with another gradient of the root than 1."""
    told = [o for o in outcomes if o.numbers is not None]
    unlike_one = [o for o in told if not close(o.of("f"), 1.0)]
    if not unlike_one:
        return None
    if all(close(o.of("f"), o.of("f", "value")) for o in told):
        return unlike_one[0].shows("no-seed value")
    nothing = all(close(o.of("a"), 0.0) for o in told)
    return unlike_one[0].shows("no-seed nothing" if nothing else "no-seed other")


def _wrong_locals(outcomes: list[Outcome], before: set[str]) -> Iterator[Mistake]:
    """Local derivatives: ops that others are built from first, Values before numbers."""
    tried: dict[tuple[str, str, int], list[Outcome]] = {}
    for outcome in outcomes:
        op, *operands = outcome.trial.steps[-1]
        form = "".join("v" if isinstance(operand, tuple) else "n" for operand in operands)
        for argument, kind in enumerate(form if outcome.numbers is not None else ""):
            if kind == "v":
                tried.setdefault((op, form, argument), []).append(outcome)
    ranks = {**dict.fromkeys(_MADE_OF.values(), 1), **dict.fromkeys(_BASIC, 0)}
    rules: dict[str, tuple[str, Slope] | None] = {}
    for op, form, argument in sorted(tried, key=lambda k: (ranks.get(k[0], 2), _with_number(*k))):
        evidence = _evidence(op, argument, tried[op, form, argument])
        pairs = zip(tried[op, form, argument], evidence.given, evidence.right)
        wrong = next((outcome for outcome, got, want in pairs if not close(got, want)), None)
        known = op in rules or f"value-{'r' if form[0] == 'n' else ''}{op}" in before
        if wrong is None or known or _is_of_inner(evidence, rules.get(_MADE_OF.get(op, ""))):
            continue
        rule = rules[op] = wrong_rule(evidence)
        shown = SPELLED[op].format("a", "n" if op == "power" else "b")
        if _with_number(op, form):
            shown = wrong.trial.step_text(len(wrong.trial.steps) - 1)
        if rule is not None:
            name = "ab"[argument] if form == "vv" else "a"
            reason = f" Your local derivative of {shown} for {name} is {rule[0]}."
        else:
            given, right = evidence.given, evidence.right
            named = diagnose_numbers(given, right, atol=TOLERANCE, rtol=TOLERANCE)
            reason = f" That is {named}" if named else ""
        yield wrong.shows("derivative", f"derivative-{op}", shown=shown, reason=reason)
        if op in _BASIC:
            break


def _with_number(op: str, form: str, argument: int = 0) -> bool:
    return "n" in form and op != "power"


def _evidence(op: str, argument: int, outcomes: list[Outcome]) -> Evidence:
    """The local derivative of an op for one of its inputs, wherever it was tried."""
    rows = []
    for outcome in outcomes:
        trial, operands = outcome.trial, outcome.trial.steps[-1][1:]
        numbers = [
            outcome.of(trial.names[x[0]], "value") if isinstance(x, tuple) else x for x in operands
        ]
        node = operands[argument][0]
        got, want = outcome.of(trial.names[node]), trial.expected[2 * node + 1]
        rows.append((got, want, outcome.of("f", "value"), *(*numbers, 0.0)[:2]))
    got, want, out, *both = np.array(rows, np.float64).T
    about: dict[str, Any] = {"op": op, "argument": argument, "operands": tuple(both)}
    return Evidence(got, want, (), TOLERANCE, TOLERANCE, **about, output=out, g=np.ones(len(rows)))


def _is_of_inner(e: Evidence, rule: tuple[str, Slope] | None) -> bool:
    """Whether it is a consequence of a wrong rule for b in a + (−b) or a·b**−1."""
    if rule is None or e.argument == 0:
        return False
    x, y = e.operands
    if e.op == "sub":
        return fits(replace(e, operands=(y, 0.0), output=-y), rule[1])
    return fits(replace(e, operands=(y, -1.0), output=1 / y, g=x), rule[1])


# -- the walk --------------------------------------------------------------------------------------


def _wrong_walk(outcomes: list[Outcome]) -> list[Mistake]:
    told = [o for o in outcomes if o.trial.ops <= {"add", "mul"} and o.numbers is not None]
    wrong = [o for o in told if o.differences]
    if not wrong:
        return []
    example = _smallest(wrong)
    fitting = walk_that_fits([(o.trial.trace, o.has_gradients) for o in told])
    if fitting is None:
        return [example.shows("adding" if example.trial.stage == "adding" else "order")]
    name, visits = fitting
    if not name.startswith("before-complete"):
        return [example.shows(name)]
    example = _smallest([o for o in wrong if o.trial.stage == "order"] or wrong)
    early = first_early_visit(example.trial.trace, visits[told.index(example)])
    return [example.shows(name, early=f" {early}" if early else "")]


def _wrong_again(outcomes: list[Outcome]) -> list[Mistake]:
    wrong = [o for o in outcomes if o.differences]
    # The numbers of the last call of backward, as if it were the only one?
    alone = [replace(o.trial, calls=o.trial.calls[-1:]).expected for o in wrong]
    cleared = all(all(map(close, o.numbers or (), numbers)) for o, numbers in zip(wrong, alone))
    return [wrong[0].shows("clears-leaves" if cleared else "stale")] if wrong else []


def _wrong_on_long(outcomes: list[Outcome], walk_is_named: bool) -> list[Mistake]:
    """The last of these graphs has many paths, the others are deep."""
    late = [o for o in outcomes if o.ended == SLOW]
    deep = [o for o in outcomes if o.failure and o.failure.kind == "RecursionError"]
    wrong = [o for o in outcomes if o.differences]
    if outcomes[-1].ended == SLOW:
        return [outcomes[-1].shows("every-path")]
    if deep:
        return [mistake("recursion-limit", graph=deep[0].trial.text)]
    if late:
        return [late[0].shows("slow")]
    return [wrong[0].shows("long")] if wrong and not walk_is_named else []
