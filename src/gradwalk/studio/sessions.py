"""The traces of a server: shown from Python, or opened as files in the page."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gradwalk.inspect.trace.file import describe, open_trace, read_trace
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.answers import AnswerTooLarge
from gradwalk.studio.problems import findings

MOST_NODES = 200_000
MOST_UPLOADS = 8  # beyond it the oldest is removed
LONGEST_TITLE = 200  # of a file that was opened in the page


@dataclass
class Session:
    """One trace, ready to be sent."""

    title: str
    trace: Trace
    description: bytes  # JSON of docs/inspect/trace-file.md
    arrays: dict[str, Any]
    uploaded: bool = False
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """The findings about the trace; computed once."""
        return findings(self.trace)

    def summary(self) -> dict[str, Any]:
        """A line in the list of sessions."""
        about = {"id": self.id, "title": self.title}
        return about | {"scalar": self.trace.scalar, "nodes": len(self.trace)}


class Sessions:
    """The traces of one server, oldest first."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self._lock = threading.Lock()

    def show(self, trace: Trace, title: str) -> Session:
        """Add a trace of this program."""
        _check_size(trace)
        return self._add(title, trace, *describe(trace))

    def open(self, path: Path) -> Session:
        """Add a trace file; an invalid one raises `gradwalk.io.FileError`."""
        return self._opened(path.name, *open_trace(path))

    def upload(self, content: bytes, title: str = "") -> Session:
        """Add a trace file that was opened in the page, or a bare description."""
        # else these are the length of a file's header
        if content[:1] == b"{" and content[7:8] != b"\0":
            content = _as_file(content)
        read = read_trace(content, Path("the file"))
        return self._opened(title[:LONGEST_TITLE], *read, uploaded=True)

    def _opened(
        self, title: str, trace: Trace, described: Any, arrays: Any, uploaded: bool = False
    ) -> Session:
        _check_size(trace)
        return self._add(title, trace, described, arrays, uploaded)

    def _add(self, title: str, trace: Trace, described: Any, *more: Any) -> Session:
        text = json.dumps(described, allow_nan=False).encode()
        session = Session(title, trace, text, *more)
        with self._lock:
            self._by_id[session.id] = session
            uploads = [s.id for s in self._by_id.values() if s.uploaded]
            for forgotten in uploads[:-MOST_UPLOADS]:
                del self._by_id[forgotten]
        return session

    def get(self, name: str) -> Session | None:
        """The session of this id."""
        return self._by_id.get(name)

    def remove(self, session: Session) -> None:
        """Remove a session."""
        with self._lock:
            self._by_id.pop(session.id, None)

    def all(self) -> list[Session]:
        """All sessions, oldest first."""
        with self._lock:
            return list(self._by_id.values())

    @property
    def latest(self) -> Session | None:
        """The session that Python showed last."""
        return next((s for s in reversed(self.all()) if not s.uploaded), None)


def _as_file(description: bytes) -> bytes:
    """A description without separate arrays, as a trace file."""
    text = description.decode(errors="replace")
    header = json.dumps({"__metadata__": {"gradwalk_trace": text}}).encode()
    return len(header).to_bytes(8, "little") + header


def _check_size(trace: Trace) -> None:
    if len(trace) > MOST_NODES:
        raise AnswerTooLarge(
            f"the trace has {len(trace):,} nodes, and the studio shows at most {MOST_NODES:,}. "
            "Fix: record a part of the computation, with a smaller batch or fewer steps"
        )
    if not len(trace):
        raise ValueError("the trace is empty: nothing was recorded")
