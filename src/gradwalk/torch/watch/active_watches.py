"""All watches of the process: suspending them, and asking one of them to run a step again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradwalk.inspect.trace.trace import Trace

active: weakref.WeakSet[Any] = weakref.WeakSet()
_suspensions: list[None] = []


@contextmanager
def aside() -> Iterator[None]:
    """Suspend every watch: what runs inside is not part of the training."""
    _suspensions.append(None)
    try:
        yield
    finally:
        _suspensions.pop()


def is_aside() -> bool:
    """Whether every watch is suspended: a step is being run again, for example."""
    return bool(_suspensions)


def recorded_again(loss: torch.Tensor) -> Trace | None:
    """Trace the step of a loss whose graph is freed, if a watch can run it again.

    The loss must come out bit for bit the same. The program does not notice.
    """
    traces = (watched.recorded_again(loss) for watched in list(active))
    return next((trace for trace in traces if trace is not None), None)
