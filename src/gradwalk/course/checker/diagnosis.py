"""Name what an engine does wrong: each cause once, and not its consequences.

The names come from `gradwalk.inspect.mistakes`: wrong rules are tried on single operations, wrong
walks on graphs of + and ·, whose local derivatives are known to be right by then. An operation that
is made of others, as a − b of a + (−b), goes wrong with the walk: what a wrong walk explains is not
blamed on the operation. `exceptions.py` reads the exceptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradwalk.course.checker.exceptions import (
    not_written,
    raised_otherwise,
    spelled,
    wrong_results,
)
from gradwalk.course.checker.outcomes import (
    SLOW,
    TOLERANCE,
    Mistake,
    Outcome,
    close,
    mistake,
)
from gradwalk.course.checker.trials import EQUAL
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.mistakes.diagnosis import Evidence, Slope, fits, wrong_rule
from gradwalk.inspect.mistakes.diagnosis import diagnose as diagnose_numbers
from gradwalk.inspect.mistakes.wrong_walks import (
    WalkNames,
    first_early_visit,
    gives,
    walk_that_fits,
)
from gradwalk.inspect.order.lab import run_order

# Ops often built from others, a + (−b) and a·b**−1: one mistake is not reported twice.
_MADE_OF = {"sub": ("neg",), "div": ("power",), "tanh": ("exp", "div", "power", "sub", "neg")}
_BASIC = ("add", "mul")  # every other graph uses them
# Ways in which people build an op of + · and powers: a walk that is wrong shows in them.
_BUILT = {
    "neg": ("a*-1", "-1*a"),
    "sub": ("a + b*-1", "a + -1*b"),
    "div": ("a*b^-1", "b^-1*a"),
    "tanh": (
        "(exp(a*2) + -1)*(exp(a*2) + 1)^-1",
        "e = exp(a*2); (e + -1)*(e + 1)^-1",
        "(exp(a) + -1*exp(a*-1))*(exp(a) + exp(a*-1))^-1",
        "p = exp(a); n = exp(a*-1); (p + n*-1)*(p + n)^-1",
    ),
    "power": ("a*a*a",),
}
_SMALL = 7  # nodes of a graph that every wrong walk is tried on
_AT_LAST = ("recursion-limit", "slow", "long")
# What b − a and b/a give for a − b and a/b.
_EXCHANGED: dict[str, Callable[[Outcome], float]] = {
    "sub": lambda o: o.of("b", "value") - o.of("a", "value"),
    "div": lambda o: o.of("b", "value") / o.of("a", "value"),
}
_ONE_INPUT: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "tanh": math.tanh,
    "relu": lambda x: max(0.0, x),
}


def diagnose(outcomes: Sequence[Outcome]) -> list[Mistake]:
    """List the mistakes, the first cause first; empty if everything is right."""
    if all(outcome.right for outcome in outcomes):
        return []
    stages: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        stages.setdefault(outcome.trial.stage, []).append(outcome)
    results, known = wrong_results(stages["values"])
    mistakes = [*results, *not_written(outcomes, known), *_wrong_values(stages["values"])]
    if not any(one.key == "no-backward" for one in mistakes):
        keys = {one.key for one in mistakes}
        if "loop-variable" in keys:
            keys |= {f"value-{op}" for op in _ONE_INPUT}
        mistakes += _wrong_gradients(stages, keys, known)
    mistakes += raised_otherwise(outcomes, mistakes, known)
    mistakes.sort(key=lambda one: one.key in _AT_LAST)
    return mistakes or [_smallest(o for o in outcomes if not o.right).shows("somewhere")]


def _wrong_gradients(
    stages: dict[str, list[Outcome]], before: set[str], results: frozenset[str]
) -> list[Mistake]:
    """Wrong gradients; ops whose `results` are wrong are left out."""
    if before & {"first-gradient", "data"}:  # nothing after it can be right
        return _wrong_on_long(stages["long"], True)
    seed = _wrong_seed(stages["locals"])
    seed = seed or _wrong_beginning([o for s in ("locals", "adding", "order") for o in stages[s]])
    if seed is not None:
        return [seed, *_wrong_on_long(stages["long"], True)]
    basic = [o for o in stages["locals"] if o.trial.ops <= set(_BASIC)]
    mistakes = list(_wrong_locals(basic, before, results))
    known = before.union(one.key for one in mistakes)
    if known & {f"{what}-{op}" for op in _BASIC for what in ("value", "derivative")}:
        return mistakes + _wrong_on_long(stages["long"], True)  # no other graph can be right
    small = [o for o in stages["graphs"] if len(o.trial.steps) <= _SMALL]
    walk, names = _wrong_walk([*stages["adding"], *stages["order"], *small])
    others = [o for o in stages["locals"] if o not in basic]
    if walk:
        others = [o for o in others if not _built(o, names)]
    mistakes += _wrong_locals(others, known, results)
    named = {key.partition("-")[2] for key in known.union(one.key for one in mistakes)}
    mistakes += walk or _wrong_inside(stages["graphs"], named | results)
    mistakes += [] if walk else _wrong_again(stages["again"])
    if not any(one.key == "plain-recursion" for one in walk):
        mistakes += _wrong_on_long(stages["long"], bool(walk))
    return mistakes


def _smallest(outcomes: Iterable[Outcome]) -> Outcome:
    return min(outcomes, key=lambda outcome: len(outcome.trial.steps))


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
            elif key in mistakes:
                continue
            elif not isinstance(first, tuple):  # a number on the left, as in 2 − a and 6/a
                key = f"value-r{op}"
                a, f = outcome.of("a", "value"), outcome.of("f", "value")
                exchanged = a - first if op == "sub" else a / first if op == "div" else np.nan
                name = "value exchanged" if close(f, exchanged) else "value"
            elif op in _EXCHANGED and close(difference.got, _EXCHANGED[op](outcome)):
                name = "value swapped"
            if op == "div" and close(difference.got, math.floor(difference.want)):
                name = "value rounded"
            mistakes.setdefault(key, outcome.shows(name, key, shown=shown))
    if "data" in mistakes:  # values that are computed from it are wrong too
        return [mistakes["data"]]
    causes = {key: one for key, one in mistakes.items()
              if not _is_made_of(key.removeprefix("value-").removeprefix("r"), "value", mistakes)
              or key == "value-relu"}  # fmt: skip
    return _of_the_last(outcomes, causes) or list(causes.values())


def _is_made_of(op: str, what: str, named: Iterable[str]) -> bool:
    """Whether something that an op is often made of has a mistake of this sort."""
    return any(f"{what}-{inner}" in named for inner in _MADE_OF.get(op, ()))


def _of_the_last(outcomes: list[Outcome], mistakes: Mapping[str, Mistake]) -> list[Mistake]:
    """exp, tanh and relu all give the values of one of them: they were made in a loop."""
    tried = [o for o in outcomes if o.trial.steps[-1][0] in _ONE_INPUT and o.numbers is not None]
    wrong = {o.trial.steps[-1][0] for o in tried if o.differences}
    for name, function in _ONE_INPUT.items():
        same = all(close(o.of("f", "value"), function(o.of("a", "value"))) for o in tried)
        if same and len(wrong) == len(_ONE_INPUT) - 1:
            example = next(o for o in tried if o.differences)
            rest = [one for key, one in mistakes.items() if key.removeprefix("value-") not in wrong]
            shown = ", ".join(spelled(op) for op in _ONE_INPUT if op != name)
            return [example.shows("loop-variable", shown=shown, last=spelled(name)), *rest]
    return []


# -- local derivatives -----------------------------------------------------------------------------


def _wrong_seed(outcomes: list[Outcome]) -> Mistake | None:
    """Whether the walk begins with another gradient of the root than 1."""
    told = [o for o in outcomes if o.numbers is not None]
    unlike_one = [o for o in told if not close(o.of("f"), 1.0)]
    if not unlike_one:
        names = [(o, n) for o in told for n in ("a", "b") if n in o.trial.names]
        silent = all(close(o.of(n), 0.0) for o, n in names)
        return told[0].shows("root-passes-nothing") if told and silent else None
    basic = [o for o in told if o.trial.ops <= set(_BASIC)]  # others may be made of several
    leaves = [d for o in basic for d in o.differences if o.trial.steps[d.node][0] == "leaf"]
    if not leaves and all(close(o.of("f"), 0.0) for o in told):
        return unlike_one[0].shows("no-inner-gradients")
    if all(close(o.of("f"), o.of("f", "value")) for o in told):
        return unlike_one[0].shows("no-seed value")
    nothing = all(close(o.of("a"), 0.0) for o in told)
    return unlike_one[0].shows("no-seed nothing" if nothing else "no-seed other")


def _wrong_beginning(outcomes: list[Outcome]) -> Mistake | None:
    """Walks that go wrong in every graph: a local derivative is not to blame for them."""
    told = [o for o in outcomes if o.trial.ops <= set(_BASIC) and o.numbers is not None]
    wrong = [o for o in told if o.differences]
    if wrong and all(close(o.of(name), 1.0) for o in told for name in o.trial.names):
        return wrong[0].shows("every-node-begins")
    for name in ("visits-twice root", "visits-twice"):
        if wrong and all(gives((name,), o.trial.trace, o.has_gradients) for o in told):
            return wrong[0].shows(name)
    return None


def _wrong_locals(
    outcomes: list[Outcome], before: set[str], results: frozenset[str]
) -> Iterator[Mistake]:
    """Local derivatives: ops that others are built from first, Values before numbers."""
    tried: dict[tuple[str, str, int], list[Outcome]] = {}
    for outcome in outcomes:
        op, *operands = outcome.trial.steps[-1]
        form = "".join("v" if isinstance(operand, tuple) else "n" for operand in operands)
        for argument, kind in enumerate(form if outcome.numbers is not None else ""):
            if kind == "v":
                tried.setdefault((op, form, argument), []).append(outcome)
    ranks = {**dict.fromkeys(_MADE_OF, 2), "neg": 1, "power": 1, "tanh": 3}
    ranks |= dict.fromkeys(_BASIC, 0)
    rules: dict[str, tuple[str, Slope] | None] = {}
    for op, form, argument in sorted(tried, key=lambda k: (ranks.get(k[0], 2), _with_number(*k))):
        evidence = _evidence(op, argument, tried[op, form, argument])
        pairs = zip(tried[op, form, argument], evidence.given, evidence.right)
        wrong = next((outcome for outcome, got, want in pairs if not close(got, want)), None)
        known = op in rules or f"value-{'r' if form[0] == 'n' else ''}{op}" in before
        inner = [rules[made_of] for made_of in _MADE_OF.get(op, ()) if made_of in rules]
        follows = _is_made_of(op, "value", before) or any(_is_of_inner(evidence, r) for r in inner)
        own = op == "tanh" and _has_own_rule(evidence)  # as no other tanh would give
        if wrong is None or known or (follows and not own):
            continue
        if op in results or results.intersection(_MADE_OF.get(op, ())):
            continue
        rule = rules[op] = wrong_rule(evidence)
        shown = spelled(op)
        if _with_number(op, form):
            shown = wrong.trial.step_text(len(wrong.trial.steps) - 1)
        name = "ab"[argument] if form == "vv" else "a"
        if rule is not None and not evidence.given.any():
            other = tried.get((op, form, 1 - argument), [])
            passes = bool(other) and _evidence(op, 1 - argument, other).given.any()
            reason = f" {mistake('derivative ' + ('one' if passes else 'none'), input=name).text}"
        elif rule is not None:
            reason = f" Your local derivative of {shown} for {name} is {rule[0]}."
        else:
            given, right = evidence.given, evidence.right
            named = diagnose_numbers(given, right, atol=TOLERANCE, rtol=TOLERANCE)
            reason = f" That is {named}" if named else ""
        yield wrong.shows("derivative", f"derivative-{op}", shown=shown, reason=reason)
        if op in _BASIC:
            break


def _has_own_rule(evidence: Evidence) -> bool:
    """Whether it is a wrong rule that people write, and not only nothing that arrives."""
    return bool(evidence.given.any()) and wrong_rule(evidence) is not None


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
    # A rule without a name may give anything, and tanh may be made of anything.
    if rule is None or e.op == "tanh":
        return True
    if e.argument == 0:
        return False
    x, y = e.operands
    if e.op == "sub":
        return fits(replace(e, operands=(y, 0.0), output=-y), rule[1])
    return fits(replace(e, operands=(y, -1.0), output=1 / y, g=x), rule[1])


# -- the walk --------------------------------------------------------------------------------------


def _wrong_walk(outcomes: list[Outcome]) -> tuple[list[Mistake], WalkNames]:
    """What is wrong with the walk, and its names among the wrong walks, if it has any."""
    told = [o for o in outcomes if o.trial.ops <= {"add", "mul"} and o.numbers is not None]
    wrong = [o for o in told if o.differences]
    if not wrong:
        return [], ()
    example = _smallest(wrong)
    fitting = walk_that_fits([(o.trial.trace, o.has_gradients) for o in told])
    trees = [o for o in told if o.trial.stage == "graphs"]  # a wrong order shows in none of them
    if fitting is None and all((o.trial.inside == EQUAL) == bool(o.differences) for o in trees):
        return [next(o for o in trees if o.differences).shows("equal-numbers")], ()
    if fitting is None:
        return [example.shows("adding" if example.trial.stage == "adding" else "order")], ()
    mistakes = []
    names, visits = fitting
    for name in names:
        if not name.startswith("before-complete"):
            mistakes.append(example.shows(name))
            continue
        later = _smallest([o for o in wrong if o.trial.stage == "order"] or wrong)
        early = first_early_visit(later.trial.trace, visits[told.index(later)])
        mistakes.append(later.shows(name, early=f" {early}" if early else ""))
    return mistakes, names


def _built(outcome: Outcome, walk: WalkNames) -> bool:
    """Whether an op that is made of others would give these gradients with that wrong walk.

    Of a walk that is wrong and has no name nothing is known: then it may.
    """
    op, *operands = outcome.trial.steps[-1]
    if not walk or outcome.numbers is None:
        return op in _BUILT
    values = [outcome.of(outcome.trial.names[x[0]], "value") if isinstance(x, tuple) else x
              for x in operands]  # fmt: skip
    names = [name for name, x in zip("ab", operands) if isinstance(x, tuple)]
    inner = {name: outcome.of(outcome.trial.names[x[0]]) for name, x in zip("ab", operands)
             if isinstance(x, tuple)}  # fmt: skip

    def same(gradients: Mapping[str, float]) -> bool:
        return all(close(inner[name], gradients.get(name, 0.0)) for name in names)

    at = dict(zip("ab", map(float, values)))
    for text in _BUILT.get(op, ()):
        if op == "power" and values[1] != 3:
            continue
        used = {name: x for name, x in at.items() if name in parse(text).leaves}
        if gives(walk, parse(text).build(used).trace(), same):
            return True
    return False


# -- operations between others ---------------------------------------------------------------------


def _wrong_inside(outcomes: list[Outcome], named: set[str]) -> list[Mistake]:
    """Operations that are right alone and wrong between others; others have been `named`."""
    tried: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.trial.inside and outcome.numbers is not None:
            tried.setdefault(outcome.trial.inside, []).append(outcome)
    tried.pop(EQUAL, None)
    found: dict[str, dict[str, Outcome]] = {}
    for op, several in tried.items():
        if op in named or named.intersection(_MADE_OF.get(op, ())):
            continue
        kind = _inside_kind(several)
        if kind:
            found.setdefault(kind, {})[op] = next(o for o in several if o.differences)
    mistakes = []
    for kind, examples in found.items():
        causes = [op for op in examples if not set(_MADE_OF.get(op, ())) & set(examples)]
        shown = ", ".join(map(spelled, causes))
        mistakes.append(examples[causes[0]].shows(f"{kind} in", shown=shown))
    return mistakes


def _inside_kind(tried: list[Outcome]) -> str:
    """What an operation does wrong: f = 4·g tells, and f = 4·g + 5·q with g and q the same."""
    if len(tried) != 2:
        return ""
    once, twice = tried
    names = once.trial.names
    places = [name for name in ("h", "k") if name in names]
    slope = {name: once.trial.expected[2 * names.index(name) + 1] / 4 for name in places}
    if all(close(once.of(name), slope[name]) for name in places):
        return "local-not-total"
    if not all(close(once.of(name), 4 * slope[name]) for name in places):
        return "upstream"
    if once.differences:
        beyond = [name for name in ("a", "b") if name in names]
        return "unknown-inputs" if all(close(once.of(name), 0.0) for name in beyond) else ""
    overwritten = [
        any(close(twice.of(name), factor * slope[name]) for factor in (4, 5, 9)) for name in places
    ]
    return "overwrites" if twice.differences and all(overwritten) else ""


# -- calls one after the other ---------------------------------------------------------------------


def _wrong_again(outcomes: list[Outcome]) -> list[Mistake]:
    wrong = [o for o in outcomes if o.differences]
    if wrong and all(_only_once(o) for o in outcomes if o.numbers is not None):
        return [wrong[0].shows("second-does-nothing")]
    # The numbers of the last call of backward, as if it were the only one?
    alone = [replace(o.trial, calls=o.trial.calls[-1:]).expected for o in wrong]
    cleared = all(all(map(close, o.numbers or (), numbers)) for o, numbers in zip(wrong, alone))
    if not wrong or cleared:
        return [wrong[0].shows("clears-leaves")] if wrong else []
    first = outcomes[0]  # the same root twice: inner gradients that were kept give these numbers
    stale = run_order(first.trial.trace, "twice")["x"].got
    kept = first.numbers is not None and close(first.of("x"), stale)
    return [wrong[0].shows("stale" if kept else "again")]


def _only_once(outcome: Outcome) -> bool:
    """Whether a second backward of the same root did nothing; other roots tell nothing here."""
    seen: set[int] = set()
    calls = []
    for what, node in outcome.trial.calls:
        if what == "zero" or not seen:
            calls.append((what, node))
        seen |= {node} if what == "backward" else set()
    if len(seen) > 1:
        return True
    numbers = replace(outcome.trial, calls=tuple(calls)).expected
    return all(map(close, outcome.numbers or (), numbers))


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
