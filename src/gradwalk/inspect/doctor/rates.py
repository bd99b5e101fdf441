"""The learning rate of every step: its history in words, and what is wrong with it."""

from __future__ import annotations

import itertools
import math

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.doctor.loss_curve import LOST, RISES, verdict
from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short

SHOWN = 6  # changes
KEPT = 512  # changes to keep
DEAD = 1e-4  # of the largest rate: below, nothing moves any more
PART = 0.25  # of the steps that may be so small; a cosine ends with few
LOST_STEPS = 3  # steps at a rate of 0: a warm-up may begin with one
GROWN = 3.0  # times the rate that a schedule started from


class RateHistory:
    """The learning rate, step after step: its changes, and its extremes if these are many."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, float]] = []  # first steps of a rate; later the last ones
        self.first = self.last = self.low = self.high = math.nan
        self._count = 0

    def note(self, step: int, rate: float) -> None:
        """Note the rate of a step."""
        if rate == self.last:
            return
        self._count += 1
        self.last = rate
        if self._count == 1:
            self.first = self.low = self.high = rate
        self.low, self.high = min(self.low, rate), max(self.high, rate)
        self.changes.append((step, rate))
        if len(self.changes) > KEPT:  # every second one is enough of so many
            self.changes = [self.changes[0], *self.changes[1:-1:2], self.changes[-1]]

    @property
    def grown(self) -> str:
        """How far it has grown since the first step, if that is more than a warm-up does."""
        if not self.first > 0 or self.last < max(GROWN * self.first, self.high):
            return ""
        return f"from {short(self.first)} to {short(self.last)}"

    def __str__(self) -> str:
        if self._count < 2:
            return f"{short(self.first)} throughout" if self._count else ""
        if self._count <= SHOWN:
            return ", ".join(f"{short(rate)} from step {step}" for step, rate in self.changes)
        middle = self.changes[len(self.changes) // 2]
        shown = (self.changes[0], middle, self.changes[-1])
        told = ", ".join(f"{short(rate)} at step {step}" for step, rate in shown)
        return f"{told}; between {short(self.low)} and {short(self.high)}"


def history(run: ObservedRun) -> str:
    """The learning rate in words: 0.1 from step 0, 0.01 from step 30."""
    told = []
    for known in run.optimizers:
        steps = [s for s in run.steps if s.optimizer is known.optimizer and s.rates]
        name = f"{type(known.optimizer).__name__}: " if len(run.optimizers) > 1 else ""
        if steps:
            told.append(name + _in_words(steps))
    return "; ".join(told)


def _in_words(steps: list[ObservedStep]) -> str:
    """The rates of all groups that differ."""
    texts = []
    for group in range(len(steps[0].rates)):
        rates = RateHistory()
        for step in steps:
            if group < len(step.rates):
                rates.note(step.number, step.rates[group])
        texts.append(str(rates))
    return " and ".join(dict.fromkeys(texts))


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
