"""PendingSteps: the compiled steps of a device whose verdict the host has not read yet.

XLA does not fail at an index out of range, so a step computes a flag: whether it, and all steps
before it, may change memory. If not, its memory stays as it is. Reading the flag at once would make
the host wait for every step, so flags are read some steps later, or when any number is read. Then
the host undoes what it counted since, and raises.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST_STEPS = 8
MOST_BYTES = 64 << 20  # of arguments, which are kept to run a step again


@dataclass(eq=False)
class Step:
    """One call of an executable: its flag, what tells why it failed, and what undoes it."""

    ok: Any
    size: int
    complaint: Callable[[], Exception]
    undo: Callable[[], None]


class PendingSteps:
    """Steps in the order of their calls; the flag of each includes those before it."""

    def __init__(self, first_flag: Any) -> None:
        """The first flag is on the device, as the others are: XLA would compile for each kind."""
        self.steps: deque[Step] = deque()
        self.first_flag = first_flag
        self.flag = first_flag  # of the newest step
        self._size = 0
        self._lock = threading.RLock()

    def add(self, step: Step) -> None:
        """Note a step, and read the flags of old ones if there are many."""
        with self._lock:
            self.steps.append(step)
            self.flag = step.ok
            self._size += step.size
            while len(self.steps) > MOST_STEPS or self._size > MOST_BYTES < self._size - step.size:
                self._read_oldest()

    def settle(self) -> None:
        """Wait for all steps, and raise if one of them failed."""
        with self._lock:
            while self.steps:
                self._read_oldest()

    def _read_oldest(self) -> None:
        step = self.steps[0]
        if bool(step.ok):
            self.steps.popleft()
            self._size -= step.size
            return
        later = [*self.steps]
        self.steps.clear()
        self.flag, self._size = self.first_flag, 0
        for one in reversed(later):
            one.undo()
        raise step.complaint()
