"""Findings of `health`: their text, their chains of factors, and the limits."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace.routes import listed, wrapped

WIDTH = 80


@dataclass(slots=True)
class Factor:
    """How one operation changed the norm of the gradient."""

    node: int
    op: str
    value: float  # norm below / norm above
    layer: str  # of a layer, its name
    line: SourceLine | None
    weight_norm: float | None = None  # per row: what a random gradient would be multiplied by


@dataclass(frozen=True)
class Limits:
    """Thresholds. `health(model, loss, limits=Limits(vanishing=1e-5))` moves one."""

    vanishing: float = 1e-3  # gradient of a layer by that of the last layer
    exploding: float = 1e3
    dead: float = 0.5  # share of the units of a ReLU that give 0 for the whole batch
    saturated: float = 0.5  # share of outputs where a sigmoid, tanh or softmax is flat
    flat: float = 0.05  # slope, by the largest slope, below which it counts as flat
    samples: int = 16  # rows that it takes to call a unit dead
    growth: float = 100.0  # of the activations, over all hidden layers
    large_update: float = 0.1  # of a weight in one step, by its norm
    small_update: float = 1e-6


@dataclass
class Finding(Report):
    """A problem: its layer, its line, the chain of factors behind it, and what to try."""

    kind: str  # "vanishing", "exploding", "dead", "saturated", "update", "initialisation", "unused"
    layer: str
    value: float  # what was judged: a ratio or a share
    message: str
    change: str  # to try
    line: SourceLine | None = None  # where it happens
    cause: SourceLine | None = None  # what it came from: weights, input or optimizer
    factors: list[Factor] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # further layers with the same
    confidence: str = ""  # of a finding of the doctor: "certain", "likely" or "possible"
    basis: str = ""  # what the confidence rests on
    _nodes: set[int] = field(default_factory=set)  # what it was seen at, besides the factors
    _about: set[int] = field(default_factory=set)  # parameters that get no gradient, by `id`

    @property
    def chain(self) -> str:
        """The factors in words, the strongest first: "sigmoid ×0.21 six times"."""
        return describe(self.factors)

    def __str__(self) -> str:
        rows = [("", f"{self.kind}: {self.message}")]
        if self.factors:
            rows.append(("because", self.chain))
        if self.line is not None:
            rows.append(("at", str(self.line)))
        if self.cause is not None and self.cause != self.line:
            rows.append(("from", str(self.cause)))
        rows.append(("try", self.change))
        if self.confidence:
            rows.append((self.confidence, self.basis))
        if self.others:
            rows.append(("also", listed(self.others, 6)))
        return "\n".join(_row(head, text) for head, text in rows)


def _row(head: str, text: str) -> str:
    if not head:  # narrower by the number that a report puts before it
        return textwrap.fill(text, WIDTH - 4, subsequent_indent="  ")
    return "\n".join(wrapped(text, f"  {head:<8} ", " " * 11))


def times(count: int) -> str:
    """twice, three times, ..., 13 times."""
    words = ("three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    if count == 2:
        return "twice"
    return f"{words[count - 3]} times" if count <= 12 else f"{count} times"


def describe(factors: list[Factor]) -> str:
    """Describe a chain of factors: equal operations together, the strongest first."""
    if factors and all(math.isnan(f.value) for f in factors):
        return f"{factors[0].op} got a gradient of 0, ×0"
    groups: dict[str, list[Factor]] = {}
    for factor in factors:
        groups.setdefault(factor.op, []).append(factor)

    def strength(members: list[Factor]) -> float:
        total = sum(math.log(f.value) if f.value > 0 else -math.inf for f in members)
        return math.inf if math.isnan(total) else abs(total)

    texts = []
    for op, members in sorted(groups.items(), key=lambda item: -strength(item[1])):
        if all(abs(f.value - 1) < 0.005 for f in members):
            continue  # a view, an addition: what goes in comes out
        text = f"{op} ×{short(mean(members))}"
        if len(members) > 1:
            text += f" {times(len(members))}"
        weights = [f.weight_norm for f in members if f.weight_norm is not None]
        if weights:
            text += f" (weight norm {short(sum(weights) / len(weights))} per row)"
        texts.append(text)
    total = f"in all ×{short(math.prod(f.value for f in factors))}"
    text = ", ".join(texts or ["nothing on the way changed it"])
    return text if len(factors) == 1 else f"{text}; {total}"


def mean(factors: list[Factor]) -> float:
    """The geometric mean of factors."""
    values = [f.value for f in factors]
    if not all(0 < v < math.inf for v in values):
        return math.prod(values)
    return math.exp(sum(math.log(v) for v in values) / len(values))


def strongest(factors: list[Factor], growing: bool) -> Factor | None:
    """The strongest factor of the kind of operation with the largest effect."""
    sign = 1.0 if growing else -1.0

    def effect(factor: Factor) -> float:
        if math.isnan(factor.value):
            return 0.0
        return sign * (math.log(factor.value) if factor.value > 0 else -math.inf)

    totals: dict[str, float] = {}
    for factor in factors:
        totals[factor.op] = totals.get(factor.op, 0.0) + effect(factor)
    if not totals:
        return None
    worst = max(totals, key=lambda op: totals[op])
    return max((f for f in factors if f.op == worst), key=effect)


def percent(share: float) -> str:
    """Whole percents, with 0 and 100 % reserved for exact values."""
    if 0 < share < 0.005:
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{share:.0%}".replace("%", " %")


def together(findings: list[Finding]) -> list[Finding]:
    """Merge findings of one kind, line and cause into the worst, which names the others."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.line, finding.cause), []).append(finding)
    merged = []
    for members in groups.values():
        worst = max(members, key=lambda finding: finding.value)
        worst.others += [finding.layer for finding in members if finding is not worst]
        worst._nodes = {f.node for finding in members for f in finding.factors}
        merged.append(worst)
    return merged
