"""A real server on a real port: hostile requests leave it serving, and fifty clients are held."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.file import _KEY
from gradwalk.io.safetensors_files import read, write
from gradwalk.studio.launch import Studio
from tests.studio.serving import (
    connect,
    request,
    running,
    scalar_trace,
    tensor_trace,
    trace_bytes,
)

CLIENTS = 50
DIAMOND = "a = x·1; b = a + 1; c = 3·a; d = b·c"


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with pytest.MonkeyPatch.context() as patch, running(patch) as found:
        found.sessions.show(scalar_trace(), "numbers")
        found.sessions.show(tensor_trace(), "tensors")
        yield found


def serves(studio: Studio) -> bool:
    connection = connect(studio)
    try:
        status, listed = request(connection, studio, "GET", "/api/sessions")
        return status == 200 and len(listed) >= 2
    finally:
        connection.close()


def send(studio: Studio, raw: bytes) -> bytes:
    """Send bytes as they are; what comes back before the other side closes, or goes quiet."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=10) as connection:
        connection.settimeout(0.5)
        found = b""
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
        return found


def usual(studio: Studio) -> bytes:
    host = f"127.0.0.1:{studio.port}"
    return f"Host: {host}\r\nX-Gradwalk-Token: {studio.token}\r\n".encode()


def malformed(studio: Studio) -> dict[str, bytes]:
    head = usual(studio)
    walk = b"POST /api/walk HTTP/1.1\r\n" + head
    return {
        "nothing": b"",
        "zeros": b"\x00" * 4096,
        "noise": random.Random(0).randbytes(4096),
        "tls": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 200,
        "no version": b"GET /\r\n\r\n",
        "http 0.9": b"GET /\n",
        "http 1.0": b"GET / HTTP/1.0\r\n\r\n",
        "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "http 9": b"GET / HTTP/9.9\r\n" + head + b"\r\n",
        "no host": b"GET / HTTP/1.1\r\n\r\n",
        "two hosts": b"GET / HTTP/1.1\r\n" + head + b"Host: example.com\r\n\r\n",
        "long line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + head + b"\r\n",
        "long header": b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        "many headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        "bad header": b"GET / HTTP/1.1\r\nno colon here\r\n\r\n",
        "header name": b"GET / HTTP/1.1\r\n" + head + b"a b: c\r\n\r\n",
        "newline": b"GET / HTTP/1.1\r\n" + head + b"X: a\rSet-Cookie: b\r\n\r\n",
        "folded": b"GET / HTTP/1.1\r\n" + head + b"X: a\r\n b\r\n\r\n",
        "absolute": b"GET http://example.com/ HTTP/1.1\r\n" + head + b"\r\n",
        "connect": b"CONNECT example.com:443 HTTP/1.1\r\n" + head + b"\r\n",
        "asterisk": b"OPTIONS * HTTP/1.1\r\n" + head + b"\r\n",
        "traversal": b"GET /../../etc/passwd HTTP/1.1\r\n" + head + b"\r\n",
        "bad escape": b"GET /%zz%f HTTP/1.1\r\n" + head + b"\r\n",
        "bad utf-8": b"GET /%ff%fe?%ff HTTP/1.1\r\n" + head + b"\r\n",
        "nul": b"GET /api/sessions/%00/trace HTTP/1.1\r\n" + head + b"\r\n",
        "smuggled": walk + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
        "two lengths": walk + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}{}",
        "negative": walk + b"Content-Length: -1\r\n\r\n",
        "huge": walk + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        "cut off": walk + b"Content-Length: 1000\r\n\r\n{",
        "bad chunk": walk + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "long chunk": walk
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"ffff\r\n"
        + b" " * 0xFFFF
        + b"\r\nffff\r\n"
        + b" " * 0xFFFF
        + b"\r\n0\r\n\r\n",
        "gzip": walk + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
        "get with body": b"GET / HTTP/1.1\r\n" + head + b"Content-Length: 9\r\n\r\nsome text",
        "expect": walk + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        "upgrade": b"GET / HTTP/1.1\r\n"
        + head
        + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "h2c": b"GET / HTTP/1.1\r\n" + head + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "forwarded": b"GET / HTTP/1.1\r\n" + head + b"X-Forwarded-Host: example.com\r\n\r\n",
        "range": b"GET /app.js HTTP/1.1\r\n" + head + b"Range: bytes=9-3,-1\r\n\r\n",
        "pipelined": (b"GET /app.css HTTP/1.1\r\n" + head + b"\r\n") * 20,
    }


def test_malformed_requests_leave_it_serving(studio: Studio) -> None:
    statuses: dict[str, bytes] = {}
    for name, raw in malformed(studio).items():
        statuses[name] = send(studio, raw)[:13]
    assert serves(studio)
    broken = {name: line for name, line in statuses.items() if line[9:10] == b"5"}
    assert not broken
    for name in ("no host", "two hosts", "http 1.0"):
        assert statuses[name][9:12] in (b"400", b"403"), name
    assert statuses["long chunk"][9:12] == b"413"


texts = st.text(max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4), max_leaves=8
)
sources = st.text(alphabet="abxy12.·*/^+-()=;,\n \u2212tanhlogmax", max_size=60) | texts
questions = st.dictionaries(
    st.sampled_from(["source", "values", "order", "overwrite", "node", "output", "element", "x"]),
    values,
    max_size=5,
) | st.fixed_dictionaries(
    {"source": sources},
    optional={"values": st.dictionaries(texts, values, max_size=3), "order": values},
)
paths = st.sampled_from(
    ["/api/walk", "/api/sessions/ID/why", "/api/sessions/ID/element", "/api/sessions/ID/open"]
)
fuzz = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@fuzz
@given(path=paths, question=questions | values, which=st.integers(0, 1))
def test_no_question_breaks_it(studio: Studio, path: str, question: Any, which: int) -> None:
    session = studio.sessions.all()[which]
    connection = connect(studio)
    status, answer = request(connection, studio, "POST", path.replace("ID", session.id), question)
    connection.close()
    assert status in (200, 400, 413), answer
    assert status == 200 or answer["error"]


names = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
targets = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=255), max_size=60)


@pytest.mark.slow
@fuzz
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "OPTIONS", "get", "G\tT"]) | names,
    target=st.sampled_from(["/", "/api/walk", "/app.js", "*"]) | targets.map(lambda t: "/" + t),
    headers=st.lists(st.tuples(names, targets), max_size=4),
    ours=st.booleans(),
    body=st.binary(max_size=60),
)
def test_no_request_breaks_it(
    studio: Studio,
    method: str,
    target: str,
    headers: list[tuple[str, str]],
    ours: bool,
    body: bytes,
) -> None:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    raw = "\r\n".join(lines).encode("latin-1") + b"\r\n"
    raw += usual(studio) if ours else b""
    raw += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
    assert send(studio, raw)[9:10] in (b"2", b"4", b"")


def test_it_serves_after_all_this(studio: Studio) -> None:
    assert serves(studio)


# -- hostile files -----------------------------------------------------------------------------


def changed(value: Any, luck: random.Random, junk: list[Any]) -> Any:
    """A JSON value with one thing in it replaced, left out or doubled."""
    if isinstance(value, dict) and value and luck.random() < 0.9:
        key = luck.choice(list(value))
        if luck.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: changed(value[key], luck, junk)}
    if isinstance(value, list) and value and luck.random() < 0.9:
        at = luck.randrange(len(value))
        if luck.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], changed(value[at], luck, junk), *value[at + 1 :]]
    return luck.choice(junk)


JUNK = [None, True, -1, 0, 1, 3, 10**9, 2**70, 1e308, 0.5, "", "x", "float32", "mul", "softmax"]
JUNK += [
    [],
    {},
    [0, 0],
    [[0, 0]],
    {"float": "nan"},
    {"opaque": "x"},
    {"tuple": [1]},
    {"array": "x"},
]
JUNK += [{"small": [1.0], "shape": [1], "dtype": "float64"}, {"slice": [0, 1, None]}]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_trace_file_breaks_it(studio: Studio, tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    (tmp_path / "good.trace").write_bytes(trace_bytes(tensor_trace(), tmp_path))
    arrays, metadata = read(tmp_path / "good.trace")
    description = json.loads(metadata[_KEY])
    connection = connect(studio)
    read_at_all = 0
    for _ in range(40):
        bad = changed(description, luck, JUNK)
        write(tmp_path / "bad.trace", arrays, {_KEY: json.dumps(bad)})
        body = (tmp_path / "bad.trace").read_bytes()
        connection.request("POST", "/api/sessions", body, {"X-Gradwalk-Token": studio.token})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status in (201, 400, 413), (found, bad)
        if answer.status != 201:
            continue
        read_at_all += 1
        one = f"/api/sessions/{found['id']}"
        nodes = len(bad["nodes"])
        asked: list[tuple[str, str, Any]] = [("GET", "trace", None), ("GET", "health", None)]
        for node in luck.sample(range(nodes), min(nodes, 3)):
            asked += [("POST", "why", {"node": node}), ("POST", "open", {"node": node})]
            asked.append(("POST", "element", {"node": node, "element": [0, 0, 0]}))
        for method, what, question in asked:
            status, said = request(connection, studio, method, f"{one}/{what}", question)
            assert status in (200, 400, 413), (said, what, question)
    connection.close()
    assert read_at_all > 5
    assert serves(studio)


# -- load --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifty_clients_step_graphs(studio: Studio) -> None:
    """Each client walks the diamond visit by visit, as the order lab does."""
    expected = {}
    trace = parse(DIAMOND).build(x=2).trace()
    steps = [["d", "b", "c", "a"][:count] for count in range(5)]
    for order in steps:
        expected[len(order)] = gw.run_order(trace, order)["x"].got
    failures: list[Any] = []
    start = threading.Barrier(CLIENTS)

    def client() -> None:
        connection = connect(studio)
        try:
            start.wait(30)
            for order in steps:
                question = {"source": DIAMOND, "values": {"x": 2}, "order": order}
                status, found = request(connection, studio, "POST", "/api/walk", question)
                got = {n["name"]: n["got"] for n in found["order"]["nodes"]}["x"]
                if status != 200 or got != expected[len(order)]:
                    failures.append((status, found))
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert expected == {0: 0, 1: 0, 2: 0, 3: 0, 4: 15}
    assert not failures
