"""Start, ask, time and end the process that a learner's file runs in."""

from __future__ import annotations

import marshal
import os
import re
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradwalk.course.checker import confine, runner

LARGEST_ANSWER = 4 * 2**20
_LENGTH = struct.Struct(">I")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NEEDED_TO_START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # by a Python outside the system's
_BY_ARGUMENTS = {
    "open": "opens a file to write to it",
    "openat": "opens a file to write to it",
    "execve": "starts another program",
    "tkill": "sends a signal",
    "tgkill": "sends a signal",
}
ASKED_FOR = (confine.REPORTS, confine.KILLS, confine.LANDLOCK)
# What each of them prevents; without it, Python alone looks for it, and a file may get around that.
PREVENTED = {
    confine.REPORTS: "deleting, renaming and creating files, starting processes and threads, and "
    "using the network (no seccomp)",
    confine.LANDLOCK: "reading other files (no Landlock)",
}


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
    platform: str = sys.platform
    if platform != "win32":
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
        self._first_request = self._key + _framed((source, limits.seconds))
        self._received = 0
        self._reports = -1
        self._folder = tempfile.TemporaryDirectory(prefix="gradwalk-check-")
        self._start("".join(ASKED_FOR))

    def _start(self, layers: str) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        # -I and -S: nothing but the standard library can be found, no variable is read.
        command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", _path_of(confine)]
        with theirs:
            self._process = subprocess.Popen(
                [*command, _path_of(runner), str(self._limits.megabytes), layers],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env={name: os.environ[name] for name in _NEEDED_TO_START if name in os.environ},
                start_new_session=True,  # a group of its own, so that all of it can be ended
            )

    def __enter__(self) -> LearnerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        made = os.listdir(self._folder.name)
        self._folder.cleanup()
        if made and not isinstance(error[1], Forbidden):
            raise Forbidden(f"creates files: {printable(made[0])}")

    def _stop(self) -> None:
        self._kill()
        self._process.wait()
        self._channel.close()
        if self._reports >= 0:
            os.close(self._reports)
            self._reports = -1

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: it has ended
            os.killpg(self._process.pid, signal.SIGKILL)

    def begin(self) -> list[str]:
        """Wait until the process is ready to run the file; returns what is not enforced.

        A Python that does not start with a layer, because it reads files from unusual places, is
        started without. No file can bring this about: nothing of it has run so far.
        """
        try:
            return self._ready()
        except OSError:
            for layers in ("".join(ASKED_FOR).replace(confine.LANDLOCK, ""), ""):
                self._stop()
                self._start(layers)
                with suppress(OSError):
                    return self._ready()
            raise

    def _ready(self) -> list[str]:
        self._end = time.monotonic() + self._limits.patience
        try:
            self._wait(select.POLLIN)
            layers, descriptors, _, _ = socket.recv_fds(self._channel, 16, 1)
            if descriptors:
                (self._reports,) = descriptors
            self._exchange(self._first_request)
        except TooSlow:
            raise OSError("Python could not be started a second time in time") from None
        had = layers.decode().replace(confine.KILLS, confine.REPORTS)
        return [words for layer, words in PREVENTED.items() if layer not in had]

    def load(self) -> None:
        """Run the learner's file, after `begin`."""
        try:
            kind, payload = self._exchange(b"")
        except TooSlow:
            seconds = self._limits.seconds
            late = f"it runs for more than {seconds} s before the first graph"
            raise NotLoaded(late) from None
        except Ended as error:
            raise NotLoaded(f"the process {error}") from None
        if kind == runner.FAILED:
            raise NotLoaded(words_of_failure(failure_of(payload)))
        if kind != runner.LOADED or payload:
            self._forged()

    def ask(self, trial: tuple[Any, Any, Any], count: int) -> list[float] | Failure:
        """Ask for the numbers of one graph, of which there must be `count`."""
        kind, payload = self._exchange(_framed(trial))
        if kind == runner.NUMBERS and len(payload) == 8 * count:
            return list(struct.unpack(f">{count}d", payload))
        return failure_of(payload) if kind == runner.FAILED else self._forged()

    # -- the channel -------------------------------------------------------------------------------

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a request and wait for its answer; the process is killed if both take too long."""
        self._end = time.monotonic() + self._limits.patience
        rest = memoryview(request)
        with suppress(BrokenPipeError, ConnectionResetError):
            while rest:  # it may have ended; what it sent before may be the reason
                self._wait(select.POLLOUT)
                rest = rest[self._channel.send(rest) :]
        return self._message()

    def _wait(self, what: int) -> None:
        """Wait until the channel is ready, or the kernel reports a forbidden call."""
        waiting = select.poll()
        waiting.register(self._channel, what)
        if self._reports >= 0:
            waiting.register(self._reports, select.POLLIN)
        while left := max(0.0, self._end - time.monotonic()):
            ready = dict(waiting.poll(left * 1000))
            if ready.get(self._reports, 0) & select.POLLIN:
                self._reported()
            if self._channel.fileno() in ready:
                return
            if self._reports in ready:  # the process has ended
                waiting.unregister(self._reports)
        self._kill()
        raise TooSlow

    def _reported(self) -> None:
        """The process waits in a system call that no engine makes; it never comes to be."""
        import fcntl

        notification = bytearray(confine.NOTIFICATION)
        try:
            fcntl.ioctl(self._reports, confine.RECEIVE, notification)
        except OSError:  # it was killed meanwhile
            return
        self._kill()
        (number,) = struct.unpack_from("i", notification, 16)
        for words, known in confine.calls(os.uname().machine).items():
            if name := known.get(number):
                words = _BY_ARGUMENTS.get(name, words)
                raise Forbidden(f"{words} ({name}, stopped by the system)")

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            self._wait(select.POLLIN)
            try:
                part = self._channel.recv(count - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                self._gone()
            data += part
        return data

    def _gone(self) -> None:
        try:
            status = self._process.wait(timeout=self._limits.patience)
        except subprocess.TimeoutExpired:
            raise Forbidden("closes the channel that answers are sent through") from None
        if not self._received:
            raise OSError(f"Python could not be started a second time (status {status})")
        if status == -signal.SIGXCPU:
            raise TooSlow
        if status == runner.TAMPERED:
            raise Forbidden("tampers with the checker")
        if status == -signal.SIGSYS:
            raise Forbidden("makes a system call that no engine needs, and the system stopped it")
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


def _path_of(module: Any) -> str:
    return str(Path(module.__file__).resolve())


def _framed(message: Any) -> bytes:
    data = marshal.dumps(message)
    return _LENGTH.pack(len(data)) + data


def failure_of(payload: bytes) -> Failure:
    """Read what `runner.failure` wrote."""
    fields = payload.decode(errors="replace").split(runner.SEPARATOR)
    if len(fields) != 6 or not (fields[1].isdecimal() and fields[4].isdecimal()):
        raise Forbidden("writes to the channel that answers are sent through")
    phase, step, kind, message, line, function = fields
    message = _ADDRESS.sub("", message)  # which differs each time: <engine.Value object>
    return Failure(
        phase, int(step), printable(kind), printable(message), int(line), printable(function)
    )


def words_of_failure(failure: Failure) -> str:
    """Why a file does not run."""
    where = f"line {failure.line}: " if failure.line else ""
    what = "" if failure.kind == "LookupError" else f"{failure.kind}: "
    return f"{where}{what}{failure.message}".removesuffix(": ")


def printable(text: str, most: int = 200) -> str:
    """Make untrusted text fit for a terminal: one line, no control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
