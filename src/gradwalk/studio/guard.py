"""Request checks: only this page in this browser may call the server.

The server listens on the loopback interface, where every page in the browser and every program of
the machine can reach it. So, before anything else:

- `Host` must be a loopback name with our port: a foreign name that was made to point here
  (DNS rebinding) is refused.
- `Origin`, where there is one, must be our own, and `Sec-Fetch-Site` must say that no other site
  asks: another site's forms, images, frames and scripts are refused.
- Everything under `/api` needs the token, which is in the address that was printed, behind the #,
  where it is never sent anywhere by itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gradwalk.studio.pages import SERVER_POLICY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "X-Gradwalk-Token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ASKED_BY_US = ("same-origin", "none")
_HEADERS = {
    "Content-Security-Policy": SERVER_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """An ASGI application that rejects foreign requests and adds headers to every response."""

    def __init__(self, inner: Application, token: str, port: int) -> None:
        self.inner = inner
        self.token = token.encode()
        self.hosts = {f"{name}:{port}" for name in LOOPBACK}
        if port == 80:
            self.hosts |= set(LOOPBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        is_api = scope["path"].startswith("/api")
        sending = _with_headers(send, is_api)
        refused = self._refused(scope["headers"], is_api)
        if refused:
            from starlette.responses import JSONResponse

            await JSONResponse({"error": refused}, 403)(scope, receive, sending)
            return
        await self.inner(scope, receive, sending)

    def _refused(self, headers: list[tuple[bytes, bytes]], is_api: bool) -> str:
        """Why a request is refused; empty if it is not."""
        host = _only(headers, "host")
        if host is None or host.lower() not in self.hosts:
            return "this server answers to 127.0.0.1 and localhost only, with its own port"
        origin = _only(headers, "origin", absent=f"http://{host}")
        if origin is None or origin.lower() != f"http://{host.lower()}":
            return "the request comes from another origin"
        site = _only(headers, "sec-fetch-site", absent="none")
        if site not in _ASKED_BY_US:
            return (
                "the request comes from another site. To open the studio, paste its address into "
                "the address bar instead of following a link"
            )
        if is_api:
            token = _only(headers, TOKEN_HEADER.lower())
            if token is None or not hmac.compare_digest(token.encode("latin-1"), self.token):
                return "the token is missing or wrong. Open the address that gradwalk printed"
        return ""


def _only(headers: list[tuple[bytes, bytes]], name: str, absent: str | None = None) -> str | None:
    """The value of a header; None if it occurs twice."""
    values = [value for key, value in headers if key.lower() == name.encode()]
    if not values:
        return absent
    return values[0].decode("latin-1") if len(values) == 1 else None


def _with_headers(send: Send, is_api: bool) -> Send:
    added = dict(_HEADERS)
    added["Cache-Control"] = "no-store" if is_api else "no-cache"
    raw = [(name.lower().encode(), value.encode()) for name, value in added.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *raw]
        await send(message)

    return sending
