"""Name what an engine does wrong: each cause once, and not its consequences.

The names come from `gradwalk.inspect.mistakes`: wrong rules are tried on single operations, wrong
walks on graphs of + and ·, whose local derivatives are known to be right by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradwalk.course.checker.failures import not_written, raised_otherwise
from gradwalk.course.checker.outcomes import SLOW, TOLERANCE, Mistake, Outcome, close
from gradwalk.course.checker.trials import SPELLED
from gradwalk.inspect.mistakes.diagnosis import diagnose as diagnose_numbers
from gradwalk.inspect.mistakes.walks import first_early_visit, walk_that_fits
from gradwalk.inspect.mistakes.wrong_rules import WrongRule, wrong_rule

# Ops often built from others, a + (−b) and a·b**−1: one mistake is not reported twice.
_MADE_OF = {"sub": "neg", "div": "power"}
_BASIC = ("add", "mul")  # every other graph uses them


def diagnose(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """List the mistakes, the first cause first; empty if everything is right."""
    if all(outcome.right for outcome in outcomes):
        return []
    stages: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        stages.setdefault(outcome.trial.stage, []).append(outcome)
    mistakes = [*not_written(outcomes), *_wrong_values(stages["values"])]
    if not any(mistake.key == "no-backward" for mistake in mistakes):
        mistakes += _wrong_gradients(stages, mistakes)
    mistakes += raised_otherwise(outcomes, mistakes)
    return mistakes or [_only_somewhere(outcomes)]


def _wrong_gradients(stages: dict[str, list[Outcome]], before: list[Mistake]) -> list[Mistake]:
    seed = _wrong_seed(stages["locals"])
    if seed is not None:
        return [seed]
    mistakes = _wrong_locals(stages["locals"], {mistake.key for mistake in before})
    known = {mistake.key for mistake in [*before, *mistakes]}
    if known & {f"{what}-{op}" for op in _BASIC for what in ("value", "derivative")}:
        return mistakes  # nothing made of these can be right
    walk = _wrong_walk([*stages["adding"], *stages["order"]])
    mistakes += walk or _wrong_again(stages["again"])
    return mistakes + _wrong_on_long(stages["long"], {mistake.key for mistake in walk})


def _only_somewhere(outcomes: Sequence[Outcome]) -> Mistake:
    example = _smallest(o for o in outcomes if not o.right)
    return Mistake(
        "somewhere",
        "goes wrong in some graphs",
        f"{example.in_words()} Every single operation is right, so look at what these graphs have "
        "that smaller ones have not.",
    )


def _smallest(outcomes: Any) -> Outcome:
    return min(outcomes, key=lambda outcome: len(outcome.trial.steps))


# -- values ----------------------------------------------------------------------------------------


def _wrong_values(outcomes: list[Outcome]) -> list[Mistake]:
    mistakes: dict[str, Mistake] = {}
    for outcome in outcomes:
        op, *operands = outcome.trial.steps[-1]
        for difference in outcome.differences:
            text = outcome.in_words()
            if difference.what == "gradient":
                key, title = "first-gradient", "begins with a gradient that is not 0"
                text += " Nothing has arrived yet: begin with 0."
            elif difference.node < len(outcome.trial.steps) - 1:
                key, title = "data", "changes the data of a leaf"
            elif f"value-{op}" in mistakes or f"value-{_MADE_OF.get(op)}" in mistakes:
                continue
            else:
                key = f"value-{op}" if isinstance(operands[0], tuple) else f"value-r{op}"
                title = f"computes {outcome.trial.step_text(difference.node)} wrong"
                text += _exchanged(op, operands, outcome)
            mistakes.setdefault(key, Mistake(key, title, text))
    return list(mistakes.values())


def _exchanged(op: str, operands: list[Any], outcome: Outcome) -> str:
    """For 2 − a and 6/a: whether the sides were exchanged."""
    if isinstance(operands[0], tuple) or op not in ("sub", "div"):
        return ""
    a, constant = outcome.of("a", "value"), float(operands[0])
    if not close(outcome.of("f", "value"), a - constant if op == "sub" else a / constant):
        return ""
    return " The two sides are exchanged: in the method with r the number stands on the left."


# -- local derivatives -----------------------------------------------------------------------------


def _wrong_seed(outcomes: list[Outcome]) -> Mistake | None:
    """Whether the walk begins with another gradient of the root than 1."""
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


@dataclass
class _Local:
    """The local derivative of an op for one of its inputs, wherever it was tried."""

    op: str
    form: str  # of its operands: "v" a Value, "n" a plain number
    argument: int
    outcomes: list[Outcome] = field(default_factory=list)
    # At each of the outcomes: the first operand, the second (or 0), the output.
    numbers: list[tuple[float, float, float]] = field(default_factory=list)
    got: list[float] = field(default_factory=list)
    want: list[float] = field(default_factory=list)

    @property
    def with_number(self) -> bool:
        return "n" in self.form and self.op != "power"

    @property
    def wrong(self) -> list[Outcome]:
        return [o for o, x, y in zip(self.outcomes, self.got, self.want) if not close(x, y)]

    def is_that_of(self, rule: WrongRule, made_of: bool = False) -> bool:
        """Whether a rule gives these numbers, here or (`made_of`) in the op it is built from."""
        for (x, y, out), got in zip(self.numbers, self.got):
            if not made_of:
                predicted = rule.rule(x, y, out)
            elif self.op == "sub":
                predicted = rule.rule(y, 0.0, -y)
            else:
                predicted = x * rule.rule(y, -1.0, 1 / y)
            if not close(got, predicted):
                return False
        return True

    def mistake(self, rule: WrongRule | None) -> Mistake:
        example = self.wrong[0]
        shown = SPELLED[self.op].format("a", "n" if self.op == "power" else "b")
        if self.with_number:
            shown = example.trial.step_text(len(example.trial.steps) - 1)
        text = example.in_words()
        if rule is not None:
            name = "ab"[self.argument] if self.form == "vv" else "a"
            text += f" The local derivative of {shown} for {name}: yours is {rule.text}."
        else:
            reason = diagnose_numbers(self.got, self.want, atol=TOLERANCE, rtol=TOLERANCE)
            text += f" That is {reason}" if reason else ""
        return Mistake(f"derivative-{self.op}", f"has a wrong derivative of {shown}", text)


def _locals(outcomes: list[Outcome]) -> list[_Local]:
    """All local derivatives: ops that others are built from first, Values before numbers."""
    locals_: dict[tuple[str, str, int], _Local] = {}
    for outcome in outcomes:
        if outcome.numbers is None:
            continue
        trial = outcome.trial
        op, *operands = trial.steps[-1]
        form = "".join("v" if isinstance(operand, tuple) else "n" for operand in operands)
        x, *more = (
            outcome.of(trial.names[operand[0]], "value") if isinstance(operand, tuple) else operand
            for operand in operands
        )
        for argument, operand in enumerate(operands):
            if isinstance(operand, tuple):
                key = (op, form, argument)
                local = locals_.setdefault(key, _Local(*key))
                local.outcomes.append(outcome)
                local.numbers.append((float(x), float((*more, 0)[0]), outcome.of("f", "value")))
                local.got.append(outcome.of(trial.names[operand[0]]))
                local.want.append(trial.expected[2 * operand[0] + 1])
    ranks = {**dict.fromkeys(_MADE_OF.values(), 1), **dict.fromkeys(_BASIC, 0)}
    return sorted(locals_.values(), key=lambda one: (ranks.get(one.op, 2), one.with_number))


def _wrong_locals(outcomes: list[Outcome], before: set[str]) -> list[Mistake]:
    mistakes: list[Mistake] = []
    rules: dict[str, WrongRule | None] = {}
    for local in _locals(outcomes):
        op = local.op
        if not local.wrong or op in rules:
            continue
        if f"value-{'r' if local.form[0] == 'n' else ''}{op}" in before:
            continue
        inner = rules.get(_MADE_OF.get(op, ""))
        if inner is not None and local.argument == 1 and local.is_that_of(inner, made_of=True):
            continue  # a consequence of the mistake in the op it is built from
        rules[op] = wrong_rule(op, local.argument, local.is_that_of)
        mistakes.append(local.mistake(rules[op]))
        if op in _BASIC:
            break
    return mistakes


# -- the walk --------------------------------------------------------------------------------------


def _wrong_walk(outcomes: list[Outcome]) -> list[Mistake]:
    told = [o for o in outcomes if o.trial.ops <= {"add", "mul"} and o.numbers is not None]
    wrong = [o for o in told if o.differences]
    if not wrong:
        return []
    example = _smallest(wrong)
    fitting = walk_that_fits([(o.trial.trace, o.has_gradients) for o in told])
    if fitting is None:
        text = f"{example.in_words()} "
        if example.trial.stage == "adding":
            text += "What arrives at a value from each of its uses must be added up."
            return [Mistake("adding", "does not add up what arrives", text)]
        text += "A node may hand on its gradient once, when all of its consumers have been visited."
        return [Mistake("order", "visits nodes in a wrong order", text)]
    walk, runs = fitting
    early = ""
    if walk.names_the_visit:
        example = _smallest([o for o in wrong if o.trial.stage == "order"] or wrong)
        early = first_early_visit(example.trial.trace, runs[told.index(example)])
    text = " ".join(filter(None, (example.in_words(), early, walk.why)))
    return [Mistake(walk.key, walk.title, text)]


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


def _wrong_on_long(outcomes: list[Outcome], walk: set[str]) -> list[Mistake]:
    if "plain-recursion" in walk:
        return []
    late = "no answer in the time allowed."
    if outcomes[-1].ended == SLOW:
        text = (
            f"{outcomes[-1].trial.text}: {late} Every node must be visited once, however many "
            "paths lead to it; yours goes along every path."
        )
        return [Mistake("every-path", "goes along every path, one by one", text)]
    for o in outcomes:
        if o.failure and o.failure.kind == "RecursionError":
            text = (
                f"{o.trial.text}: RecursionError. A function that calls itself for every input "
                "goes as deep as the graph; use a list as a stack instead. (Here "
                "sys.setrecursionlimit does nothing: a higher limit only fails later.)"
            )
            return [Mistake("recursion-limit", "recurses, and fails on long chains", text)]
    for o in outcomes:
        if o.ended == SLOW:
            text = (
                f"{o.trial.text}: {late} The time should grow with the number of operations; "
                "searching a list for every node makes it grow with the square (use a set for the "
                "nodes seen)."
            )
            return [Mistake("slow", "takes too long on long chains", text)]
    wrong = next((o for o in outcomes if o.differences), None)
    if wrong is not None and not walk:
        return [Mistake("long", "goes wrong on long chains", wrong.in_words())]
    return []
