"""Work beside the server: a few threads at once, each for a limited time.

A job that takes too long is interrupted: Python raises an exception in the thread at its next
instruction. A single long call into NumPy ends first; until then the job keeps its slot, and the
server continues to serve.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

_LOOK_AGAIN = 0.25  # seconds: an interrupted thread may lose its wake-up call


class TooBusy(Exception):
    """No thread was free in time."""


class TookTooLong(Exception):
    """The job did not finish in time."""


class _Interrupted(SystemExit):
    """Raised in a thread. A SystemExit, so that one that comes late ends the thread silently."""


class Crew:
    """Runs functions in a few threads."""

    def __init__(self, seconds: float = 10.0, at_once: int = 4, waiting: int = 128) -> None:
        self.seconds = seconds
        self.at_once = at_once
        self.most_waiting = waiting
        self._jobs: list[_Job] = []
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return or raise what the function does; or raise `TooBusy` or `TookTooLong`."""
        end = time.monotonic() + self.seconds
        job = _Job(function, asyncio.get_running_loop(), self._wake)
        while self._waiting or not self._begun(job):
            await self._wait(end)
            if self._begun(job):
                break
        done, _ = await asyncio.wait([job.future], timeout=self.seconds)
        if not done:
            job.interrupt()
            raise TookTooLong
        return job.future.result()

    def _begun(self, job: _Job) -> bool:
        with self._lock:
            self._jobs = [job for job in self._jobs if job.under_way]
            if len(self._jobs) >= self.at_once:
                return False
            self._jobs.append(job)
            job.thread.start()
            return True

    async def _wait(self, end: float) -> None:
        if len(self._waiting) >= self.most_waiting or time.monotonic() >= end:
            raise TooBusy
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait([turn], timeout=min(_LOOK_AGAIN, max(end - time.monotonic(), 0)))
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def _wake(self) -> None:
        if self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


class _Job:
    """One function in its own thread."""

    def __init__(
        self,
        function: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[], None],
    ) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.thread = threading.Thread(target=self._run, daemon=True, name="gradwalk studio work")
        self._tell = finished
        self._finished = False

    @property
    def under_way(self) -> bool:
        return self.thread.is_alive() and not self._finished

    def _run(self) -> None:
        result, failure = None, None
        try:
            result = self.function()
        except BaseException as error:
            failure = error
        self._finished = True
        try:
            self.loop.call_soon_threadsafe(self._deliver, result, failure)
        except RuntimeError:
            pass  # the server has ended

    def _deliver(self, result: Any, failure: BaseException | None) -> None:
        if not self.future.done():
            if failure is None:
                self.future.set_result(result)
            elif isinstance(failure, Exception):
                self.future.set_exception(failure)
            else:
                self.future.cancel()
        self._tell()

    def interrupt(self) -> None:
        self.future.cancel()
        if self.under_way and self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident), ctypes.py_object(_Interrupted)
            )
