"""Locks in a process that forks."""

from __future__ import annotations

import os
import threading


def survives_fork(lock: threading.Lock) -> None:
    """Make sure that a forked child gets the lock open.

    Otherwise a fork while another thread holds it leaves it locked in the child, where that thread
    does not exist.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
