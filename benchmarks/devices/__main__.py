"""Time steps in turns: each contestant in a process of its own, so that memory is its own too."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.devices import gpt, lstm, resnet, small

ROUNDS, STEPS = 3, 10
Make = Callable[[], Callable[[], Any]]
ROWS: dict[str, dict[str, Make]] = {
    "gpt2": {
        "gradwalk": lambda: gpt.gradwalk_step(gpt.GPT2, True),
        "torch.compile": lambda: gpt.torch_step(gpt.GPT2, True),
        "jax": lambda: gpt.jax_step(gpt.GPT2, True),
    },
    "gpt2-tf32": {
        "gradwalk": lambda: gpt.gradwalk_step(gpt.GPT2, False),
        "torch.compile": lambda: gpt.torch_step(gpt.GPT2, False),
        "jax": lambda: gpt.jax_step(gpt.GPT2, False),
    },
    "char": {
        "gradwalk": lambda: gpt.gradwalk_step(gpt.CHAR, True),
        "torch.compile": lambda: gpt.torch_step(gpt.CHAR, True),
        "jax": lambda: gpt.jax_step(gpt.CHAR, True),
    },
    "resnet": {
        "gradwalk": resnet.gradwalk_step,
        "torch.compile": resnet.torch_step,
        "jax": resnet.jax_step,
    },
    "lstm": {
        "gradwalk": lstm.gradwalk_step,
        "torch": lstm.torch_step,
        "jax": lstm.jax_step,
    },
    "small": {"gradwalk": small.gradwalk_step, "jax": small.jax_step},
}


def contestant(row: str, name: str) -> None:
    """Serve one contestant: each line on the input runs some steps and answers with the time."""
    began = time.perf_counter()
    step = ROWS[row][name]()
    ready = time.perf_counter()
    first = number(step())
    answer = {"setup": ready - began, "first": time.perf_counter() - ready, "loss": first}
    for _ in range(3):
        last = step()
    number(last)
    print(json.dumps(answer), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        for _ in range(STEPS):
            last = step()
        queued = time.perf_counter()
        loss = number(last)
        taken = time.perf_counter() - began
        answer = {"step": taken / STEPS, "host": (queued - began) / STEPS, "loss": loss}
        print(json.dumps({**answer, "memory": memory(name)}), flush=True)


def number(loss: Any) -> float:
    return float(loss.item())


def memory(name: str) -> int:
    """The most bytes of device memory in use at once."""
    if name.startswith("torch"):
        import torch

        return int(torch.cuda.max_memory_allocated())
    import jax

    statistics = jax.local_devices()[0].memory_stats() or {}
    return int(statistics.get("peak_bytes_in_use", 0))


def compare(row: str, names: list[str]) -> None:
    """Print a line for each contestant: the shortest of the rounds."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    processes = {}
    for name in names:
        command = [sys.executable, "-m", "benchmarks.devices", "--serve", row, name]
        processes[name] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
    firsts = {name: ask(process, None) for name, process in processes.items()}
    rounds: dict[str, list[Any]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name, process in processes.items():
            rounds[name].append(ask(process, "go"))
    for name, process in processes.items():
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        process.wait()
        if not all(rounds[name]):
            print(f"{row:12} {name:14} failed", flush=True)
            continue
        best = min(rounds[name], key=lambda r: r["step"])
        first = firsts[name]
        print(
            f"{row:12} {name:14} {best['step'] * 1e3:8.2f} ms a step, host "
            f"{best['host'] * 1e3:6.2f} ms; first {first['first']:5.1f} s, peak "
            f"{best['memory'] / 2**30:5.2f} GiB, "
            f"loss {first['loss']:.4f} to {best['loss']:.4f}",
            flush=True,
        )


def ask(process: Any, line: str | None) -> Any:
    """One answer of a contestant; None if it is gone."""
    try:
        if line is not None:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        return json.loads(answer) if answer else None
    except BrokenPipeError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS])
    parser.add_argument("--only", nargs="+", help="some contestants")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        contestant(*options.serve)
        return
    for row in options.rows or ROWS:
        compare(row, [name for name in ROWS[row] if not options.only or name in options.only])


if __name__ == "__main__":
    main()
