"""What the server does not do for long: limits of size, depth and time, each with its answer."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gradwalk.studio import answers, server
from gradwalk.studio.work import Crew, TooBusy
from tests.studio.serving import Client, Served, serve


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return serve(tmp_path_factory.mktemp("static"))


def nested(levels: int) -> bytes:
    return b'{"source": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    "body, said",
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"3", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"source": NaN}', "NaN is not valid in JSON"),
        (b'{"source": Infinity}', "not valid in JSON"),
        (b'{"source": "x", "source": "y"}', "twice"),
        (b'{"source": "\xff"}', "not JSON"),
        (b'{"values": {"x": ' + b"9" * 5000 + b"}}", "not JSON"),
        (nested(server.DEEPEST + 1), "levels deep"),
        (nested(30_000), "not JSON"),
        (b"\x00" * 100, "not JSON"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_bodies_that_are_no_question(served: Served, body: bytes, said: str) -> None:
    answer = served.client.ask("POST", "/api/walk", body)
    assert answer.status == 400
    assert said in answer.error


def test_the_deepest_question_is_read(served: Served) -> None:
    answer = served.client.ask("POST", "/api/walk", nested(server.DEEPEST))
    assert answer.error == "source is the text of an expression"


@pytest.mark.parametrize("said", [None, "100", str(1 << 40), "-1", "x"])
def test_a_question_is_counted_while_it_arrives(served: Served, said: str | None) -> None:
    chunks = [b" " * 1024] * 65  # one more than fits
    headers = [] if said is None else [("Content-Length", said)]
    answer = served.client.ask("POST", "/api/walk", chunks, headers)
    assert answer.status == 413 and "64 KiB" in answer.error
    fits = [*chunks[2:], b'{"source": "x*x"}']
    assert served.client.ask("POST", "/api/walk", fits).status == 200


def test_a_file_is_counted_while_it_arrives(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGEST_FILE", 2048)
    monkeypatch.setitem(server._SECONDS_TO_SEND, 2048, 5.0)
    answer = served.client.ask("POST", "/api/sessions", [b"x" * 1024] * 3)
    assert answer.status == 413 and "2 KiB" in answer.error


def test_a_body_that_never_arrives_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server._SECONDS_TO_SEND, server.LONGEST_JSON, 0.05)

    async def never() -> Any:
        await asyncio.sleep(30)

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await served.client.app(scope, never, send)

    assert Client(silent).ask("POST", "/api/walk", b"{}").status == 408


def test_what_takes_too_long_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(tmp_path, seconds=0.2)
    ended = threading.Event()

    def forever(question: dict[str, Any]) -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(answers, "walk", forever)
    answer = served.client.post("/api/walk", {"source": "x"})
    assert answer.status == 504 and "too long" in answer.error
    assert ended.wait(10), "the thread goes on"
    monkeypatch.undo()
    assert served.client.post("/api/walk", {"source": "x·x"}).status == 200


@pytest.mark.slow
def test_when_every_thread_is_busy_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(tmp_path, seconds=0.2)
    release = threading.Event()

    def stuck(question: dict[str, Any]) -> dict[str, Any]:
        release.wait(30)  # one long call: it cannot be interrupted before it ends
        return {}

    monkeypatch.setattr(answers, "walk", stuck)
    statuses = [served.client.post("/api/walk", {"source": "x"}).status for _ in range(5)]
    assert statuses == [504, 504, 504, 504, 503]
    assert served.client.get("/api/sessions").status == 200
    release.set()
    monkeypatch.undo()
    deadline = time.monotonic() + 10
    while served.client.post("/api/walk", {"source": "x·x"}).status != 200:
        assert time.monotonic() < deadline


def test_an_error_of_ours_is_an_answer_and_is_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(question: dict[str, Any]) -> None:
        raise ZeroDivisionError("secret /home/someone")

    monkeypatch.setattr(answers, "walk", broken)
    answer = served.client.post("/api/walk", {"source": "x"})
    assert answer.status == 500 and answer.error == "an error in gradwalk: ZeroDivisionError"
    assert "secret" in caplog.text


def test_who_waits_is_served_in_turn_and_a_full_queue_says_so() -> None:
    crew = Crew(seconds=10, at_once=1, waiting=2)
    order: list[int] = []
    release = threading.Event()

    def job(number: int) -> int:
        if number == 0:
            release.wait(10)
        order.append(number)
        return number

    async def ask(number: int) -> int | type:
        await asyncio.sleep(0.02 * number)
        try:
            return await crew.run(lambda: job(number))
        except TooBusy:
            release.set()
            return TooBusy

    async def all_of_them() -> list[int | type]:
        return await asyncio.gather(*(ask(number) for number in range(4)))

    assert asyncio.run(all_of_them()) == [0, 1, 2, TooBusy]
    assert order == [0, 1, 2]


def test_what_a_job_raises_is_raised() -> None:
    async def failing() -> None:
        await Crew().run(lambda: {}["key"])

    with pytest.raises(KeyError):
        asyncio.run(failing())
