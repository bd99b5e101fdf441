"""ProcessChannel: how a process speaks to the others, beside the devices.

Messages are JSON with their length before them. They go through the hub, which rank 0 runs: a
process that hangs in a collective, or dies in one, can still be named. JAX's own coordination
service aborts the other processes without saying which rank failed, and knows nothing of steps.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gradwalk.distributed.launch import Launch, LaunchError
from gradwalk.distributed.watchdog import sample

LONGEST = 1 << 28  # bytes of a message
PERIOD = 1.0  # seconds between heartbeats
_RETRY = 0.1  # seconds until rank 0 is tried again
_LAST_WORDS = 5.0  # seconds that an ending process waits for others to hear it


def frame(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "little") + text


class DisagreementError(RuntimeError):
    """The processes of a job do not do the same; it is raised in all of them."""


class ProcessChannel:
    """The connection of this process to the hub; threads read from it and send heartbeats."""

    def __init__(
        self, launch: Launch, versions: str, timeout: float, end: Callable[[str], None]
    ) -> None:
        """`end` is called, in another thread, with the reason why the job ends."""
        self.timeout = timeout
        self._rank_0 = f"rank 0 (at {launch.host}:{launch.port})", "before its first step"
        self.steps = 0  # runs of programs that span processes
        self._end = end
        self._meetings, self._last = 0, "before its first step"
        self._gathers = 0
        self._results: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._said: str | None = None  # why the job ends
        self._welcome: dict[str, Any] | None = None
        self._all_finished = self._leaving = False
        self._heard = time.monotonic()
        self.socket = _connected(launch, timeout)
        hello = {"rank": launch.rank, "size": launch.world_size, "versions": versions}
        self._send(kind="hello", host=socket.gethostname(), pid=os.getpid(), **hello)
        for work in (self._read, self._beat):
            name = f"gradwalk channel {work.__name__}"
            threading.Thread(target=work, name=name, daemon=True).start()

    # -- meetings ----------------------------------------------------------------------------------

    def join(self) -> dict[str, Any]:
        """Wait until all processes are here; return what the hub tells them."""
        with self._changed:
            self._changed.wait_for(lambda: self._welcome or self._said)
        if self._welcome is None:
            raise LaunchError(self._said or "")
        return self._welcome

    def step(self) -> None:
        """Count a run of a program that spans processes."""
        self.steps += 1
        self._meetings += 1
        self._last = f"step {self.steps}"

    def gather(self, label: str, value: Any) -> list[Any]:
        """The values of all ranks, once all of them are here, at the same label."""
        self._gathers += 1
        self._meetings += 1
        before, self._last = self._last, f"{label}, after {self.steps} steps"
        number = self._gathers
        self._send(kind="gather", number=number, label=label, value=value)
        with self._changed:
            self._changed.wait_for(lambda: number in self._results)
            result = self._results.pop(number)
        self._last = before
        if "error" in result:
            raise DisagreementError(result["error"])
        values: list[Any] = result["values"]
        return values

    # -- the end -----------------------------------------------------------------------------------

    def fail(self, error: str) -> None:
        """Tell the others why this process ends."""
        self._leaving = True
        self._send(kind="failed", error=error)
        with self._changed:
            self._changed.wait_for(lambda: self._said, _LAST_WORDS)

    def finish(self) -> None:
        """Tell the others that the program of this process has ended, and wait for theirs."""
        self._last = f"the end of its program, after {self.steps} steps"
        self._send(kind="beat", beat=sample(self._meetings, self._last))
        self._send(kind="finished")
        with self._changed:
            self._changed.wait_for(lambda: self._all_finished)

    def close(self) -> None:
        """Leave; the hub does not take this for a death."""
        self._leaving = True
        self._send(kind="left")
        with suppress(OSError):  # it may be closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    # -- threads -----------------------------------------------------------------------------------

    def _send(self, **message: Any) -> None:
        with self._sending, suppress(OSError):  # the thread that reads says so
            self.socket.sendall(frame(message))

    def _read(self) -> None:
        stream = self.socket.makefile("rb")
        while True:
            try:
                start = stream.read(4)
                text = stream.read(int.from_bytes(start, "little")) if len(start) == 4 else b""
            except (OSError, ValueError):
                text = b""
            if not text:
                break
            self._heard = time.monotonic()
            self._take(json.loads(text))
        if not self._leaving and not self._all_finished:
            who, where = self._rank_0
            self._stop(f"{who} died without a message: was it killed? {where}")

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "end":
            self._stop(message["text"])
            return
        if kind == "alive":
            self._rank_0 = message["who"], message["where"]
            return
        with self._changed:
            if kind == "welcome":
                self._welcome = message
            elif kind == "result":
                self._results[message["number"]] = message
            elif kind == "all finished":
                self._all_finished = True
            self._changed.notify_all()

    def _stop(self, text: str) -> None:
        with self._changed:
            first, self._said = self._said is None, self._said or text
            joined = self._welcome is not None
            self._changed.notify_all()
        if first and joined and not self._leaving:
            self._end(text)

    def _beat(self) -> None:
        while not self._leaving:
            before = time.monotonic()
            self._send(kind="beat", beat=sample(self._meetings, self._last))
            time.sleep(PERIOD)
            now = time.monotonic()
            if now - before > 5 * PERIOD:  # this process was stopped for a while
                self._heard += now - before
            silence = now - self._heard
            if silence > self.timeout and self._welcome and not self._all_finished:
                who, where = self._rank_0
                self._stop(f"{who} has been silent for {silence:.0f} s: {where}")


def _connected(launch: Launch, timeout: float) -> socket.socket:
    """A connection to rank 0, which may still be starting."""
    until = time.monotonic() + timeout
    while True:
        try:
            made = socket.create_connection((launch.host, launch.port), timeout=5.0)
        except OSError as error:
            if time.monotonic() > until:
                raise LaunchError(
                    f"rank {launch.rank} cannot reach rank 0 at {launch.host}:{launch.port} "
                    f"within {timeout:.0f} s ({error}).\n"
                    "Fix: start all processes, and check MASTER_ADDR, MASTER_PORT and the firewall."
                ) from None
            time.sleep(_RETRY)
        else:
            made.settimeout(None)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
