"""Thousands of random and hostile requests to the studio's server: each gets an answer or an end.

What comes back is never an error of ours, never a file that is not the page's, never the token; and
nothing is printed. tests/studio/server tries each kind of request by name; these are mixtures.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from gradwalk.studio.launch import Studio
from tests.studio.serving import connect, request, running, scalar_trace, tensor_trace

SEED = 15
COUNT = 2000
AT_ONCE = 4
BUSY = {503, 504}  # answers of a server that works
SECRETS = (b"root:x:", b"Traceback", b"site-packages", b"[project]")

METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"]
METHODS += ["G" * 300, "GET\t", "", "\x00", "PROPFIND", "GÉT"]
PLACES = ["/", "/index.html", "/app.js", "/app.css", "/tables.json", "/lessons/index.json"]
PLACES += [
    "/api/sessions",
    "/api/walk",
    "/api",
    "/api/",
    "/apix",
    "//api/sessions",
    "/API/sessions",
]
ABOUT = [
    "trace",
    "document",
    "arrays/0",
    "arrays/..",
    "health",
    "why",
    "element",
    "open",
    "nothing",
]
CLIMBS = [
    "../",
    "..%2f",
    "%2e%2e/",
    "..%5c",
    "....//",
    "%252e%252e/",
    "..;/",
    "/./",
    "%00",
    "%c0%ae/",
]
TARGETS = ["etc/passwd", "pyproject.toml", "proc/self/environ", "server.py", "app.js", "..", ""]
JSONS = [
    b"{}", b"[]", b"null", b"{", b'"', b"\xff\xfe", b"[" * 5000, b'{"a":' * 3000, b"1e999999",
    b'{"source": "x' + b"*x" * 900 + b'"}', b'{"source": "((((((((((((("}', b'{"source": 1}',
    b'{"source": "x", "values": {"x": "nan"}}', b'{"node": -1}', b'{"node": 1e400}',
    b'{"node": 99999999999999999999}', b'{"node": "0", "element": [[[]]]}', b'{"\\u0000": 0}',
    b'{"source": "x^999999999^999999999"}', b'{"a": 1, "a": 2}', b"NaN", b" " * 70_000,
    b'{"source": "a = b; b = a"}', b'{"order": ["x", "x"], "source": "x*x"}',
]  # fmt: skip


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with pytest.MonkeyPatch.context() as patch, running(patch) as found:
        found.sessions.show(scalar_trace(), "numbers")
        found.sessions.show(tensor_trace(), "tensors")
        yield found


def path(draw: random.Random, sessions: list[str]) -> str:
    kind = draw.random()
    if kind < 0.3:
        found = draw.choice(PLACES)
    elif kind < 0.6:
        name = draw.choice([*sessions, "0", "..", "%00", "a" * 2000])
        found = f"/api/sessions/{name}/{draw.choice(ABOUT)}"
    elif kind < 0.9:
        climb = draw.choice(CLIMBS) * draw.randint(1, 8)
        found = draw.choice(["/", "/lessons/", "/fonts/", "/api/"]) + climb + draw.choice(TARGETS)
    else:
        letters = "".join(chr(draw.randint(0x21, 0x17F)) for _ in range(draw.randint(0, 40)))
        found = draw.choice(["/", "http://example.com/", "*", "?", "#", ""]) + letters
    if draw.random() < 0.2:
        found += "?" + draw.choice(
            ["session=..", "row=-1&column=x", "title=" + "x" * 999, "%", "&&="]
        )
    return found


def body(draw: random.Random) -> tuple[bytes, bytes]:
    """A body and the headers that describe it, rightly or not."""
    content = draw.choice(JSONS) if draw.random() < 0.8 else draw.randbytes(draw.randint(0, 2000))
    kind = draw.random()
    if kind < 0.4:
        return content, b"Content-Length: %d\r\n" % len(content)
    if kind < 0.55:
        said = draw.choice([b"0", b"-1", b"1e3", b"99999999999", b"5, 5", b"", b"0x10", b"\xb2"])
        return content, b"Content-Length: %b\r\n" % said
    chunks = b""
    while content or draw.random() < 0.3:
        part, content = content[:700], content[700:]
        size = b"%x" % len(part) if draw.random() < 0.8 else draw.choice(
            [b"zz", b"", b"-1", b"ffffffffffffffffff", b"5;" + b"x" * 99, b"0"]
        )  # fmt: skip
        end = b"\r\n" if draw.random() < 0.9 else draw.choice([b"", b"\n", b"\r", b"xx"])
        chunks += size + b"\r\n" + part + end
    chunks += draw.choice([b"0\r\n\r\n", b"0\r\n", b"", b"0\r\nX: y\r\n\r\n", b"0\r\n\x00\r\n\r\n"])
    more = b"Content-Length: 3\r\n" if draw.random() < 0.1 else b""
    return chunks, b"Transfer-Encoding: chunked\r\n" + more


def hostile(draw: random.Random, studio: Studio, sessions: list[str]) -> bytes:
    ours = f"127.0.0.1:{studio.port}"
    hosts = [ours] * 40 + [
        "example.com",
        f"localhost:{studio.port}",
        "",
        ours + ".",
        "a" * 999,
        "\x00",
    ]
    head = f"{draw.choice(METHODS[:2] * 40 + METHODS)} {path(draw, sessions)} "
    head += draw.choice(["HTTP/1.1"] * 40 + ["HTTP/1.0", "HTTP/2", "HTTP/1.1 x", "", "http/1.1"])
    lines = [f"Host: {draw.choice(hosts)}"]
    if draw.random() < 0.8:
        token = studio.token if draw.random() < 0.9 else draw.choice(["", "x", studio.token[:-1]])
        lines.append(f"X-Gradwalk-Token: {token}")
    for name, values in {
        "Origin": ["null", f"http://{ours}", "http://example.com", f"https://{ours}", "*"],
        "Sec-Fetch-Site": ["cross-site", "same-origin", "none", "same-site", "x"],
        "Connection": ["close", "keep-alive", "Upgrade", "close, keep-alive"],
        "Upgrade": ["websocket", "h2c", "TLS/1.0"],
        "Expect": ["100-continue", "200-ok"],
        "Range": ["bytes=0-0", "bytes=-1", "bytes=" + "0-1," * 900],
        "X-Forwarded-For": ["127.0.0.1"],
        "Cookie": ["a" * 5000, "\xff"],
        "Content-Type": ["application/json", "multipart/form-data; boundary=" + "x" * 500],
        "X" * draw.randint(1, 900): ["y", "\x01", " ", "y\r\n z"],
    }.items():
        if draw.random() < 0.05:
            lines.append(f"{name}: {draw.choice(values)}")
    draw.shuffle(lines)
    content, about = body(draw) if draw.random() < 0.6 else (b"", b"")
    raw = "\r\n".join([head, *lines]).encode("latin-1", "replace") + b"\r\n" + about + b"\r\n"
    raw += content
    if draw.random() < 0.1:  # another one right behind it
        raw += b"GET /api/sessions HTTP/1.1\r\nHost: example.com\r\n\r\n"
    if draw.random() < 0.1:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.randbytes(draw.randint(0, 4)) + raw[place + draw.randint(0, 4) :]
    return raw[: draw.randrange(len(raw))] if draw.random() < 0.05 else raw


def send(studio: Studio, raw: bytes) -> bytes:
    """Send it all, and read until the server closes the connection; it must."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=60) as connection:
        found = b""
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                found += part
        except ConnectionError:  # closed before all was sent
            pass
        return found


def test_thousands_of_hostile_requests(
    studio: Studio, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    sessions = [session.id for session in studio.sessions.all()]
    statuses: Counter[int] = Counter()
    wrong: list[str] = []

    def attack(seed: int) -> None:
        for i in range(COUNT // AT_ONCE):
            raw = hostile(random.Random(f"{SEED}/{seed}/{i}"), studio, sessions)
            try:
                answer = send(studio, raw)
            except TimeoutError:
                wrong.append(f"{seed}/{i}: stuck: {raw[:200]!r}")
                continue
            status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
            statuses[status] += 1
            head, _, content = answer.partition(b"\r\n\r\n")
            if status >= 500 and status not in BUSY:
                wrong.append(f"{seed}/{i}: {status}: {raw[:300]!r} {content[:200]!r}")
            if any(secret in answer for secret in (*SECRETS, studio.token.encode())):
                wrong.append(f"{seed}/{i}: tells too much: {raw[:300]!r}")
            if b"etag" not in head and 200 <= status < 300 and b"content-security" not in head:
                wrong.append(f"{seed}/{i}: no policy: {raw[:300]!r}")

    with caplog.at_level(logging.WARNING):
        threads = [threading.Thread(target=attack, args=(seed,)) for seed in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, "\n".join(wrong[:10])
    assert min(statuses[status] for status in (200, 400, 403, 404, 405)) >= 50, statuses
    loud = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert not loud, loud[:3]
    assert capfd.readouterr() == ("", "")
    connection = connect(studio)
    assert request(connection, studio, "GET", "/api/sessions")[0] == 200
    connection.close()


def test_many_slow_clients_do_not_lock_others_out(studio: Studio) -> None:
    """Connections that send a little and wait; others are served meanwhile."""
    start = f"POST /api/walk HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\n"
    start += f"X-Gradwalk-Token: {studio.token}\r\n"
    begun = [b"", b"GET", start.encode(), f"{start}Content-Length: 9\r\n\r\n{{".encode()]
    slow = []
    try:
        for i in range(100):
            slow.append(socket.create_connection(("127.0.0.1", studio.port), timeout=10))
            slow[-1].sendall(begun[i % len(begun)])
        connection = connect(studio)
        source = {"source": "x*x", "values": {"x": 3}}
        assert request(connection, studio, "POST", "/api/walk", source)[0] == 200
        connection.close()
    finally:
        for one in slow:
            one.close()
