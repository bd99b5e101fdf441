"""The cost of capturing the source line of every op, and of `import gradwalk`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Contestant, Measurement, Round, duration, play, race, seconds_per_step, table

OPS = 1000
ELEMENTS = 16
ROUNDS = 31
IMPORT_ROUNDS = 15

# Runs in a fresh interpreter each time. NumPy is imported first; the rest is gradwalk's.
IMPORT_PROGRAM = """
import json, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import gradwalk
print(json.dumps([middle - start, time.perf_counter() - middle]))
"""


def forward_only(kind: str) -> Round:
    """Create ops and drop them: a line is captured only when a node is created.

    On and off share a process, because two processes differ by more than the capture costs.
    """
    gradwalk = import_module("gradwalk")
    if kind == "Value":
        start: Any = gradwalk.Value(1.0)
        factor: Any = gradwalk.Value(0.5)
    else:
        start = gradwalk.tensor(np.ones(ELEMENTS, np.float32), requires_grad=True)
        factor = gradwalk.tensor(np.full(ELEMENTS, 0.5, np.float32), requires_grad=True)

    def step() -> float:
        for _ in range(OPS):
            start * factor
        return 0.0

    def one_round() -> Measurement:
        measured = {}
        for name, capture in (("on", True), ("off", False)):
            gradwalk.set_source_lines(capture)
            measured[name] = seconds_per_step(step, 20)["seconds"] / OPS
        return measured

    one_round()
    return one_round


CONTESTANTS: dict[str, Contestant] = {
    kind: partial(forward_only, kind) for kind in ("Value", "Tensor")
}


def report_capture() -> None:
    rows = []
    for kind, result in race(list(CONTESTANTS), ROUNDS).items():
        on, off = result["on"], result["off"]
        rows.append(
            [f"{kind} mul", duration(on), duration(off), duration(on - off), f"{on / off:.2f}"]
        )
    table(
        "Source lines: one op that needs a gradient, forward only",
        ["", "lines on", "lines off", "cost", "ratio"],
        rows,
    )


def report_import() -> None:
    """Time imports as users see them, with cached bytecode, whatever this environment sets."""
    command = [sys.executable, "-c", IMPORT_PROGRAM]
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            for _ in range(1 + IMPORT_ROUNDS)
        ]
    measured = [json.loads(run.stdout) for run in runs[1:]]
    numpy_alone, ours = (statistics.median(times) for times in zip(*measured, strict=True))
    table(
        "Import time in a fresh process",
        ["", "time"],
        [["import numpy", duration(numpy_alone)], ["import gradwalk after it", duration(ours)]],
    )


def report() -> None:
    report_capture()
    report_import()


if __name__ == "__main__":
    play(CONTESTANTS, report)
