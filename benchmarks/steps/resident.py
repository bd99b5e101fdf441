"""The peak memory of a process, measured in the same way for every library.

The libraries' own counts are not comparable: one omits its workspaces, another its graphs. We use
the kernel's count of anonymous pages, which omits the code of the libraries. We return freed memory
to the kernel first. Linux only.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def available() -> bool:
    return Path("/proc/self/clear_refs").exists()


def restart_peak() -> None:
    """Reset the peak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> float:
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    peak, files = (float(fields[name].split()[0]) for name in ("VmHWM", "RssFile"))
    return 1024 * (peak - files)
