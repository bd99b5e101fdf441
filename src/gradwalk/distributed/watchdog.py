"""Which rank is stuck: what each process says of itself every second, and the verdict on it.

Ranks meet: at each run of a program that spans processes, at barriers, when saving. A process
counts its meetings and sends the count, with the line its main thread is at. A rank that waits for
another has met more often than that one, or waits inside JAX while the other is in the user's code.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from gradwalk.graph.source import own_files, where_text

# Code that waits for other ranks; anything else is the user's, or what the user calls.
_WAITING = (f"{os.sep}jax{os.sep}", f"{os.sep}jaxlib{os.sep}")
_LIBRARY = (f"{os.sep}site-packages{os.sep}", f"{os.sep}lib{os.sep}python", "<frozen")
FINISHED_GRACE = 10.0  # seconds that others may wait for a rank whose program has ended


class Beat(NamedTuple):
    """What a process says of itself."""

    meetings: int
    last: str  # the last meeting, in words
    line: str  # the user's line that its main thread is at
    waits: bool  # inside JAX or gradwalk
    place: int  # changes when the main thread moves


@dataclass
class Peer:
    """What is known of one process."""

    rank: int
    host: str
    pid: int
    beat: Beat
    heard: float  # when
    moved: float  # when it last did something
    finished: bool = False  # its program has ended

    def update(self, beat: Beat, now: float) -> None:
        """Take in a new beat."""
        if (beat.meetings, beat.place) != (self.beat.meetings, self.beat.place):
            self.moved = now
        self.beat, self.heard = beat, now

    def __str__(self) -> str:
        return f"rank {self.rank} (host {self.host}, pid {self.pid})"

    def where(self) -> str:
        """Its last meeting and line."""
        at = f", at {self.beat.line}" if self.beat.line else ""
        return f"{self.beat.last}{at}"


def sample(meetings: int, last: str) -> Beat:
    """What this process says of itself now; called from another thread than the main one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return Beat(meetings, last, "", False, 0)
    user = _user_frame(frame)
    line = "" if user is None else where_text(user.f_code, user.f_lasti)
    return Beat(meetings, last, line, _waits(frame), _place(frame))


def is_library(filename: str) -> bool:
    """Whether a file is gradwalk's or JAX's."""
    return own_files[filename] or any(part in filename for part in _WAITING)


def _waits(frame: FrameType | None) -> bool:
    """Whether gradwalk or JAX, and not the user's code, called what the main thread is in."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_library(name):
            return True
        if not any(part in name for part in _LIBRARY):
            return False
        frame = frame.f_back
    return False


def _place(frame: FrameType | None) -> int:
    """A number for the position in every frame of a stack."""
    parts: list[Any] = []
    while frame is not None:
        parts += id(frame.f_code), frame.f_lasti
        frame = frame.f_back
    return hash(tuple(parts)) & 0xFFFFFFFF


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's own code; None after its end."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not own_files[name] and not any(part in name for part in _LIBRARY):
            return frame
        frame = frame.f_back
    return None


def verdict(peers: Sequence[Peer], now: float, timeout: float) -> str:
    """Say which ranks hold up the others, with where each of them is; "" if none does."""
    silent = [p for p in peers if not p.finished and now - p.heard > timeout]
    if silent:
        said = f"has sent no heartbeat for {_most(now, [p.heard for p in silent])}"
        return _report(silent, said, peers, now)
    most = max(p.beat.meetings for p in peers)
    waiting = [p for p in peers if p.beat.waits and not p.finished]
    grace = min(FINISHED_GRACE, timeout)
    if any(p.beat.meetings == most and now - p.moved > grace for p in waiting):
        gone = [p for p in peers if p.finished and p.beat.meetings < most]
        if gone:
            return _report(gone, "has ended its program, and others wait for it", peers, now)
    if not any(now - p.moved > timeout for p in waiting):
        return ""
    present = [p for p in peers if not p.finished]
    fewest = min(p.beat.meetings for p in present)
    last = [p for p in present if p.beat.meetings == fewest]
    held_up = [p for p in last if not p.beat.waits] or last
    if not all(now - p.moved > timeout for p in held_up):
        return ""  # one of them is slow, and works
    said = f"has not advanced for {_most(now, [p.moved for p in held_up])}"
    return _report(held_up, said, peers, now)


def _report(blamed: Sequence[Peer], said: str, peers: Sequence[Peer], now: float) -> str:
    """The error: the ranks that are to blame first, then where all of them are."""
    if len(blamed) == len(peers) > 1:
        head = f"no rank advances: each {said}"
    else:
        head = "\n".join(f"{peer} {said}: {peer.where()}" for peer in blamed[:8])
        head += f"\nand {len(blamed) - 8} more ranks" if len(blamed) > 8 else ""
    shown = [p for p in peers if p not in blamed or len(blamed) == len(peers)][:16]
    others = "".join(f"\n  {p}, {_state(p, now)}: {p.where()}" for p in shown)
    return (
        f"{head}{others}\nIf this is work that may take so long: gw.distributed.init(timeout=...)."
    )


def _state(peer: Peer, now: float) -> str:
    if peer.finished:
        return "finished"
    return f"{'waiting' if peer.beat.waits else 'still'} for {_most(now, [peer.moved])}"


def _most(now: float, times: Sequence[float]) -> str:
    return f"{now - min(times):.0f} s"
