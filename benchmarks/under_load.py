"""Compiled training steps beside a busy neighbour: two threads against one, and against others.

A process that spins keeps one core busy, so two threads of a step share what is left of two cores.
gradwalk on two threads should not be slower than on one under the same load, and on a quiet machine
it should be faster. PyTorch runs on two threads as well, in its faster form; so does JAX.

    python benchmarks/under_load.py              all steps
    python benchmarks/under_load.py pinn --old ../old    and the step of another checkout

Each contestant is a process. They take turns; the ones that wait are stopped, since threads of BLAS
go on spinning. The time of a step is the mean over all rounds: a call that a busy machine stalls
counts. A contestant that cannot run is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from harness import Bar, duration, ratio_cells, table
from steps.problems import PROBLEMS

HERE = Path(__file__).resolve().parents[1]
ROUNDS = 5
ROUND_SECONDS = 1.0
WARM_UP = 5
RATE = 1e-12  # too small to change the work over the rounds
BAR = Bar(highest=1.3)


class Form(NamedTuple):
    """A way to run a step: the module of `steps` that prepares it, its options, threads."""

    module: str
    options: dict[str, Any]
    threads: int


CONTESTANTS = {
    "1 thread": Form("in_gradwalk", {}, 1),
    "2 threads": Form("in_gradwalk", {}, 2),
    "old": Form("in_gradwalk", {}, 2),
    "PyTorch": Form("in_torch", {}, 2),
    "PyTorch fused": Form("in_torch", {"fused": True}, 2),
    "JAX": Form("in_jax", {}, 2),
}
Name = TypeVar("Name")
Turn = Callable[[], tuple[int, float]]  # steps done, and the seconds they took


def work(row: str, module: str, options: str) -> None:
    """Answer each line of input with steps done and seconds."""
    step = import_module(f"steps.{module}").prepare(row, RATE, **json.loads(options))()
    for _ in range(WARM_UP):
        step()()
    print("ready", flush=True)
    for _ in sys.stdin:
        count, begin = 0, time.perf_counter()
        while (now := time.perf_counter()) < begin + ROUND_SECONDS:
            step()()
            count += 1
        print(count, now - begin, flush=True)


@contextmanager
def contestant(row: str, form: Form, checkout: Path) -> Iterator[Turn]:
    """Start one and stop it until its turn; yields what takes a turn."""
    threads = str(form.threads)
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "NPROC": threads,  # XLA's
        "PYTHONPATH": os.pathsep.join(
            [f"{checkout}/src", f"{HERE}/benchmarks", os.environ.get("PYTHONPATH", "")]
        ),
    }
    command = [sys.executable, __file__, "--work", row, form.module, json.dumps(form.options)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin, process.stdout
        if answers.readline() != "ready\n":
            raise RuntimeError(f"{form} cannot run {row}")
        process.send_signal(signal.SIGSTOP)

        def turn() -> tuple[int, float]:
            process.send_signal(signal.SIGCONT)
            print(file=requests, flush=True)
            count, seconds = answers.readline().split()
            process.send_signal(signal.SIGSTOP)
            return int(count), float(seconds)

        try:
            yield turn
        finally:
            process.kill()


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """A process that spins, on whatever core the system gives it."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def measure(row: str, old: Path | None, rounds: int) -> list[dict[str, float]]:
    """Seconds of a step by contestant, on a machine as it is and beside the neighbour."""
    with ExitStack() as stack:
        turns = {}
        for name in CONTESTANTS:
            if name == "old" and old is None:
                continue
            checkout = old if name == "old" and old is not None else HERE
            try:
                turns[name] = stack.enter_context(contestant(row, CONTESTANTS[name], checkout))
            except RuntimeError:
                continue
        found = []
        for busy in (False, True):
            with neighbour(busy):
                found.append(mean_times(turns, rounds))
    return found


def mean_times(turns: dict[Name, Turn], rounds: int) -> dict[Name, float]:
    """Let the contestants take turns; seconds of a step by contestant."""
    steps = dict.fromkeys(turns, 0)
    seconds = dict.fromkeys(turns, 0.0)
    for number in range(rounds):
        for name in turns if number % 2 else reversed(turns):
            count, spent = turns[name]()
            steps[name] += count
            seconds[name] += spent
    return {name: seconds[name] / steps[name] for name in turns}


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(PROBLEMS))
    parser.add_argument("--old", type=Path, help="another checkout of gradwalk to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in PROBLEMS]:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(PROBLEMS)}")
    names = [name for name in CONTESTANTS if name != "old" or options.old]
    rows: list[list[list[str]]] = [[], []]
    for row in options.rows or PROBLEMS:
        for cells, found in zip(rows, measure(row, options.old, options.rounds), strict=True):
            times = [duration(found[name]) if name in found else "-" for name in names]
            ratio = found["2 threads"] / found["1 thread"]
            cells.append([row, *times, *ratio_cells(ratio, BAR)])
    heads = ["", *names, "2 / 1", "bar", ""]
    for title, cells in zip(("the machine as it is", "beside a busy neighbour"), rows, strict=True):
        table(f"Under load: one training step, {title}", heads, cells)


if __name__ == "__main__":
    main()
