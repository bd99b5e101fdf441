"""How much memory a process holds at its peak, the same for every library.

No library's own count would be fair to the others: one leaves out its workspaces, another its
graphs. So the kernel counts: pages without a file behind them, which leaves out the code of the
libraries. What was freed is handed back to it first. Linux only.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def available() -> bool:
    return Path("/proc/self/clear_refs").exists()


def restart_peak() -> None:
    """From now on the peak is that of what comes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> float:
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    peak, files = (float(fields[name].split()[0]) for name in ("VmHWM", "RssFile"))
    return 1024 * (peak - files)
