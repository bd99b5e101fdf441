"""Measure the architectures that results.json lacks, then write the page.

Each runs in a process of its own with a limit of processor time, and its result is kept as soon as
it is known: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

from tools.coverage.architectures import NAMES
from tools.coverage.examine import answer
from tools.coverage.page import PAGE, load, page, save, versions

LIMIT = 400  # seconds of processor time for one architecture


def measure(name: str) -> dict[str, Any]:
    """The row of an architecture; what went wrong if it has none."""
    context = multiprocessing.get_context("forkserver")
    # Importing takes longer than most architectures, so the processes begin with it done.
    context.set_forkserver_preload(["tools.coverage.preloaded"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(name, theirs, LIMIT))
    process.start()
    theirs.close()
    try:
        row: dict[str, Any] = ours.recv()
        return row
    except EOFError:
        return {"error": f"killed, or more than {LIMIT} seconds"}
    finally:
        process.kill()
        process.join()


def main(again: list[str]) -> None:
    """Measure what is missing and what `again` names."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    rows = load()["architectures"]
    missing = [n for n in NAMES if n not in rows or any(part in n for part in again)]
    for count, name in enumerate(missing, 1):
        began = time.perf_counter()
        row = measure(name)
        result = load()
        result["versions"] = versions()
        result["architectures"][name] = row
        save(result)
        told = row.get("error") or (
            f"opaque {sum(row['opaque'].values())}, NaN missed {len(row['missed'])}, "
            f"import {row['import']}"
        )
        seconds = time.perf_counter() - began
        print(f"[{count}/{len(missing)}] {name}: {told[:90]} ({seconds:.0f} s)", flush=True)
    PAGE.write_text(page(load()))


if __name__ == "__main__":
    main(sys.argv[1:])
