"""PyTorch's `profiler`, for programs that run inside one: nothing is measured here.

Python's own profilers see every op: `python -m cProfile program.py`. `gradwalk.record` counts what
a step computes, and `explain()` of a compiled function tells what it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Self

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

_ADVICE = "gradwalk.profiler measures nothing: run python -m cProfile -s tottime program.py"


class ProfilerActivity(Enum):
    """What PyTorch's profiler can look at."""

    CPU = "cpu"
    CUDA = "cuda"


class ProfilerAction(Enum):
    """What PyTorch's profiler can do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class profile:
    """A context that runs its block, and whose tables say how to measure instead.

    >>> import gradwalk as gw
    >>> with gw.profiler.profile(activities=[gw.profiler.ProfilerActivity.CPU]) as prof:
    ...     with gw.profiler.record_function("sum"):
    ...         total = gw.ones(3).sum()
    >>> print(prof.key_averages().table(sort_by="cpu_time_total"))
    gradwalk.profiler measures nothing: run python -m cProfile -s tottime program.py
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def step(self) -> None:
        """Nothing."""

    start = stop = step

    def key_averages(self, *args: Any, **options: Any) -> Self:
        """The profile itself, which has a `table`."""
        return self

    total_average = key_averages
    self_cpu_time_total = 0.0

    def events(self) -> list[Any]:
        """No events."""
        return []

    def add_metadata(self, key: str, value: str) -> None:
        """Nothing."""

    def table(self, *args: Any, **options: Any) -> str:
        """How to measure."""
        return _ADVICE

    def export_chrome_trace(self, path: str) -> None:
        """An error: there is nothing to write."""
        raise NotImplementedError(_ADVICE)


class record_function(profile):
    """A context that names a block."""


def schedule(*args: Any, **options: Any) -> Callable[[int], None]:
    """When to measure: never."""
    return lambda step: None


def supported_activities() -> set[ProfilerActivity]:
    """What can be looked at: nothing."""
    return set()


def tensorboard_trace_handler(*args: Any, **options: Any) -> Callable[[profile], None]:
    """What writes a measurement for TensorBoard: there is none."""
    return lambda prof: None
