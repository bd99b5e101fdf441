"""Start, ask, time and end the process that a learner's file runs in."""

from __future__ import annotations

import marshal
import os
import re
import secrets
import selectors
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradwalk.course.checker import runner

LARGEST_ANSWER = 4 * 2**20
_LENGTH = struct.Struct(">I")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NEEDED_TO_START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # by a Python outside the system's


@dataclass(frozen=True)
class ProcessLimits:
    """What a learner's file may use."""

    seconds: int = 2  # of processor time per graph; wall-clock time may be a few times longer
    megabytes: int = 1024

    @property
    def patience(self) -> float:
        """The wall-clock limit in seconds: a sleeping process uses no processor time."""
        return 5.0 * self.seconds + 10.0


class Failure(NamedTuple):
    """What the learner's code raised, and where."""

    phase: str  # "load", "forward", "backward" or "read"
    step: int
    kind: str  # the exception's class
    message: str
    line: int  # of the learner's file; 0 if unknown
    function: str


class Forbidden(Exception):
    """The file did something that no engine needs. It scores 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line} {reason}" if line else f"the file {reason}")


class Ended(Exception):
    """The process ended without an answer, and not by the file's own doing."""


class TooSlow(Ended):
    """The process took longer than allowed."""


Answer = list[float] | Failure


def supported() -> str:
    """Why learners' files cannot be run on this system; empty if they can."""
    if os.name == "posix":
        return ""
    return (
        "`gradwalk course check` needs limits on processes that Windows does not have. Fix: run it "
        "in the Windows Subsystem for Linux, or on Linux or macOS."
    )


class LearnerProcess:
    """One run of a learner's file. Use it in a `with` block: the process ends with the block."""

    def __init__(self, source: bytes, limits: ProcessLimits) -> None:
        self._limits = limits
        self._key = secrets.token_bytes(runner.KEY_BYTES)
        self._received = 0
        self._data = b""
        # -I and -S: nothing but the standard library can be found, no variable is read.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(Path(runner.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=os.sep,
            env={name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ},
            start_new_session=True,  # a group of its own, so that all of it can be ended
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._first_request = self._key + _framed((source, limits.seconds, limits.megabytes))

    def __enter__(self) -> LearnerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS: it has ended
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def load(self) -> Failure | None:
        """Run the learner's file; return what it raised, if anything."""
        self._exchange(self._first_request)  # nothing of the learner's has run so far
        kind, payload = self._exchange(b"")
        if kind == runner.LOADED and not payload:
            return None
        return _failure(payload) if kind == runner.FAILED else self._forged()

    def ask(self, trial: tuple[Any, Any, Any], count: int) -> Answer:
        """Ask for the numbers of one graph, of which there must be `count`."""
        kind, payload = self._exchange(_framed(trial))
        if kind == runner.NUMBERS and len(payload) == 8 * count:
            return list(struct.unpack(f">{count}d", payload))
        return _failure(payload) if kind == runner.FAILED else self._forged()

    # -- the pipe ----------------------------------------------------------------------------------

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a request and wait for its answer, both within the time allowed."""
        deadline = time.monotonic() + self._limits.patience
        with selectors.DefaultSelector() as selector:
            selector.register(self._from, selectors.EVENT_READ)
            if request:
                selector.register(self._to, selectors.EVENT_WRITE)
            while True:
                message = self._message()
                if message is not None:
                    return message
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TooSlow
                for key, _ in ready:
                    if key.fd == self._from:
                        self._read()
                    else:
                        request = request[self._write(request) :]
                        if not request:
                            selector.unregister(self._to)

    def _write(self, request: bytes) -> int:
        try:
            return os.write(self._to, request)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            self._read_the_rest()
            return len(request)

    def _read(self) -> None:
        try:
            part = os.read(self._from, 1 << 16)
        except BlockingIOError:
            return
        if not part:
            self._gone()
        self._data += part

    def _read_the_rest(self) -> None:
        """Read what it sent before it ended: perhaps the reason."""
        os.set_blocking(self._from, True)
        while part := os.read(self._from, 1 << 16):
            self._data += part

    def _gone(self) -> None:
        try:
            status = self._process.wait(timeout=self._limits.patience)
        except subprocess.TimeoutExpired:
            raise Forbidden("closes the channel that answers are sent through") from None
        if not self._received:
            raise OSError(f"Python could not be started a second time (status {status})")
        if status == -signal.SIGXCPU:
            raise TooSlow
        if status < 0:
            raise Ended(f"was ended by {_signal_name(-status)}")
        raise Forbidden(f"ends the process before its answers are there (status {status})")

    def _message(self) -> tuple[bytes, bytes] | None:
        """The next message, if all of it has arrived; its tag must be made with the key."""
        header = runner.HEADER
        if len(self._data) < header.size:
            return None
        kind, length, proof = header.unpack_from(self._data)
        if length > LARGEST_ANSWER:
            self._forged()
        if len(self._data) < header.size + length:
            return None
        payload = self._data[header.size : header.size + length]
        self._data = self._data[header.size + length :]
        expected = runner.tag(self._key, self._received, kind, payload)
        if not secrets.compare_digest(proof, expected):
            self._forged()
        self._received += 1
        if kind == runner.FORBIDDEN:
            line, _, reason = payload.decode(errors="replace").partition(runner.SEPARATOR)
            raise Forbidden(printable(reason), int(line) if line.isdecimal() else 0)
        return kind, payload

    def _forged(self) -> Any:
        raise Forbidden("writes to the channel that answers are sent through")


def _framed(message: Any) -> bytes:
    data = marshal.dumps(message)
    return _LENGTH.pack(len(data)) + data


def _failure(payload: bytes) -> Failure:
    fields = payload.decode(errors="replace").split(runner.SEPARATOR)
    if len(fields) != 6 or not (fields[1].isdecimal() and fields[4].isdecimal()):
        raise Forbidden("writes to the channel that answers are sent through")
    phase, step, kind, message, line, function = fields
    message = _ADDRESS.sub("", message)  # which differs each time: <engine.Value object>
    return Failure(
        phase, int(step), printable(kind), printable(message), int(line), printable(function)
    )


def printable(text: str, most: int = 200) -> str:
    """Make untrusted text fit for a terminal: one line, no control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
