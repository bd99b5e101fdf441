"""The garbage collector, suspended while a program is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Suspend the collector: compiling makes many objects that stay, and visiting all of them time
    and again would take a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
