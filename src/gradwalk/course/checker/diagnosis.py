"""From wrong numbers to words: what an engine does wrong, said once, its consequences left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gradwalk.course.checker.failures import not_written, raised_otherwise
from gradwalk.course.checker.outcomes import SLOW, Mistake, Outcome, close
from gradwalk.course.checker.structure import is_structural, suspect_of
from gradwalk.course.checker.wrong_rules import Point, WrongRule, name_rule

SPELLED = {
    "add": "a + b",
    "sub": "a − b",
    "mul": "a·b",
    "div": "a/b",
    "neg": "−a",
    "power": "a**n",
    "exp": "exp(a)",
    "tanh": "tanh(a)",
    "relu": "relu(a)",
}
# What is often made of what, so that one mistake is not reported twice: a + (−b), a·b**−1.
_MADE_OF = {"sub": "neg", "div": "power"}
_BASIC = ("add", "mul")  # in everything else


def diagnose(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """What is wrong, the first cause first; empty if everything is right."""
    if all(outcome.right for outcome in outcomes):
        return []
    stages: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        stages.setdefault(outcome.trial.stage, []).append(outcome)
    found = [*not_written(outcomes), *_wrong_values(stages["values"])]
    if not any(mistake.key == "no-backward" for mistake in found):
        found += _wrong_gradients(stages, found)
    found += raised_otherwise(outcomes, found)
    return found or [_only_somewhere(outcomes)]


def _wrong_gradients(stages: dict[str, list[Outcome]], before: list[Mistake]) -> list[Mistake]:
    seed = _wrong_seed(stages["locals"])
    if seed is not None:
        return [seed]
    found = _wrong_locals(stages["locals"], {mistake.key for mistake in before})
    known = {mistake.key for mistake in [*before, *found]}
    if known & {f"{what}-{op}" for op in _BASIC for what in ("value", "derivative")}:
        return found  # nothing can be right that is made of these
    structure = _wrong_structure([*stages["adding"], *stages["order"]])
    found += structure
    if not structure:
        found += _wrong_again(stages["again"])
    return found + _wrong_on_long(stages["long"], {mistake.key for mistake in structure})


def _only_somewhere(outcomes: Sequence[Outcome]) -> Mistake:
    example = min((o for o in outcomes if not o.right), key=lambda o: len(o.trial.steps))
    return Mistake(
        "somewhere",
        "goes wrong in some graphs",
        f"{example.in_words()} Every single operation is right, so look at what these graphs have "
        "that smaller ones have not.",
    )


# -- values ----------------------------------------------------------------------------------------


def _wrong_values(outcomes: list[Outcome]) -> list[Mistake]:
    found: dict[str, Mistake] = {}
    for outcome in outcomes:
        op, *operands = outcome.trial.steps[-1]
        for difference in outcome.differences:
            if difference.what == "gradient":
                text = f"{outcome.in_words()} Nothing has arrived yet: begin with 0."
                found.setdefault(
                    "first-gradient",
                    Mistake("first-gradient", "begins with a gradient that is not 0", text),
                )
            elif difference.node == len(outcome.trial.steps) - 1:
                number_first = not isinstance(operands[0], tuple)
                key = f"value-{'r' if number_first else ''}{op}"
                if f"value-{op}" in found or (op in _MADE_OF and f"value-{_MADE_OF[op]}" in found):
                    continue
                shown = outcome.trial.step_text(difference.node)
                swapped = _swapped(op, operands, outcome)
                text = outcome.in_words() + swapped
                found.setdefault(key, Mistake(key, f"computes {shown} wrong", text))
            else:
                text = outcome.in_words()
                found.setdefault("data", Mistake("data", "changes the data of a leaf", text))
    return list(found.values())


def _swapped(op: str, operands: list[object], outcome: Outcome) -> str:
    """For 2 − a and 6/a: whether the sides were exchanged."""
    if isinstance(operands[0], tuple) or op not in ("sub", "div"):
        return ""
    a, constant = outcome.of("a", "value"), float(str(operands[0]))
    other = a - constant if op == "sub" else a / constant
    if not close(outcome.of("f", "value"), other):
        return ""
    return " The two sides are exchanged: in the method with r the number stands on the left."


# -- local derivatives -----------------------------------------------------------------------------


def _wrong_seed(outcomes: list[Outcome]) -> Mistake | None:
    """The root's own gradient is 1, and everything is that times something."""
    told = [o for o in outcomes if o.numbers is not None]
    unlike_one = [o for o in told if not close(o.of("f"), 1.0)]
    if not unlike_one:
        return None
    text = f"{unlike_one[0].in_words()} "
    if all(close(o.of("f"), o.of("f", "value")) for o in told):
        text += "The walk begins with the value of the root; it must begin with 1, which is df/df."
    elif all(close(o.of("a"), 0.0) for o in told):
        text += "Nothing arrives anywhere: before the walk, set the root's own gradient to 1."
    else:
        text += "The gradient of the root itself, df/df, is 1."
    return Mistake("no-seed", "does not begin with gradient 1 at the root", text)


class _Asked(NamedTuple):
    """The local derivative of an op for one of its inputs, wherever it was asked for."""

    op: str
    form: str  # of its operands: "v" a Value, "n" a plain number
    argument: int
    points: list[Point]
    outcomes: list[Outcome]

    @property
    def with_number(self) -> bool:
        return "n" in self.form and self.op != "power"

    @property
    def wrong(self) -> list[Outcome]:
        return [o for p, o in zip(self.points, self.outcomes) if not close(p.got, p.want)]


def _asked(outcomes: list[Outcome]) -> list[_Asked]:
    found: dict[tuple[str, str, int], _Asked] = {}
    for outcome in outcomes:
        if outcome.numbers is None:
            continue
        op, *operands = outcome.trial.steps[-1]
        x, y = ([_operand(outcome, operand) for operand in operands] + [0.0])[:2]
        form = "".join("v" if isinstance(operand, tuple) else "n" for operand in operands)
        for argument, operand in enumerate(operands):
            if isinstance(operand, tuple):
                name, want = outcome.trial.names[operand[0]], outcome.trial.expected
                point = Point(
                    x, y, outcome.of("f", "value"), outcome.of(name), want[2 * operand[0] + 1]
                )
                key = (op, form, argument)
                asked = found.setdefault(key, _Asked(*key, [], []))
                asked.points.append(point)
                asked.outcomes.append(outcome)
    return sorted(found.values(), key=_causes_first)


def _causes_first(asked: _Asked) -> tuple[int, bool]:
    """What others are made of first, and Values before plain numbers."""
    rank = 0 if asked.op in _BASIC else 1 if asked.op in _MADE_OF.values() else 2
    return rank, asked.with_number


def _operand(outcome: Outcome, operand: object) -> float:
    if isinstance(operand, tuple):
        return outcome.of(outcome.trial.names[operand[0]], "value")
    return float(str(operand))


def _wrong_locals(outcomes: list[Outcome], before: set[str]) -> list[Mistake]:
    found: list[Mistake] = []
    rules: dict[str, WrongRule | None] = {}
    for asked in _asked(outcomes):
        op = asked.op
        wrong_value = f"value-{'r' if asked.form[0] == 'n' else ''}{op}" in before
        if not asked.wrong or wrong_value or op in rules or _follows(asked, rules):
            continue
        rules[op] = name_rule(op, asked.argument, asked.points)
        found.append(_local_mistake(asked, rules[op]))
        if op in _BASIC:
            break
    return found


def _follows(asked: _Asked, rules: dict[str, WrongRule | None]) -> bool:
    """Whether a wrong rule that was named already explains this op, which is made of that one."""
    inner = rules.get(_MADE_OF.get(asked.op, ""))
    if inner is None or asked.argument != 1:
        return False
    for point in asked.points:
        if asked.op == "sub":
            predicted = inner.rule(point.y, 0.0, -point.y)
        else:
            predicted = point.x * inner.rule(point.y, -1.0, 1 / point.y)
        if not close(point.got, predicted):
            return False
    return True


def _local_mistake(asked: _Asked, rule: WrongRule | None) -> Mistake:
    example = asked.wrong[0]
    shown = SPELLED[asked.op]
    if asked.with_number:
        shown = example.trial.step_text(len(example.trial.steps) - 1)
    name = "ab"[asked.argument] if asked.form == "vv" else "a"
    text = example.in_words()
    if rule is not None:
        text += f" The local derivative of {shown} for {name}: yours is {rule.text}."
    elif all(close(point.got, -point.want) for point in asked.points):
        text += " It has the wrong sign."
    return Mistake(f"derivative-{asked.op}", f"has a wrong derivative of {shown}", text)


# -- the walk --------------------------------------------------------------------------------------


def _wrong_structure(outcomes: list[Outcome]) -> list[Mistake]:
    told = [o for o in outcomes if is_structural(o.trial) and o.numbers is not None]
    wrong = [o for o in told if o.differences]
    if not wrong:
        return []
    named = suspect_of(told)
    if named is not None:
        return [named]
    example = min(wrong, key=lambda o: len(o.trial.steps))
    stage = example.trial.stage
    text = f"{example.in_words()} "
    if stage == "adding":
        text += "What arrives at a value from each of its uses must be added up."
        return [Mistake("adding", "does not add up what arrives", text)]
    text += "A node may hand on its gradient once, when all of its consumers have been visited."
    return [Mistake("order", "visits nodes in a wrong order", text)]


def _wrong_again(outcomes: list[Outcome]) -> list[Mistake]:
    wrong = [o for o in outcomes if o.differences]
    if not wrong:
        return []
    told = wrong[0].in_words()
    if all(_is_the_last_call_alone(outcome) for outcome in wrong):
        text = f"{told} A leaf adds what each backward brings; yours forgets what was there."
        return [Mistake("clears-leaves", "forgets what an earlier backward brought", text)]
    text = (
        f"{told} Inner nodes still hold their gradients from the first time and hand them on "
        "again: before the walk set the gradient of every node that has inputs to 0 (not of the "
        "leaves, which add)."
    )
    return [Mistake("stale", "hands on old gradients when backward is called again", text)]


def _is_the_last_call_alone(outcome: Outcome) -> bool:
    """Whether the numbers are those of the last call of backward, as if it were the only one."""
    alone = replace(outcome.trial, calls=outcome.trial.calls[-1:])
    return all(close(got, want) for got, want in zip(outcome.numbers or (), alone.expected))


def _wrong_on_long(outcomes: list[Outcome], structure: set[str]) -> list[Mistake]:
    if "plain-recursion" in structure:
        return []
    doubled = outcomes[-1]
    if doubled.ended == SLOW:
        text = (
            f"{doubled.trial.text}: no answer in the time allowed. Every node must be visited "
            "once, however many paths lead to it; yours goes along every path."
        )
        return [Mistake("every-path", "goes along every path, one by one", text)]
    deep = next((o for o in outcomes if o.failure and o.failure.kind == "RecursionError"), None)
    if deep is not None:
        text = (
            f"{deep.trial.text}: RecursionError. A function that calls itself for every input goes "
            "as deep as the graph; use a list as a stack instead. (Here "
            "sys.setrecursionlimit does nothing: a higher limit only fails later.)"
        )
        return [Mistake("recursion-limit", "recurses, and fails on long chains", text)]
    slow = next((o for o in outcomes if o.ended == SLOW), None)
    if slow is not None:
        text = (
            f"{slow.trial.text}: no answer in the time allowed. The time should grow with the "
            "number of operations; searching a list for every node makes it grow with the square "
            "(use a set for the nodes seen)."
        )
        return [Mistake("slow", "takes too long on long chains", text)]
    wrong = next((o for o in outcomes if o.differences), None)
    if wrong is not None and not structure:
        return [Mistake("long", "goes wrong on long chains", wrong.in_words())]
    return []
