"""Start, ask, time and end the process that a learner's file runs in."""

from __future__ import annotations

import marshal
import os
import re
import secrets
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
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


class NotLoaded(Exception):
    """The file does not run."""


class Ended(Exception):
    """The process ended without an answer, and not by the file's own doing."""


class TooSlow(Ended):
    """The process took longer than allowed."""


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
        self._late = False
        # -I and -S: nothing but the standard library can be found, no variable is read.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(Path(runner.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            env={name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ},
            start_new_session=True,  # a group of its own, so that all of it can be ended
        )
        self._first_request = self._key + _framed((source, limits.seconds, limits.megabytes))

    def __enter__(self) -> LearnerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # of a request that was not read
                    stream.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: it has ended
            os.killpg(self._process.pid, signal.SIGKILL)

    def load(self) -> None:
        """Run the learner's file."""
        self._exchange(self._first_request)  # nothing of the learner's has run so far
        try:
            kind, payload = self._exchange(b"")
        except TooSlow:
            seconds = self._limits.seconds
            late = f"it runs for more than {seconds} s before the first graph"
            raise NotLoaded(late) from None
        except Ended as error:
            raise NotLoaded(f"the process {error}") from None
        if kind == runner.FAILED:
            failure = _failure(payload)
            where = f"line {failure.line}: " if failure.line else ""
            what = "" if failure.kind == "LookupError" else f"{failure.kind}: "
            raise NotLoaded(f"{where}{what}{failure.message}".removesuffix(": "))
        if kind != runner.LOADED or payload:
            self._forged()

    def ask(self, trial: tuple[Any, Any, Any], count: int) -> list[float] | Failure:
        """Ask for the numbers of one graph, of which there must be `count`."""
        kind, payload = self._exchange(_framed(trial))
        if kind == runner.NUMBERS and len(payload) == 8 * count:
            return list(struct.unpack(f">{count}d", payload))
        return _failure(payload) if kind == runner.FAILED else self._forged()

    # -- the pipe ----------------------------------------------------------------------------------

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a request and wait for its answer; the process is killed if both take too long."""
        timer = threading.Timer(self._limits.patience, self._give_up)
        timer.start()
        try:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # it ended; what it sent before may be the reason
                self._process.stdin.write(request)
                self._process.stdin.flush()
            return self._message()
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._late = True
        self._kill()

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            self._gone()
        return data

    def _gone(self) -> None:
        if self._late:
            raise TooSlow
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

    def _message(self) -> tuple[bytes, bytes]:
        """The next message; its tag must be made with the key."""
        kind, length, proof = runner.HEADER.unpack(self._read(runner.HEADER.size))
        if length > LARGEST_ANSWER:
            self._forged()
        payload = self._read(length)
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
