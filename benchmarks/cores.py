"""Compiled training steps on 1, 2, 4, 8 … threads: how much faster more cores make a step.

    python benchmarks/cores.py           all steps, up to the cores of this machine
    python benchmarks/cores.py gpt       one step

The ratio is a contestant's own time on one thread over its time on that many. Each contestant is a
process of its own; the ones that wait are stopped, as in `under_load.py`.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from functools import partial

from harness import duration, table
from steps.problems import PROBLEMS
from under_load import HERE, Form, contestant, mean_times

ROUNDS = 5
LIBRARIES: dict[str, partial[Form]] = {
    "gradwalk": partial(Form, "in_gradwalk", {}),
    "PyTorch": partial(Form, "in_torch", {}),
    "JAX": partial(Form, "in_jax", {}),
}


def counts() -> list[int]:
    """Powers of two up to the cores that this process may use."""
    most = len(os.sched_getaffinity(0))
    return [1 << power for power in range(most.bit_length()) if 1 << power <= most]


def measure(row: str, form: partial[Form], rounds: int) -> dict[int, float]:
    """Seconds of a step by number of threads."""
    with ExitStack() as stack:
        turns = {
            count: stack.enter_context(contestant(row, form(threads=count), HERE))
            for count in counts()
        }
        return mean_times(turns, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(PROBLEMS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in PROBLEMS]:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(PROBLEMS)}")
    for row in options.rows or PROBLEMS:
        cells = []
        for library, form in LIBRARIES.items():
            try:
                found = measure(row, form, options.rounds)
            except RuntimeError as missing:
                print(missing)
                continue
            times = [f"{duration(each)} ({found[1] / each:.2f})" for each in found.values()]
            cells.append([library, *times])
        table(f"{row}: one training step, by threads", ["", *map(str, counts())], cells)


if __name__ == "__main__":
    main()
