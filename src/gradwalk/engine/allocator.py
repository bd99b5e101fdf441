"""Memory freed by one training step is kept for the next.

NumPy asks the C library for every array, and glibc gives freed memory back to the system as soon
as there is much of it; the next step then gets fresh pages, each of which costs a fault. Training
frees and asks again for the same arrays thousands of times, so up to `KEPT` bytes are held back.

`import gradwalk` changes nothing of the process. The C library is asked when the first module is
made, by the first backward pass over tensors (`Tensor.backward`, `autograd.grad`, `gradwalk.grad`
and the like), or when the first function is compiled; `Value` never asks. Set
GRADWALK_KEEP_MEMORY=0 to leave the C library alone.
"""

from __future__ import annotations

import functools
import os
import sys

KEPT = 512 << 20
# Larger arrays are mapped one by one, and their memory is returned at once.
LARGE = 64 << 20

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt's settings in malloc.h


@functools.cache  # called by every backward pass; the first call of the process asks
def keep_freed_memory() -> bool:
    """Ask glibc to hold freed memory; False without glibc, or if the user forbids it."""
    asked_not_to = os.environ.get("GRADWALK_KEEP_MEMORY", "1") == "0"
    if asked_not_to or not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT) and mallopt(_MMAP_THRESHOLD, LARGE))
