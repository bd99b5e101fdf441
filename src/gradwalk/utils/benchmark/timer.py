"""Timing one statement, with a number of threads that is set meanwhile."""

from __future__ import annotations

import math
import sys
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from gradwalk.engine.threads import get_num_threads, set_num_threads


def now() -> float:
    """The clock, once devices have finished what they were given."""
    if "jax" in sys.modules:
        from gradwalk.compiler.backends.xla import machine

        machine.synchronize()
    return perf_counter()


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit in which a time has one to three digits before its point, and its seconds."""
    fitting = [item for item in UNITS.items() if item[1] <= seconds]
    return fitting[-1] if fitting else ("ns", UNITS["ns"])


@dataclass
class Measurement:
    """The times of runs of one statement, in seconds; a run executes it `number_per_run` times.

    >>> m = Measurement(10, [2e-5, 4e-5, 3e-5], label="add")
    >>> m.median, m.significant_figures
    (3e-06, 1)
    """

    number_per_run: int
    raw_times: list[float]
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    stmt: str = ""
    num_threads: int = 1

    @cached_property
    def times(self) -> list[float]:
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def mean(self) -> float:
        return float(np.mean(self.times))

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        lower, upper = np.quantile(self.times, (0.25, 0.75))
        return float(upper - lower)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median the spread of the times leaves certain, 1 to 5."""
        width = self.iqr / math.sqrt(len(self.times)) or self.median / 100
        return min(max(math.floor(math.log10(self.median / width)), 1), 5)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread so far that something else was running."""
        return self.iqr > 0.1 * self.median

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the quartiles lie closer than this part of the median."""
        return self.iqr <= threshold * self.median

    @property
    def title(self) -> str:
        name = self.label or self.stmt.strip()
        return f"{name}: {self.sub_label}" if self.sub_label else name

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt.strip() or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same statement as one each."""
        groups: dict[Any, list[Measurement]] = {}
        for one in measurements:
            kept = (one.number_per_run, one.label, one.sub_label, one.description)
            groups.setdefault((*kept, one.env, one.stmt, one.num_threads), []).append(one)
        return [
            Measurement(key[0], [t for one in group for t in one.raw_times], *key[1:])
            for key, group in groups.items()
        ]

    def __repr__(self) -> str:
        unit, scale = unit_of(self.median)
        lines = [f"<{type(self).__name__}>", self.title]
        lines += [self.description] if self.description else []
        runs = len(self.raw_times)
        if runs == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            lower, upper = (q / scale for q in np.quantile(self.times, (0.25, 0.75)))
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({lower:.2f} to {upper:.2f})")
        count = self.number_per_run
        each = f"{count} run{'s' * (count > 1)}{' per measurement' * (runs > 1)}"
        threads = f"{self.num_threads} thread{'s' * (self.num_threads > 1)}"
        lines.append(f"  {runs} measurement{'s' * (runs > 1)}, {each}, {threads}")
        if self.has_warnings:
            lines.append(f"  WARNING: the quartiles lie {self.iqr / self.median:.0%} apart.")
        return "\n".join(lines)


class Timer:
    """Times a statement of Python, by default on one thread.

    >>> timer = Timer("a + b", setup="b = 2", globals={"a": 1})
    >>> timer.timeit(100).mean < 1
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = now,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if global_setup or str(getattr(language, "value", language)).lower() not in ("python", "0"):
            raise ValueError(
                "Timer times statements of Python, not of C++. Fix: language='python', and no "
                "global_setup"
            )
        if not isinstance(num_threads, int) or num_threads < 1:
            raise ValueError(f"num_threads is a whole number from 1 on, not {num_threads!r}")
        names = {"torch": sys.modules["gradwalk"], **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._facts = (label, sub_label, description, env, stmt, num_threads)
        self._num_threads = num_threads

    def _times(self, number: int, runs: int = 1) -> list[float]:
        before = get_num_threads()
        set_num_threads(self._num_threads)
        try:
            return [self._timer.timeit(number) for _ in range(runs)]
        finally:
            set_num_threads(before)

    def _warm_up(self) -> None:
        """Run the first calls, which make kernels."""
        self._times(3)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """The statement, executed `number` times in one run."""
        self._warm_up()
        return Measurement(number, self._times(number), *self._facts)

    def _long_enough(self, together: float) -> int:
        """How many executions take a thousandth of the time of all runs together."""
        self._warm_up()
        number, seconds = 1, max(together / 1000, 1e-4)
        while True:
            took = self._times(number)[0]
            if took >= seconds:
                return number
            number *= 10 if took < seconds / 10 else 2

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of at least a thousandth of `min_run_time`, until they took so long together."""
        number = self._long_enough(min_run_time)
        times: list[float] = []
        while sum(times) < min_run_time:
            times += self._times(number)
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, *self._facts)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As `blocked_autorange`, until the quartiles lie within `threshold` of the median."""
        number = self._long_enough(min_run_time)
        times: list[float] = []
        while True:
            times += self._times(number)
            if callback is not None:
                callback(number, times[-1])
            found, total = Measurement(number, times, *self._facts), sum(times)
            settled = len(times) > 3 and total >= min_run_time and found.meets_confidence(threshold)
            if settled or total >= max_run_time:
                return found
