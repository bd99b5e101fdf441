"""Measure the architectures that results.json lacks, then write the page.

Each runs in a process of its own with a time limit, and its result is kept as soon as it is known:
an interrupted run continues where it stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from tools.coverage.architectures import NAMES
from tools.coverage.page import PAGE, load, page, save, versions

LIMIT = 400  # seconds for one architecture


def measure(name: str) -> dict[str, Any]:
    """The row of an architecture; what went wrong if it has none."""
    command = [sys.executable, "-m", "tools.coverage.examine", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {LIMIT} seconds"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1][:200]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def main(again: list[str]) -> None:
    """Measure what is missing and what `again` names."""
    rows = load()["architectures"]
    missing = [n for n in NAMES if n not in rows or any(part in n for part in again)]
    for count, name in enumerate(missing, 1):
        began = time.perf_counter()
        row = measure(name)
        result = load()
        result["versions"] = versions()
        result["architectures"][name] = row
        save(result)
        told = row.get("error") or f"opaque {sum(row['opaque'].values())}, import {row['import']}"
        seconds = time.perf_counter() - began
        print(f"[{count}/{len(missing)}] {name}: {told[:90]} ({seconds:.0f} s)", flush=True)
    PAGE.write_text(page(load()))


if __name__ == "__main__":
    main(sys.argv[1:])
