"""The one thread pool of compiled code.

Threads claim shares of each kernel; tape_loop.py has the native part. The first call that needs
workers starts them, and waits for none. They spin for SPIN_SECONDS after a call and then sleep,
which costs nothing.

- On Linux (x86-64, aarch64) workers are native threads and sleep on a futex. Elsewhere they are
  Python threads that wait in native code, and sleep in a Python condition.
- Two compiled functions called from two Python threads at once: one has the pool, the other runs
  alone on its own thread. Results never depend on the number of threads.
- A forked process has no workers: its first call starts them anew.
- A signal such as Ctrl-C waits till the call is over; workers take no signals.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.runtime import calling, object_code, system, tape_loop
from gradwalk.compiler.backends.llvm.runtime.runtime_function import module_text
from gradwalk.engine import threads
from gradwalk.graph.fork_locks import POOL, fork_safe

SPIN_SECONDS = 200e-6  # after a call; waking a sleeping thread takes 15 to 60 µs
# In a call, before a waiting thread takes over what others have not begun, and then yields its core
# at each look.
YIELD_SECONDS = 0.5e-6
LATE_SECONDS = 50e-6  # that threads may lose before calls use fewer; 0: always all of them

_lock = fork_safe(threading.RLock(), POOL)  # of everything that changes the pool
_wanted: int | None = threads.chosen
_native: NativePool | None = None
# What a fork may catch in the middle: the words of every program (tape_loop.PROGRAM).
live_programs: weakref.WeakValueDictionary[int, NDArray[np.int64]] = weakref.WeakValueDictionary()


# -- how many ------------------------------------------------------------------------------------


def set_num_threads(count: int) -> None:
    """Let compiled calls run on `count` threads, at most 64; more than cores is allowed.

    Waits for a call that is under way. The new threads start with the next one.
    """
    global _wanted
    with _lock:
        _wanted = max(1, min(count, tape_loop.MOST_THREADS))
        if _native is not None:
            with _owned(_native):
                _apply(_native)


threads.on_change.append(set_num_threads)  # gradwalk.set_num_threads


def get_num_threads() -> int:
    """The threads compiled calls run on: by default the cores this process may use."""
    return _wanted or min(target.usable_cores(), tape_loop.MOST_THREADS)


# -- workers ---------------------------------------------------------------------------------------


def start() -> None:
    """Start the workers that are missing. Calls do that by themselves, when they need them."""
    pool = native()
    with _lock, _owned(pool):
        _apply(pool)  # an interrupt may have cut set_num_threads short
        count = get_num_threads()
        for thread in range(1 + pool.alive(), count):
            pool.start(thread)
        _wait_until(lambda: pool.alive() >= count - 1)  # native ones count from their start


def stop() -> None:
    """End all workers; the next call starts new ones."""
    with _lock:
        if _native is not None:
            with _owned(_native):
                _dismiss(_native, keep=1)


def native() -> NativePool:
    """The runtime, compiled on first use."""
    global _native
    with _lock:
        if _native is None:
            # GRADWALK_POOL=python is how Linux tests what other systems do.
            futex = system.has_futex(target.host())
            pool = NativePool(futex and os.environ.get("GRADWALK_POOL") != "python")
            _apply(pool)
            if not pool.futex:
                atexit.register(stop)  # a Python thread should not be in there when Python ends
            _native = pool  # the last step: an interrupt before it leaves nothing half done
        return _native


def _apply(pool: NativePool) -> None:
    """Tell the runtime how many threads there are, and end surplus workers."""
    count = get_num_threads()
    if pool.alive() > count - 1:
        _dismiss(pool, keep=count)
    # With more threads than cores, a thread that spins keeps another one from its work.
    crowded = count > target.usable_cores()
    idle = 0 if crowded else int(SPIN_SECONDS * 1e9)
    spins = 0 if crowded else pool.pauses(YIELD_SECONDS)
    pool.limits(count, idle, spins, int(LATE_SECONDS * 1e9))


def _dismiss(pool: NativePool, keep: int) -> None:
    """End the workers from number `keep` on (thread 0 is the caller's)."""
    pool.dismiss(keep)
    _wait_until(lambda: pool.alive() <= keep - 1)


@contextmanager
def _owned(pool: NativePool) -> Iterator[None]:
    """Own the pool, as a call does: nothing else uses it meanwhile. Disowning a pool that this
    thread does not own, as an interrupt came first, changes nothing."""
    try:
        _wait_until(pool.own)
        yield
    finally:
        pool.disown()


def _wait_until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(20e-6)


def _after_fork() -> None:
    """Reset the pool in a forked process: there are no workers, and nothing is running."""
    if _native is not None:
        _native.forget()
    for program in list(live_programs.values()):
        program[tape_loop.FIELD["running"]] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class NativePool:
    """The runtime's functions as Python callables."""

    def __init__(self, futex: bool) -> None:
        self.futex = futex
        called = {name: getattr(ctypes.pythonapi, name) for name in calling.SYMBOLS}
        if sys.platform == "win32":
            system_calls = ctypes.CDLL("kernel32")
            called["sched_yield"] = system_calls.SwitchToThread
            called["QueryPerformanceCounter"] = system_calls.QueryPerformanceCounter
        if not futex:
            self._parking = _PythonParking()
            called |= self._parking.functions
        symbols = {name: ctypes.cast(c, ctypes.c_void_p).value or 0 for name, c in called.items()}
        host = target.host()
        functions = [*tape_loop.POOL, *system.system_functions(host, futex), *calling.CALL]
        text = tape_loop.STATE + module_text(functions, host)
        names = [*tape_loop.FUNCTIONS, calling.FUNCTION, *([system.START] if futex else [])]
        self.library = object_code.compile_module(text, names, symbols)
        self.method = calling.method(self.library[calling.FUNCTION])
        number = ctypes.c_int64
        function = self.library.function
        self.own = function("gradwalk_own", number)
        self.disown = function("gradwalk_disown", None)
        self.alive = function("gradwalk_alive", number)
        self.limits = function("gradwalk_limits", None, number, number, number, number)
        self.dismiss = function("gradwalk_dismiss", None, number)
        self._forget = function("gradwalk_forget", None)
        self._pause = function("gradwalk_pause", None, number)
        self._hire = function("gradwalk_hire", None)
        self._worker = function("gradwalk_worker", ctypes.c_void_p, ctypes.c_void_p)
        if futex:
            self._start = function(system.START, number, number)

    def forget(self) -> None:
        """Reset in a forked process."""
        self._forget()
        if not self.futex:
            self._parking.condition = threading.Condition()  # another thread may have held it

    @functools.cached_property
    def _pause_seconds(self) -> float:
        """How long one pause takes: a nanosecond to fifty, by machine."""
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            self._pause(1000)
            times.append(time.perf_counter() - begin)
        return max(min(times) / 1000, 1e-9)

    def pauses(self, seconds: float) -> int:
        """How many pauses take so long."""
        return int(seconds / self._pause_seconds)

    def start(self, thread: int) -> None:
        """Start one worker."""
        if not self.futex:
            threading.Thread(
                target=self._live, args=(thread,), name=f"gradwalk-{thread}", daemon=True
            ).start()
            return
        with _no_signals():
            error = self._start(thread)
        if error:
            raise RuntimeError(
                f"thread {thread} could not be started ({os.strerror(error)}). Fix: "
                f"gradwalk.set_num_threads({thread}), which uses only the running threads"
            )

    def _live(self, thread: int) -> None:
        self._hire()
        self._worker(thread)


@contextmanager
def _no_signals() -> Iterator[None]:
    """Start threads that take no signals: Python's own threads handle those. Faults stay, so that
    faulthandler can report them."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- where there is no futex -----------------------------------------------------------------------


class _PythonParking:
    """Sleeping in a Python condition: for systems whose futex we do not know."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.functions = {  # that the runtime calls
            "gradwalk_park": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self.park),
            "gradwalk_unpark": ctypes.CFUNCTYPE(None)(self.unpark),
        }

    def park(self, word: int, last: int) -> None:
        """Sleep while the word is the last one. The timeout is for a wake-up that a signal cut."""
        now = ctypes.c_int64.from_address(word)
        with self.condition:
            while now.value == last:
                self.condition.wait(0.1)

    def unpark(self) -> None:
        """Wake all workers."""
        with self.condition:
            self.condition.notify_all()
