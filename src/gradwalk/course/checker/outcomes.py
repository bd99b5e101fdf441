"""The outcome of each trial of a learner's engine, and the words for it."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradwalk.course.checker.process import Failure
from gradwalk.course.checker.trials import GraphTrial
from gradwalk.printers.scalars import number

MISTAKES = Path(__file__).with_name("mistakes.toml")
SLOW, NOT_TRIED = "slow", "not tried"  # endings that are not a message of the process
TOLERANCE = 1e-9  # relative above 1, absolute below


def close(got: float, want: float) -> bool:
    """Whether two numbers are the same but for rounding; NaN is close to nothing."""
    return math.isclose(got, want, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


class Mistake(NamedTuple):
    """Something an engine does wrong."""

    key: str  # the same in every release: for tables and statistics
    title: str
    text: str


@functools.cache
def known_mistakes() -> dict[str, dict[str, str]]:
    """The title and the text of every mistake, by its name."""
    return tomllib.loads(MISTAKES.read_text(encoding="utf-8"))


def mistake(name: str, key: str = "", **facts: Any) -> Mistake:
    """A mistake of that name, its words filled in; the key is the first word of the name."""
    entry = known_mistakes()[name]
    key = key or name.partition(" ")[0]
    return Mistake(key, entry["title"].format(**facts), entry["text"].format(**facts))


class Difference(NamedTuple):
    """A number that is not what it should be."""

    node: int  # its index
    what: str  # "value" or "gradient"
    got: float
    want: float


@dataclass(frozen=True)
class Outcome:
    """One trial: the numbers that came back, or why none did."""

    trial: GraphTrial
    numbers: tuple[float, ...] | None = None
    failure: Failure | None = None
    ended: str = ""  # SLOW, NOT_TRIED, or what ended the process

    @functools.cached_property
    def differences(self) -> list[Difference]:
        """The numbers that are wrong."""
        pairs = zip(self.numbers or (), self.trial.expected)
        return [
            Difference(self.trial.watched[i // 2], "gradient" if i % 2 else "value", got, want)
            for i, (got, want) in enumerate(pairs)
            if not close(got, want)
        ]

    @property
    def right(self) -> bool:
        """Whether all numbers came back and are right."""
        return self.numbers is not None and not self.differences

    def of(self, name: str, what: str = "gradient") -> float:
        """A number that came back."""
        assert self.numbers is not None
        place = self.trial.watched.index(self.trial.names.index(name))
        return self.numbers[2 * place + (what == "gradient")]

    def has_gradients(self, gradients: Mapping[str, float]) -> bool:
        """Whether these are the gradients that came back."""
        return all(close(self.of(name), gradients.get(name, 0.0)) for name in self.trial.names)

    def shows(self, name: str, key: str = "", **facts: Any) -> Mistake:
        """A mistake that shows here."""
        return mistake(name, key, example=self.in_words(), **facts)

    def in_words(self) -> str:
        """The first thing that is wrong here, as a sentence."""
        if self.failure is not None:
            return f"{self.trial.text}: {raised(self.failure)}."
        if not self.differences:
            ended = "no answer within the time limit" if self.ended == SLOW else self.ended
            return f"{self.trial.text}: {ended}."
        # A wrong value first; of gradients that of a leaf, where a learner looks.
        first = min(
            self.differences,
            key=lambda d: d.what == "gradient" and 1 + (self.trial.steps[d.node][0] != "leaf"),
        )
        name = self.trial.names[first.node]
        return (
            f"{self.trial.text}: your {first.what} of {name} is {precise(first.got)}; "
            f"the correct {first.what} is {precise(first.want)}."
        )


def precise(x: float) -> str:
    """A number as people write it, with enough digits to tell it from others."""
    short = not math.isfinite(x) or close(float(f"{x:.4f}"), x)
    return number(x) if short else f"{x:.6g}".replace("-", "−")


def raised(failure: Failure) -> str:
    """An exception as a phrase."""
    where = f" (line {failure.line})" if failure.line else ""
    message = f": {failure.message}" if failure.message else ""
    return f"raises {failure.kind}{message}{where}"
