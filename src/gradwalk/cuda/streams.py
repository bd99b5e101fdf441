"""Streams and events, as PyTorch's programs use them. XLA has one order of work per device, and
decides by itself what runs at the same time; a stream is a name for that order."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from gradwalk.engine.guest_loaders import loaders

__all__ = ["Event", "Stream", "current_stream", "stream", "synchronize"]


def synchronize(device: object = None) -> None:
    """Wait until the devices have computed everything they were given; a compiled step that
    failed raises now."""
    try:
        xla = loaders["xla"]()
    except ImportError:
        return
    xla.synchronize()


class Stream:
    """The order of a device's work; all streams are the same one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Wait for the devices."""
        synchronize()

    def wait_stream(self, stream: Any) -> None:
        """Nothing: the work of all streams is in one order."""

    wait_event = record_event = wait_stream


def current_stream(device: Any = None) -> Stream:
    """The stream."""
    return Stream()


def stream(stream: Any) -> Any:
    """A context in which work goes to a stream, which is the only one."""
    return contextlib.nullcontext(stream)


class Event:
    """A moment, for measuring time: `start.elapsed_time(end)` in milliseconds.

    >>> import gradwalk as gw
    >>> start, end = gw.cuda.Event(enable_timing=True), gw.cuda.Event(enable_timing=True)
    >>> start.record(), end.record()
    (None, None)
    >>> start.elapsed_time(end) >= 0
    True
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.moment = 0.0

    def record(self, stream: Any = None) -> None:
        """Wait for the devices, and remember the time."""
        synchronize()
        self.moment = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds between two recorded events."""
        return (end_event.moment - self.moment) * 1000

    def synchronize(self) -> None:
        """Nothing: `record` waited."""


def is_current_stream_capturing() -> bool:
    """False: there are no CUDA graphs."""
    return False
