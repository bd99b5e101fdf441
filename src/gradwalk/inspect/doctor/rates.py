"""The learning rate of every step: its history in words, and what is wrong with it."""

from __future__ import annotations

import itertools
import math

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.doctor.loss_curve import LOST, RISES, verdict
from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short

SHOWN = 6  # stretches of equal rates
DEAD = 1e-4  # of the largest rate: below, nothing moves any more
PART = 0.25  # of the steps that may be so small; a cosine ends with few
LOST_STEPS = 3  # steps at a rate of 0: a warm-up may begin with one
GROWN = 3.0  # times the rate that a schedule started from


def history(run: ObservedRun) -> str:
    """The learning rate in words: 0.1 (steps 0 to 29), 0.01 (30 to 59)."""
    told = []
    for known in run.optimizers:
        steps = [s for s in run.steps if s.optimizer is known.optimizer and s.rates]
        name = f"{type(known.optimizer).__name__}: " if len(run.optimizers) > 1 else ""
        if steps:
            told.append(name + _in_words(steps))
    return "; ".join(told)


def _in_words(steps: list[ObservedStep]) -> str:
    groups = [[s.rates[0] for s in steps]]
    groups += [
        [s.rates[k] for s in steps if k < len(s.rates)]
        for k in range(1, len(steps[0].rates))
        if any(k < len(s.rates) and s.rates[k] != s.rates[0] for s in steps)
    ]
    return " and ".join(_stretches(rates, [s.number for s in steps]) for rates in groups)


def _stretches(rates: list[float], numbers: list[int]) -> str:
    parts = [
        (rate, [n for _, n in members])
        for rate, members in itertools.groupby(zip(rates, numbers), key=lambda pair: pair[0])
    ]
    if len(parts) == 1:
        return f"{short(parts[0][0])} throughout"
    if len(parts) <= SHOWN:
        return ", ".join(f"{short(rate)} from step {at[0]}" for rate, at in parts)
    low, high = min(rates), max(rates)
    return (
        f"{short(rates[0])} at step {numbers[0]}, {short(rates[len(rates) // 2])} at step "
        f"{numbers[len(rates) // 2]}, {short(rates[-1])} at step {numbers[-1]}; between "
        f"{short(low)} and {short(high)}"
    )


# -- checks ----------------------------------------------------------------------------------------


def wrong_rates(run: ObservedRun) -> list[Finding] | None:
    """A learning rate that is zero, dies or grows without bound."""
    findings = []
    looked = False
    for known in run.optimizers:
        steps = [s for s in run.steps if s.optimizer is known.optimizer and s.rates]
        if not steps:
            continue
        looked = True
        rates = [max(s.rates) for s in steps]
        schedule = _schedule(run)
        found = (
            _zero(rates, steps, schedule)
            or _dead(rates, steps, schedule)
            or _grown(run, rates, steps, schedule, known.optimizer)
        )
        if found is not None:
            found.cause = known.line
            findings.append(found)
    return findings if looked else None


def _schedule(run: ObservedRun) -> tuple[SourceLine | None, str]:
    """The line that steps the schedule, and how often it does."""
    lines = {line: n for line, n in run.schedule_lines.items() if n > 1}
    if not lines:
        return None, ""
    often = sorted(lines.items(), key=lambda item: -item[1])
    total, steps = sum(lines.values()), max(len(run.steps), 1)
    line = often[0][0]
    if len(often) > 1 and total > 1.5 * steps:
        both = " and ".join(str(at) for at, _ in often[:2])
        return often[1][0], f"the schedule is stepped {total / steps:.2g} times per step, at {both}"
    return line, f"the schedule is stepped {total} times in {steps} steps"


def _zero(
    rates: list[float], steps: list[ObservedStep], schedule: tuple[SourceLine | None, str]
) -> Finding | None:
    zeros = [s.number for s, rate in zip(steps, rates) if rate == 0]
    if len(zeros) < LOST_STEPS and len(zeros) < len(rates):
        return None
    if len(zeros) < PART * len(rates):
        return None
    when = "at every step" if len(zeros) == len(rates) else f"from step {zeros[0]} on"
    line, told = schedule
    return Finding(
        "rate",
        "",
        0.0,
        f"the learning rate is 0 {when}: no step moves anything" + (f"; {told}" if told else ""),
        "a learning rate above 0" if not told else "a schedule that is as long as the training",
        line or steps[-1].line,
        confidence="certain",
        basis=f"read from the optimizer at {len(zeros)} of {len(rates)} steps",
    )


def _dead(
    rates: list[float], steps: list[ObservedStep], schedule: tuple[SourceLine | None, str]
) -> Finding | None:
    high = max(rates)
    at = rates.index(high)
    tiny = [s.number for s, rate in zip(steps[at:], rates[at:]) if rate < DEAD * high]
    if len(tiny) < LOST_STEPS or len(tiny) < PART * len(rates):
        return None
    line, told = schedule
    factors = [b / a for a, b in itertools.pairwise(rates) if a > 0]
    usual = f", each time by ×{short(min(factors))}" if factors and min(factors) < 1 else ""
    return Finding(
        "rate",
        "",
        rates[-1] / high,
        f"the learning rate falls from {short(high)} to {short(rates[-1])}{usual}; from step "
        f"{tiny[0]} on it is too small to move anything" + (f"; {told}" if told else ""),
        "step the schedule once per epoch if that is its unit, a gamma closer to 1, or a longer "
        "schedule",
        line or steps[-1].line,
        confidence="certain",
        basis=f"the rates of {len(rates)} steps, read from the optimizer",
    )


def _grown(
    run: ObservedRun,
    rates: list[float],
    steps: list[ObservedStep],
    schedule: tuple[SourceLine | None, str],
    optimizer: object,
) -> Finding | None:
    groups = getattr(optimizer, "param_groups", ())
    start = max((float(g.get("initial_lr", rates[0])) for g in groups), default=rates[0])
    meant = max((float(g["max_lr"]) for g in groups if "max_lr" in g), default=0.0)
    high = max(rates)
    if high <= GROWN * max(start, meant, 1e-300):
        return None
    if verdict(run.losses).kind not in (RISES, LOST) and not isinstance(run.error, RuntimeError):
        return None  # a cycle or a test of rates: the loss bears it
    line, told = schedule
    factors = [b / a for a, b in itertools.pairwise(rates) if a > 0 and b != a]
    gamma = f" by ×{short(math.exp(sum(map(math.log, factors)) / len(factors)))}" if factors else ""
    return Finding(
        "rate",
        "",
        high / start,
        f"the learning rate grows from {short(start)} to {short(high)}{gamma} per change, and the "
        "loss grows with it: the schedule is at fault, not the model"
        + (f"; {told}" if told else ""),
        "a gamma below 1",
        line or steps[-1].line,
        confidence="certain",
        basis=f"the rates of {len(rates)} steps, read from the optimizer, and the losses",
    )
