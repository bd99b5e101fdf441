"""Race two checkouts of gradwalk: is the new one slower?

    git worktree add ../old v0.1.0
    python benchmarks/commits.py ../old            compiled and eager steps, Values, a recording
    python benchmarks/commits.py ../old gpt "eager mlp" --rounds 31

Each row runs in two processes, one per checkout, with that checkout's own benchmarks. They take
turns, round by round, so that a busy machine slows both. The process that waits is stopped: its
BLAS threads would go on spinning. The fastest round counts.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ROUND_SECONDS = 0.1
WARM_UP = 3
RATE = 1e-12  # too small to change the work over the rounds
NETWORKS = ("mlp", "cnn", "lstm", "gpt")
COMPILED = ("moons", "pinn", "lstm", "cnn", "gpt", "mlp")
ROWS = (
    *COMPILED,
    *(f"eager {name}" for name in NETWORKS),
    *(f"recorded {name}" for name in NETWORKS),
    "values",
    "values replayed",
    "small operations",
)


def step_of(row: str) -> Callable[[], Any]:
    """One step of a row, made from the benchmarks of the checkout that `sys.path` names."""
    kind, _, name = row.partition(" ")
    if row in COMPILED:
        from steps.in_gradwalk import prepare

        return prepare(row, RATE)()
    if row == "values replayed":
        from steps.in_scalars import prepare as prepare_values

        return prepare_values("values", RATE, values="gradwalk", network="gradwalk.scalar")()
    if row == "values":
        from scalar import training_step as scalar_step

        return scalar_step("gradwalk", "gradwalk.scalar")
    import gradwalk

    if row == "small operations":
        return partial(small_operations, gradwalk)
    from models import NETWORKS as networks
    from models import training_step

    _, step = training_step(gradwalk, networks[name], RATE)

    def recorded() -> None:
        with gradwalk.record():
            step()

    return recorded if kind == "recorded" else step


def small_operations(gradwalk: Any) -> None:
    """Methods, operators and in-place methods on a small tensor: the cost of a call."""
    x = gradwalk.ones(4, 4, requires_grad=True)
    for _ in range(20):
        y = (x * 2 + 1).tanh().sum(dim=1).exp().mean()
        y.backward()
        x.detach().mul_(1.0).add_(0.0).clamp_(-9, 9)


def work(checkout: str, row: str) -> None:
    """Answer each line of input with the seconds that a step takes."""
    sys.path[:0] = [f"{checkout}/src", f"{checkout}/benchmarks"]
    step = step_of(row)
    for _ in range(WARM_UP):
        step()
    began = time.perf_counter()
    step()
    repeats = max(1, int(ROUND_SECONDS / max(time.perf_counter() - began, 1e-7)))
    gc.collect()
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        for _ in range(repeats):
            step()
        print((time.perf_counter() - began) / repeats, flush=True)


def race(checkouts: list[Path], row: str, rounds: int) -> list[float]:
    """The fastest round of each checkout, in seconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": ""}
    command = [sys.executable, __file__, "--work"]
    workers = [
        subprocess.Popen(
            [*command, str(checkout), row],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONPATH": f"{checkout}/src:{checkout}/benchmarks"},
        )
        for checkout in checkouts
    ]
    best = [float("inf")] * len(workers)
    try:
        for worker in workers:
            if worker.stdout.readline() != "ready\n":  # type: ignore[union-attr]
                raise SystemExit(f"{row}: {worker.args[3]} cannot run it")  # type: ignore[index]
        for turn in range(rounds):
            for k in range(len(workers)) if turn % 2 else reversed(range(len(workers))):
                workers[1 - k].send_signal(signal.SIGSTOP)
                workers[k].send_signal(signal.SIGCONT)
                print("go", file=workers[k].stdin, flush=True)
                best[k] = min(best[k], float(workers[k].stdout.readline()))  # type: ignore[union-attr]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return best


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    print(f"{'step':<20}{'old':>12}{'new':>12}{'new / old':>12}")
    for row in options.rows or ROWS:
        old, new = race([options.old.resolve(), HERE], row, options.rounds)
        print(f"{row:<20}{old * 1e6:>9.1f} µs{new * 1e6:>9.1f} µs{new / old:>12.3f}", flush=True)


if __name__ == "__main__":
    main()
