"""PyTorch's `futures`: values that are there later.

>>> import gradwalk as gw
>>> total = gw.futures.Future()
>>> doubled = total.then(lambda total: 2 * total.value())
>>> total.set_result(3)
>>> doubled.wait()
6
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future(concurrent.futures.Future[Any]):
    """A value that another thread, or a later line, sets."""

    def __init__(self, *, devices: Any = None) -> None:
        super().__init__()

    def wait(self) -> Any:
        """The value, as soon as it is there."""
        return self.result()

    def value(self) -> Any:
        """The value, which must be there."""
        return self.result(timeout=0)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """What the callback makes of this, once its value is there."""
        made: Future = Future()

        def call(done: Any) -> None:
            try:
                made.set_result(callback(done))
            except Exception as error:
                made.set_exception(error)

        self.add_done_callback(call)
        return made


def collect_all(futures: list[Future]) -> Future:
    """The list itself, once all its values are there."""
    made: Future = Future()
    waiting = len(futures)

    def count(done: Any) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            made.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        made.set_result(futures)
    return made


def wait_all(futures: list[Future]) -> list[Any]:
    """All values, as soon as they are there."""
    return [future.wait() for future in futures]
