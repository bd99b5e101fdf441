"""Who may ask: every header of the security matrix, good and bad, on the page and on the api."""

from __future__ import annotations

import asyncio
import hmac
import itertools

import pytest

from gradwalk.studio import guard
from tests.batches import batched
from tests.studio.serving import HOST, PORT, TOKEN, Client, Headers, Served, serve

PUBLIC = ("/", "/index.html", "/app.js", "/app.css", "/lessons/index.json")
API = ("/api/sessions",)
OURS = f"http://{HOST}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return serve(tmp_path_factory.mktemp("static"))


GOOD: list[Headers] = [
    [],
    [("Host", f"localhost:{PORT}")],
    [("Host", f"LOCALHOST:{PORT}")],
    [("Host", f"[::1]:{PORT}")],
    [("Origin", OURS)],
    [("Host", f"localhost:{PORT}"), ("Origin", f"http://localhost:{PORT}")],
    [("Sec-Fetch-Site", "same-origin")],
    [("Sec-Fetch-Site", "none")],
    [("Origin", OURS), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")],
]
BAD: list[Headers] = [
    [("Host", "example.com")],  # DNS rebinding: a foreign name that points here
    [("Host", f"example.com:{PORT}")],
    [("Host", "127.0.0.1")],
    [("Host", "127.0.0.1:80")],
    [("Host", f"127.0.0.1:{PORT + 1}")],
    [("Host", f"127.0.0.1:{PORT}.example.com")],
    [("Host", f"127.0.0.1:{PORT}@example.com")],
    [("Host", f"localhost.example.com:{PORT}")],
    [("Host", f"127.0.0.2:{PORT}")],
    [("Host", f"0.0.0.0:{PORT}")],
    [("Host", f"[::]:{PORT}")],
    [("Host", f"::1:{PORT}")],
    [("Host", f"127.1:{PORT}")],
    [("Host", f"2130706433:{PORT}")],
    [("Host", "")],
    [("Host", HOST), ("Host", HOST)],
    [("Host", HOST), ("Host", "example.com")],
    [("Origin", "null")],
    [("Origin", "")],
    [("Origin", "http://example.com")],
    [("Origin", "https://127.0.0.1")],
    [("Origin", f"https://{HOST}")],
    [("Origin", f"http://{HOST}.example.com")],
    [("Origin", "http://127.0.0.1")],
    [("Origin", f"http://127.0.0.1:{PORT + 1}")],  # another server of this machine
    [("Origin", f"http://localhost:{PORT}")],  # ours, but not the name that was asked for
    [("Origin", OURS), ("Origin", "http://example.com")],
    [("Sec-Fetch-Site", "cross-site")],
    [("Sec-Fetch-Site", "same-site")],  # another port of localhost
    [("Sec-Fetch-Site", "")],
    [("Sec-Fetch-Site", "Same-Origin, cross-site")],
    [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")],
]
BAD_TOKENS: list[Headers] = [
    [("X-Gradwalk-Token", "")],
    [("X-Gradwalk-Token", TOKEN[:-1])],
    [("X-Gradwalk-Token", TOKEN + "x")],
    [("X-Gradwalk-Token", TOKEN.upper())],
    [("X-Gradwalk-Token", "ä" * len(TOKEN))],
    [("X-Gradwalk-Token", TOKEN), ("X-Gradwalk-Token", TOKEN)],
    [("Authorization", f"Bearer {TOKEN}"), ("X-Gradwalk-Token", "no")],
    [("Cookie", f"token={TOKEN}"), ("X-Gradwalk-Token", "no")],
]


@batched("path, headers", itertools.product([*PUBLIC, *API], GOOD))
def test_our_own_page_is_answered(served: Served, path: str, headers: Headers) -> None:
    assert served.client.get(path, headers).status == 200


@batched("path, headers", itertools.product([*PUBLIC, *API, "/nothing/here"], BAD))
def test_everyone_else_is_refused(served: Served, path: str, headers: Headers) -> None:
    answer = served.client.get(path, headers)
    assert answer.status == 403
    assert answer.error


@pytest.mark.parametrize("headers", BAD_TOKENS, ids=str)
def test_the_api_needs_the_token(served: Served, headers: Headers) -> None:
    answer = served.client.get("/api/sessions", headers)
    assert answer.status == 403
    assert "token" in answer.error


def test_without_any_header_nothing_is_answered(served: Served) -> None:
    assert served.client.ask("GET", "/", usual=False).status == 403
    assert (
        served.client.ask("GET", "/api/sessions", headers=[("Host", HOST)], usual=False).status
        == 403
    )


def test_the_page_itself_needs_no_token(served: Served) -> None:
    for path in PUBLIC:
        answer = served.client.ask("GET", path, headers=[("Host", HOST)], usual=False)
        assert answer.status == 200, path
        assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "X"])
def test_other_methods_are_answered_in_json_and_never_with_cors(
    served: Served, method: str
) -> None:
    ours = served.client.ask(method, "/api/walk", headers=[("Origin", OURS)])
    assert ours.status == 405 and "POST" in ours.headers["allow"]
    assert method in ours.error
    foreign = served.client.ask(method, "/api/walk", headers=[("Origin", "http://example.com")])
    assert foreign.status == 403
    for answer in (ours, foreign):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_preflight_of_another_site_is_refused(served: Served) -> None:
    answer = served.client.ask(
        "OPTIONS",
        "/api/walk",
        headers=[
            ("Origin", "http://example.com"),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "x-gradwalk-token"),
        ],
    )
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path, status",
    [("/", 200), ("/app.js", 200), ("/api/sessions", 200), ("/none", 404), ("/api/none", 404)],
)
def test_every_answer_has_the_headers(served: Served, path: str, status: int) -> None:
    answer = served.client.get(path)
    assert answer.status == status
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data: blob:",
        "font-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert ("no-store" in answer.headers["cache-control"]) == path.startswith("/api")
    refused = served.client.get(path, [("Host", "example.com")])
    assert refused.headers["content-security-policy"] == answer.headers["content-security-policy"]


def test_tokens_are_compared_in_constant_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    in_constant_time = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return in_constant_time(one, other)

    monkeypatch.setattr(guard.hmac, "compare_digest", compare)
    served.client.get("/api/sessions", [("X-Gradwalk-Token", "guess")])
    assert compared == [(b"guess", TOKEN.encode())]


def test_port_80_goes_without_saying() -> None:
    async def inner(scope: object, receive: object, send: guard.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    client = Client(guard.Guard(inner, TOKEN, 80), host="localhost")
    assert client.get("/").status == 200
    assert client.get("/", [("Host", "example.com")]).status == 403


def test_a_web_socket_is_closed(served: Served) -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    asyncio.run(served.client.app({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/%2e%2e/pyproject.toml",
        "/lessons/../../../pages.py",
        "/lessons/en/..%2f..%2f..%2fcatalogue.py",
        "/lessons/en/%2e%2e/%2e%2e/catalogue.py",
        "/lessons//en/strings.json",
        "//app.js",
        "/app.js/",
        "/app.js%00",
        "/App.js",
        "/index.html.bak",
        "/lessons/en/",
        "/lessons",
        "/static/app.js",
        "/C:/windows/win.ini",
        "/\\app.js",
    ],
)
def test_only_what_is_listed_is_served(served: Served, path: str) -> None:
    answer = served.client.get(path)
    assert answer.status == 404
    assert answer.error == "there is nothing at this address"
