"""Which kernels a step consists of, and how long each takes.

python -m benchmarks.devices.profile gpt2 gradwalk
"""

from __future__ import annotations

import collections
import glob
import gzip
import json
import sys
import tempfile

import jax

from benchmarks.devices.__main__ import ROWS, number

STEPS, SHOWN = 5, 45


def main(row: str, name: str) -> None:
    step = ROWS[row][name]()
    for _ in range(4):
        last = step()
    number(last)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(STEPS):
                last = step()
            number(last)
        (path,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        with gzip.open(path, "rt") as file:
            events = json.load(file)["traceEvents"]
    names = {
        e["pid"]: e["args"]["name"]
        for e in events
        if e.get("name") == "process_name" and "args" in e
    }
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e.get("name") == "thread_name" and "args" in e
    }
    total: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for e in events:
        on_device = "GPU" in names.get(e.get("pid"), "")
        if e.get("ph") != "X" or not on_device:
            continue
        if "Stream" not in threads.get((e["pid"], e["tid"]), ""):
            continue
        total[e["name"]] += e["dur"] / STEPS / 1e3
        count[e["name"]] += 1
    print(f"{row} {name}: {sum(total.values()):.2f} ms of kernels a step")
    for kernel, taken in total.most_common(SHOWN):
        print(f"{taken:8.3f} ms {count[kernel] / STEPS:6.1f} × {kernel[:110]}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
