"""Python's garbage collector during a recording."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 100_000  # allocations between two collections


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage less often: a recording makes many objects, and almost all of them stay.

    Looking through all objects of a large program takes a fifth of a second. Explicit collections
    work as always.
    """
    before = gc.get_threshold()
    ours = (max(before[0], SELDOM), *before[1:])
    if not before[0]:  # switched off
        yield
        return
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold() == ours:  # else the program has changed it
            gc.set_threshold(*before)
