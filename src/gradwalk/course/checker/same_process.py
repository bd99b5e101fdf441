"""Run a learner's file in this very process: for Python in a browser, which can start no other.

There the browser keeps the file from the machine. Nothing keeps it from this process: it could find
the right numbers and answer with them, and a loop without end stops the notebook or the page's
worker. Points found so are for the learner, not for a grade.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

from gradwalk.course.checker import runner
from gradwalk.course.checker.process import Failure, NotLoaded, failure_of, words_of_failure

NOT_ENFORCED = (
    "limits on time and memory, and everything else that a process of its own would enforce "
    "(Python in a browser cannot start one)"
)


class SameProcess:
    """Answers as `LearnerProcess` does."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._kept: list[Any] = []

    def __enter__(self) -> SameProcess:
        return self

    def __exit__(self, *error: object) -> None:
        sys.modules.pop(runner.MODULE, None)

    def begin(self) -> list[str]:
        """What is not enforced: all of it."""
        return [NOT_ENFORCED]

    def load(self) -> None:
        """Run the learner's file."""
        try:
            self._value_class = runner.load(self._source)
        except (Exception, SystemExit) as error:
            failure = failure_of(runner.failure("load", 0, error))
            raise NotLoaded(words_of_failure(failure)) from None

    def ask(self, trial: tuple[Any, Any, Any], count: int) -> list[float] | Failure:
        """The numbers of one graph."""
        kind, payload = runner.answer(self._value_class, trial, self._kept)
        if kind == runner.NUMBERS:
            return list(struct.unpack(f">{count}d", payload))
        return failure_of(payload)
