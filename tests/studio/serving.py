"""Shared by the server's tests: a stub of the page, traces to serve, and ways to send requests."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import gradwalk as gw
from gradwalk.course.catalogue import Catalogue
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio import launch
from gradwalk.studio.launch import Studio
from gradwalk.studio.pages import STATIC
from gradwalk.studio.server import application
from gradwalk.studio.sessions import Session, Sessions

TOKEN = "a-token-of-the-tests"
PORT = 8765
HOST = f"127.0.0.1:{PORT}"
# It contains text that could end its element or confuse a parser.
STUB_SCRIPT = 'const words = "</script><!-- <script>";\nconsole.log(words, "\\u2028 κ");\n'
STUB_STYLE = "body { margin: 0 }\n"


def stub_page(folder: Path) -> Path:
    """A folder like `static/`, with the real template and a stub of the bundle."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("index.html", "tables.json"):
        (folder / name).write_bytes((STATIC / name).read_bytes())
    (folder / "app.js").write_text(STUB_SCRIPT, encoding="utf-8")
    (folder / "app.css").write_text(STUB_STYLE, encoding="utf-8")
    return folder


def scalar_trace() -> Trace:
    a = gw.Value(2.0, label="a")
    b, c = a + 1, 3 * a
    b.label, c.label = "b", "c"
    d = b * c
    d.label = "d"
    return gw.record(d)


def tensor_trace() -> Trace:
    """Two layers; arrays of three dimensions, one with a NaN in it."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(6, 8), gw.nn.GELU(), gw.nn.Linear(8, 4))
    x = gw.randn(3, 5, 6)
    with gw.record() as trace:
        loss = gw.softmax(model(x), -1).square().mean()
        loss.label = "loss"
        loss.backward()
    return trace


def sick_trace() -> Trace:
    gw.manual_seed(0)
    layers = gw.nn.ModuleList(gw.nn.Linear(8, 8) for _ in range(7))
    with gw.record() as trace:
        h = gw.randn(32, 8)
        for layer in layers:
            h = layer(h).sigmoid()
        h.square().sum().backward()
    return trace


def trace_bytes(trace: Trace, folder: Path) -> bytes:
    path = folder / "one.trace"
    gw.save_trace(trace, path)
    return path.read_bytes()


# -- asking the application itself -------------------------------------------------------------


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.status >= 400, self.body[:200]
        text: str = self.json()["error"]
        return text


Headers = Iterable[tuple[str, str]]


class Client:
    """Calls an ASGI application as a server would, with exactly the headers that are given."""

    def __init__(self, app: Any, host: str = HOST, token: str | None = TOKEN) -> None:
        self.app = app
        self.host = host
        self.token = token

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | list[bytes] = b"",
        headers: Headers = (),
        usual: bool = True,
    ) -> Answer:
        """Send one request; `usual` adds Host and the token if they are missing."""
        given = {name.lower() for name, _ in headers}
        sent = [(name.lower(), value) for name, value in headers]
        if usual and "host" not in given:
            sent.append(("host", self.host))
        if usual and self.token and "x-gradwalk-token" not in given:
            sent.append(("x-gradwalk-token", self.token))
        parts = urlsplit(target)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(n.encode(), v.encode("latin-1")) for n, v in sent],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", PORT),
        }
        return asyncio.run(self._call(scope, body if isinstance(body, list) else [body]))

    async def _call(self, scope: dict[str, Any], chunks: list[bytes]) -> Answer:
        waiting = [
            {"type": "http.request", "body": chunk, "more_body": i + 1 < len(chunks)}
            for i, chunk in enumerate(chunks)
        ]
        found = Answer(0, {}, b"")

        async def receive() -> dict[str, Any]:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                found.status = message["status"]
                found.headers = {n.decode(): v.decode() for n, v in message["headers"]}
            else:
                found.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return found

    def get(self, target: str, headers: Headers = ()) -> Answer:
        return self.ask("GET", target, headers=headers)

    def post(self, target: str, value: Any) -> Answer:
        return self.ask("POST", target, json.dumps(value).encode())


@dataclass
class Served:
    client: Client
    sessions: Sessions

    def show(self, trace: Trace, title: str = "a trace") -> Session:
        return self.sessions.show(trace, title)


def serve(folder: Path, seconds: float = 10.0, catalogue: Catalogue | None = None) -> Served:
    sessions = Sessions()
    app = application(
        sessions, TOKEN, PORT, static=stub_page(folder), seconds=seconds, catalogue=catalogue
    )
    return Served(Client(app), sessions)


# -- a real server -----------------------------------------------------------------------------


@contextmanager
def running(patch: pytest.MonkeyPatch) -> Iterator[Studio]:
    """uvicorn in a thread, on a free port; it needs no built page."""
    patch.setattr(launch, "built", lambda: True)
    studio = Studio(Sessions(), port=0)
    try:
        yield studio
    finally:
        studio.stop()


def connect(studio: Studio) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", studio.port, timeout=30)


def request(
    connection: http.client.HTTPConnection,
    studio: Studio,
    method: str,
    path: str,
    value: Any = None,
) -> tuple[int, Any]:
    """One request of the page: status and JSON."""
    body = None if value is None else json.dumps(value).encode()
    connection.request(method, path, body, {"X-Gradwalk-Token": studio.token})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
