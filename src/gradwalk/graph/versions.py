"""Version tracking: which memory was changed in place, and when.

There is one clock for the whole process. An in-place operation advances it and stamps the memory it
wrote to; a node only notes the time it was made. So recording an operation costs one number, and
backward checks stamps only if the clock has advanced since: a saved array whose memory has a later
stamp than the node was overwritten. Views of one array share their memory and its stamp.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from gradwalk.graph.abstract import is_array
from gradwalk.graph.fork_locks import BRIEF, fork_safe


class Clock:
    """The number of in-place changes so far; a class so that others can read it by reference."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


@dataclass(slots=True, eq=False)
class Stamp:
    """The last change of one piece of memory: when, how many so far, by which line."""

    time: int
    count: int
    code: CodeType | None
    position: int
    owner: Any  # a weak reference whose end removes the stamp
    together: Together | None = None  # the group it changes with, and
    seen: int = 0  # how many of those changes are counted here
    line: tuple[CodeType | None, int] = (None, -1)  # where those are made
    parts: tuple[ChangedPart, ...] = ()  # the latest changes of a part of the memory

    def settle(self) -> None:
        """Count the changes that were noted for the group."""
        noted = self.together
        if noted is not None and noted.count != self.seen:
            self.count += noted.count - self.seen
            self.seen = noted.count
            self.time = noted.time
            self.code, self.position = self.line


class ChangedPart:
    """A change of a part of some memory: when, when the one before it was, and which part.

    The part is kept as its address, which does not keep the memory alive.
    """

    __slots__ = ("__array_interface__", "before", "time")

    def __init__(self, time: int, before: int, array: np.ndarray[Any, Any]) -> None:
        self.time, self.before = time, before
        self.__array_interface__ = dict(array.__array_interface__)


class Together:
    """Memory that always changes at once, as in a compiled step: a change is noted here once, and
    each stamp counts it on demand.
    """

    __slots__ = ("count", "stamps", "time")

    def __init__(self, stamps: Sequence[Stamp]) -> None:
        self.time = self.count = 0
        self.stamps = tuple(stamps)  # empty once dissolved
        for stamp in stamps:
            stamp.together, stamp.seen = self, 0

    def part(self) -> None:
        """Dissolve the group: another change affects only some of them."""
        for stamp in self.stamps:
            stamp.settle()
            stamp.together = None
        self.stamps = ()


class View(NamedTuple):
    """How a view derives from its base: enough to rebuild its history if the base changes."""

    base: Any
    base_node: Any  # the history of the base when the view was made
    chain: tuple[tuple[Any, dict[str, Any], int], ...]  # (op, attributes, output) from the base
    lock: str = ""  # why its history cannot be rebuilt, if so; then it may not be changed


clock = Clock()
_advancing = fork_safe(threading.Lock(), BRIEF)  # two threads must not get the same time
_stamps: dict[int, Stamp] = {}


def owner_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory of a view (itself if it owns it)."""
    while True:
        base: Any = array.base
        if base is None:
            return array
        if not is_array(base):  # as_strided inserts an object with its own base
            base = getattr(base, "base", None)
            if not is_array(base):
                return array
        array = base


def stamp_of(array: np.ndarray[Any, Any]) -> Stamp | None:
    """The last in-place change of this array's memory, None if it was never changed."""
    stamp = _stamps.get(id(owner_of(array)))
    if stamp is not None and stamp.together is not None:
        stamp.settle()
    return stamp


def touch(array: np.ndarray[Any, Any], code: CodeType | None, position: int) -> int:
    """Note that the memory of `array` was changed at this line; returns the time."""
    return touch_stamps((stamp_for(array),), code, position)


def stamp_for(array: np.ndarray[Any, Any]) -> Stamp:
    """The stamp of this array's memory, made if it was never changed."""
    owner = owner_of(array)
    key = id(owner)
    stamp = _stamps.get(key)
    if stamp is None:
        gone = weakref.ref(owner, lambda _: _stamps.pop(key, None))
        stamp = _stamps[key] = Stamp(0, 0, None, -1, gone)
    stamp.settle()
    return stamp


_PARTS = 64  # how many changes of parts are kept; older ones count as changes of everything
_MOST_WORK: Any = 10_000  # in telling whether two parts share an element


def touch_part(
    array: np.ndarray[Any, Any], part: np.ndarray[Any, Any], code: CodeType | None, position: int
) -> int:
    """Note that a part of the memory of `array` was changed at this line; returns the time."""
    stamp = stamp_for(array)
    before = stamp.time
    now = touch_stamps((stamp,), code, position)
    stamp.parts = (*stamp.parts[1 - _PARTS :], ChangedPart(now, before, part))
    return now


def changed_since(array: np.ndarray[Any, Any], time: int) -> Stamp | None:
    """The last change of this array's memory if an element of the array may have changed since."""
    stamp = stamp_of(array)
    if stamp is None:
        return None
    latest = stamp.time
    while latest > time:
        part = next((p for p in reversed(stamp.parts) if p.time == latest), None)
        if part is None or _share_elements(array, part):
            return stamp
        latest = part.before
    return None


def _share_elements(array: np.ndarray[Any, Any], part: ChangedPart) -> bool:
    try:
        return np.shares_memory(array, np.asarray(part), max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def put_together(stamps: Sequence[Stamp], lines: Sequence[tuple[CodeType | None, int]]) -> Together:
    """Group stamps that `touch_together` changes at once, at these lines."""
    together = stamps[0].together
    if together is None or together.stamps != tuple(stamps):
        for stamp in stamps:
            if stamp.together is not None:
                stamp.together.part()
        together = Together(stamps)
    for stamp, line in zip(stamps, lines, strict=True):
        stamp.settle()
        stamp.line = line
    return together


def touch_together(noted: Together) -> None:
    """Note that all of this memory was changed."""
    # Without the lock: nothing here runs Python code, so no other thread interferes.
    clock.now = noted.time = clock.now + 1
    noted.count += 1


def touch_stamps(stamps: Iterable[Stamp], code: CodeType | None, position: int) -> int:
    """Note that the memory of these stamps was changed at this line; returns the time."""
    with _advancing:
        clock.now = now = clock.now + 1
    for stamp in stamps:
        stamp.time = now
        stamp.count += 1
        stamp.code = code
        stamp.position = position
    return now
