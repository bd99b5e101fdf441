"""Shared by all benchmarks: fair races between processes, and tables of ratios.

A benchmark file names its contestants and passes them to `play`. Each contestant runs in its own
process, so that its heap, caches and garbage do not disturb another. All contestants set up first;
then they take turns, round by round, so that other load on the machine affects all of them alike.
Unless a benchmark says otherwise, each runs on one thread, and the median over the rounds counts.
Nothing is asserted: the table shows whether a bar is met or missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

Measurement = dict[str, float]
Round = Callable[[], Measurement]
Contestant = Callable[[], Round]  # sets up, and returns the function of one round

THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class ContestantFailed(Exception):
    """A contestant's process ended before it answered."""


@dataclass(frozen=True)
class Bar:
    """The range that a ratio should lie in."""

    lowest: float = 0.0
    highest: float = math.inf

    def __str__(self) -> str:
        if self.highest == math.inf:
            return f">= {self.lowest:g}"
        return f"{self.lowest:g} to {self.highest:g}" if self.lowest else f"<= {self.highest:g}"

    def verdict(self, ratio: float) -> str:
        return "pass" if self.lowest <= ratio <= self.highest else "MISS"


def play(
    contestants: Mapping[str, Contestant],
    report: Callable[..., None],
    check: Callable[..., None] | None = None,
    rows: Sequence[str] = (),
) -> None:
    """Run the benchmark's main program, or the one contestant that `race` started.

    `--check` runs `check` instead of the race, to test that all contestants do the same work. If
    there are `rows`, both get those named on the command line, or else all of them.
    """
    parser = argparse.ArgumentParser()
    if rows:
        parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(rows))
    if check is not None:
        parser.add_argument("--check", action="store_true", help="compare results; time nothing")
    parser.add_argument("--contestant", choices=list(contestants), help=argparse.SUPPRESS)
    parser.add_argument("--collector", choices=["on", "off"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant is not None:
        _answer_rounds(contestants[arguments.contestant], arguments.collector == "on")
        return
    chosen = [arguments.rows or list(rows)] if rows else []
    if unknown := [row for row in getattr(arguments, "rows", []) if row not in rows]:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(rows)}")
    if check is not None and arguments.check:
        check(*chosen)
        return
    try:
        report(*chosen)
    except ContestantFailed as failure:
        sys.exit(str(failure))


def race(
    names: Sequence[str],
    rounds: int,
    *,
    garbage_collector: bool = True,
    threads: int = 1,
    pick: Callable[[Iterable[float]], float] = statistics.median,
) -> dict[str, Measurement]:
    """Let the contestants take turns; `pick` reduces the measurements of each to one number."""
    measured: dict[str, list[Measurement]] = {name: [] for name in names}
    with ExitStack() as stack:
        ask = {
            name: stack.enter_context(_process(name, garbage_collector, threads)) for name in names
        }
        for _ in range(rounds):
            for name in names:
                measured[name].append(ask[name]())
    return {
        name: {key: pick(each[key] for each in answers) for key in answers[0]}
        for name, answers in measured.items()
    }


def seconds_per_step(step: Callable[[], float], repeats: int) -> Measurement:
    """Time `step`, which returns its answer so that we can check that contestants do the same work.

    The result is the mean over the repeats: a garbage collection in some of them is a cost.
    """
    total = 0.0
    for _ in range(repeats):
        if not gc.isenabled():
            gc.collect()  # garbage must not slow a contestant by filling the memory
        start = time.perf_counter()
        answer = step()
        total += time.perf_counter() - start
    return {"seconds": total / repeats, "answer": answer}


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads, the first column left-aligned and the others right-aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    print(f"\n{title}")
    for row in [heads, *rows]:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(["", first, *others]).rstrip(), flush=True)


def ratio_cells(ratio: float, bar: Bar | None = None) -> list[str]:
    """The three cells that end a row: ratio, bar, verdict."""
    return [f"{ratio:.2f}", *([str(bar), bar.verdict(ratio)] if bar else ["-", ""])]


def agreement(*measurements: Measurement) -> str:
    """Describe whether the contestants got the same answer."""
    answers = [measurement["answer"] for measurement in measurements]
    same = all(math.isclose(answer, answers[0], rel_tol=1e-4) for answer in answers)
    listed = ", ".join(f"{answer:.6g}" for answer in answers)
    return f"  answers agree: {answers[0]:.6g}" if same else f"  ANSWERS DIFFER: {listed}"


def duration(seconds: float) -> str:
    """About three digits, with a suitable unit."""
    scales = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
    unit = next((unit for unit, scale in scales.items() if abs(seconds) * scale < 999.5), "s")
    in_unit = seconds * scales[unit]
    decimals = 2 if abs(in_unit) < 9.995 else 1 if abs(in_unit) < 99.95 else 0
    return f"{in_unit:.{decimals}f} {unit}"


def size(count: float) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def _environment(threads: int) -> dict[str, str]:
    """Set the number of threads, and cache bytecode, as on a normal machine."""
    found = os.environ | dict.fromkeys(THREAD_SETTINGS, str(threads))
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


@contextmanager
def _process(name: str, garbage_collector: bool, threads: int) -> Iterator[Round]:
    """Start a contestant, wait until it is set up, and yield a function that runs a round."""
    collector = "on" if garbage_collector else "off"
    command = [sys.executable, sys.argv[0], "--contestant", name, "--collector", collector]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env=_environment(threads),
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def read() -> Measurement:
            line = answers.readline()
            if not line:
                process.wait()
                complaints.seek(0)
                raise ContestantFailed(f"{name} could not run:\n{complaints.read()}")
            measurement: Measurement = json.loads(line)
            return measurement

        def ask() -> Measurement:
            print(file=requests, flush=True)
            return read()

        read()
        yield ask


def _answer_rounds(contestant: Contestant, garbage_collector: bool) -> None:
    """Act as a contestant: each input line requests a round, each output line answers it."""
    if not garbage_collector:
        gc.disable()
    one_round = contestant()
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(one_round()), flush=True)
