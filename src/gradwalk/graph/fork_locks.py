"""Locks that a fork leaves usable.

    lock = fork_safe(threading.Lock(), CALL)

A forked process has one thread, the one that forked. In it a lock that another thread held would
stay locked for good, and what the lock protects would stay half changed. So a fork first takes all
these locks, the outermost first, and waits until no other thread imports a module of ours: others
finish the compiled call, the trace or the code generation they are in. A thread may hold a lock
while it waits for the one that forks, so this takes PATIENCE seconds at most; the child frees what
could not be taken.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

LockType = TypeVar("LockType")
CALL, TRACE, POOL, CODE, LLVM, BRIEF = range(6)  # from the outermost to the innermost
PATIENCE = 5.0

_depths: dict[weakref.ref[Any], int] = {}  # of all locks
_taken = threading.local()  # by the fork that is under way in a thread


def fork_safe(lock: LockType, depth: int) -> LockType:
    """The lock itself, free in every forked process once a lock is there that is held for long."""
    forget: Callable[..., Any] = _depths.pop
    _depths[weakref.ref(lock, forget)] = depth
    if depth != BRIEF:
        _watch_forks()
    return lock


@functools.cache
def _watch_forks() -> None:
    """Not at import: a process that compiles nothing is left as it was."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_free)


def _locks() -> list[Any]:
    found = sorted(_depths.items(), key=lambda item: item[1])
    return [lock for reference, _ in found if (lock := reference()) is not None]


def _before() -> None:
    deadline = time.monotonic() + PATIENCE
    _taken.locks = []
    for lock in _locks():
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _taken.locks.append(lock)
    while _importing() and time.monotonic() < deadline:
        time.sleep(1e-3)


def _importing() -> bool:
    """Whether a module of ours is being imported: its lock would stay locked in the child."""
    return any(
        getattr(getattr(module, "__spec__", None), "_initializing", False)
        for name, module in list(sys.modules.items())
        if name.startswith(("gradwalk", "llvmlite"))
    )


def _release() -> None:
    while _taken.locks:
        _taken.locks.pop().release()


def _free() -> None:
    for lock in _locks():
        if not any(lock is one for one in _taken.locks):
            lock._at_fork_reinit()
    _release()
