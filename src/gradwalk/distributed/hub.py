"""Hub: what rank 0 runs so that all processes can speak to each other and are watched."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any

from gradwalk.distributed.channel import LONGEST, PERIOD, frame
from gradwalk.distributed.launch import Launch, LaunchError
from gradwalk.distributed.watchdog import Beat, Peer, verdict


class Hub:
    """Takes the connections of all processes, in a thread of its own."""

    def __init__(self, launch: Launch, timeout: float) -> None:
        self.size, self.timeout = launch.world_size, timeout
        self.listener = _listener(launch)
        self.peers: dict[int, Peer] = {}
        self.writers: dict[int, asyncio.StreamWriter] = {}
        self.versions: dict[int, str] = {}
        self.gathers: dict[int, dict[int, Any]] = {}
        self.labels: dict[int, tuple[int, str]] = {}  # the first rank at a gather, and where it is
        self.refused: dict[int, dict[str, Any]] = {}  # gathers at which ranks do not agree
        self.ended = ""
        self.begun = time.monotonic()
        self.empty = threading.Event()  # no other process is connected
        threading.Thread(target=self._run, name="gradwalk hub", daemon=True).start()

    def wait_until_left(self, seconds: float) -> None:
        """Wait for the other processes to leave: JAX aborts them if this one ends first."""
        self.empty.wait(seconds)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        await asyncio.start_server(self._take, sock=self.listener, limit=LONGEST)
        before = time.monotonic()
        while True:
            await asyncio.sleep(PERIOD)
            now = time.monotonic()
            if now - before > 5 * PERIOD:  # this process was stopped: others were not silent
                for peer in self.peers.values():
                    peer.heard += now - before
                    peer.moved += now - before
                self.begun += now - before
            before = now
            if 0 in self.peers:  # who is silent, and where, if this process is next to fail
                first = self.peers[0]
                self._broadcast(kind="alive", who=str(first), where=first.where())
            self._judge(now)

    def _judge(self, now: float) -> None:
        if len(self.peers) < self.size:
            if now - self.begun > self.timeout and not self.ended:
                missing = [r for r in range(self.size) if r not in self.peers]
                shown = ", ".join(map(str, missing[:16])) + (", ..." if len(missing) > 16 else "")
                self._end(
                    f"{len(missing)} of {self.size} processes have not joined within "
                    f"{self.timeout:.0f} s: rank {shown}.\nFix: start them, and check that they "
                    "reach this host."
                )
        elif said := verdict(self._in_order(), now, self.timeout):
            self._end(said)

    def _in_order(self) -> list[Peer]:
        return [self.peers[rank] for rank in sorted(self.peers)]

    # -- connections -------------------------------------------------------------------------------

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one process until it leaves."""
        rank = left = None
        try:
            while message := await _message(reader):
                if rank is None:
                    rank = self._hello(message, writer)
                    if rank is None:
                        return
                elif message["kind"] == "left":
                    left = True
                else:
                    self._handle(rank, message)
        except (OSError, ValueError, KeyError, TypeError, asyncio.IncompleteReadError):
            pass  # it died, or is none of ours
        finally:
            writer.close()
            if rank is not None:
                self.writers.pop(rank, None)
                peer = self.peers[rank]
                if not left and not self.ended:
                    self._end(f"{peer} died without a message: was it killed? {peer.where()}")
            if not set(self.writers) - {0} and len(self.peers) > 1:
                self.empty.set()

    def _hello(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> int | None:
        """Take a process in; return its rank, or None if it does not belong here."""
        rank, size, host = int(message["rank"]), message["size"], str(message["host"])
        now = time.monotonic()
        beat = Beat(0, "before its first step", "", False, 0)
        peer = Peer(rank, host, int(message["pid"]), beat, now, now)
        problem = ""
        if size != self.size:
            problem = f"{peer} was started as one of {size} processes, rank 0 as one of {self.size}"
        elif rank in self.peers:
            problem = f"{peer} and {self.peers[rank]} have the same rank"
        elif self.versions and message["versions"] != (first := next(iter(self.versions.values()))):
            problem = f"{peer} runs {message['versions']}, others {first}"
        if problem:
            fix = "Fix: start each process with a rank of its own, the same size and versions."
            writer.write(frame({"kind": "end", "text": f"{problem}.\n{fix}"}))
            self._end(f"{problem}.\n{fix}")
            return None
        self.peers[rank], self.writers[rank] = peer, writer
        self.versions[rank] = message["versions"]
        if self.ended:
            writer.write(frame({"kind": "end", "text": self.ended}))
        elif len(self.peers) == self.size:
            self._broadcast(kind="welcome", hosts=[p.host for p in self._in_order()])
        return rank

    def _handle(self, rank: int, message: dict[str, Any]) -> None:
        peer, kind = self.peers[rank], message["kind"]
        if kind == "beat":
            peer.update(Beat(*message["beat"]), time.monotonic())
        elif kind == "gather":
            self._gather(rank, message["number"], message["label"], message["value"])
        elif kind == "failed":
            self._end(f"{peer} failed: {message['error']}")
        elif kind == "finished":
            peer.finished = True
            if all(p.finished for p in self.peers.values()):
                self._broadcast(kind="all finished")

    def _gather(self, rank: int, number: int, label: str, value: Any) -> None:
        first, expected = self.labels.setdefault(number, (rank, label))
        if label != expected and number not in self.refused:
            text = (
                f"ranks meet at different places: rank {first} at {expected}, rank {rank} at "
                f"{label}.\nFix: every process runs the same program on the same mesh."
            )
            self.refused[number] = {"kind": "result", "number": number, "error": text}
            for there in self.gathers.pop(number, {}):
                self._tell(there, self.refused[number])
        if number in self.refused:
            self._tell(rank, self.refused[number])
            return
        values = self.gathers.setdefault(number, {})
        values[rank] = value
        if len(values) == self.size:
            del self.gathers[number], self.labels[number]
            found = [values[r] for r in range(self.size)]
            self._broadcast(kind="result", number=number, values=found)

    # -- telling -----------------------------------------------------------------------------------

    def _end(self, text: str) -> None:
        """End the job, once: what comes after is a consequence."""
        if not self.ended:
            self.ended = text
            self._broadcast(kind="end", text=text)

    def _broadcast(self, **message: Any) -> None:
        data = frame(message)
        for writer in self.writers.values():
            writer.write(data)

    def _tell(self, rank: int, message: dict[str, Any]) -> None:
        if rank in self.writers:
            self.writers[rank].write(frame(message))


async def _message(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next message; a stranger's raises."""
    length = int.from_bytes(await reader.readexactly(4), "little")
    if length > LONGEST:
        raise ValueError("no message is so long")
    message = json.loads(await reader.readexactly(length))
    if not isinstance(message, dict):
        raise TypeError("a message is a JSON object")
    return message


def _listener(launch: Launch) -> socket.socket:
    """Listen where the other processes look for rank 0; on this host alone if they are here."""
    local = launch.host in ("127.0.0.1", "localhost", "::1")
    family = socket.AF_INET6 if ":" in launch.host else socket.AF_INET
    everywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"
    try:
        return socket.create_server(
            (launch.host if local else everywhere, launch.port), family=family, backlog=1024
        )
    except OSError as error:
        raise LaunchError(
            f"rank 0 cannot listen at port {launch.port}: {error.strerror}.\n"
            "Fix: set MASTER_PORT to a free port, the same in every process."
        ) from None
