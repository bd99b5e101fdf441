"""Signals wait while a function is traced, and while a program runs that is not native code.

A trace puts stand-ins into modules, optimizers and variables, and takes them out again; a step
replaces memory, then counts. What the handler of a signal raises, such as Ctrl-C's
KeyboardInterrupt, must not cut that short.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

ALL = signal.valid_signals()
# Those whose handlers usually raise: asking for all takes as long as a small step.
USUAL = [
    getattr(signal, name) for name in ("SIGINT", "SIGALRM", "SIGTERM") if hasattr(signal, name)
]

_waiting: dict[int, Any] | None = None  # the frames that signals interrupted, while they wait


@contextlib.contextmanager
def signals_deferred(which: Iterable[int] = ALL) -> Iterator[None]:
    """Run the handlers of signals afterwards; that of a signal sent twice, at once."""
    global _waiting
    # Only the main thread runs handlers.
    if _waiting is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Any] = {
        number: handler for number in which if callable(handler := signal.getsignal(number))
    }
    waiting: dict[int, Any] = {}

    def defer(number: int, frame: Any) -> None:
        if number in waiting:  # somebody is in earnest, or the function hangs
            handlers[number](number, frame)
        waiting[number] = frame

    try:
        _waiting = waiting
        for number in handlers:
            signal.signal(number, defer)
        yield
    finally:
        _waiting = None
        for number, handler in handlers.items():
            if signal.getsignal(number) is defer:  # the function has not set another
                signal.signal(number, handler)
    for number, frame in waiting.items():
        handlers[number](number, frame)
