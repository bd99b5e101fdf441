"""Python's collector of cycles, kept from running while a program is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Let the collector wait: it would go through every object of the process time and again, for
    the many that compiling makes and keeps (a sixth of the time)."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
