"""Starting the studio: a free port, a server in a thread, the address, the browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from typing import Any
from urllib.parse import quote

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.guard import Application, Message, Receive, Scope, Send
from gradwalk.studio.pages import built
from gradwalk.studio.sessions import Session, Sessions

FIRST_PORT = 8765
TRIED = 20  # ports after it; then any that is free
HOSTS = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "[::1]"}  # in an address
_MOST_CONNECTIONS = 256
_STARTS_WITHIN = 20.0  # seconds


class StudioError(RuntimeError):
    """The studio cannot be started; the message says why and what to do."""


class Studio:
    """A running server.

    >>> from gradwalk.studio.launch import Studio
    >>> from gradwalk.studio.sessions import Sessions
    >>> studio = Studio(Sessions(), port=0)
    >>> studio.url().startswith("http://127.0.0.1:")
    True
    >>> studio.stop()
    """

    def __init__(
        self, sessions: Sessions, port: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        uvicorn = _uvicorn()
        if not built():
            raise StudioError(
                "the studio's page is not built. Fix: in a checkout, `make page` (needs Node); "
                "else install gradwalk again"
            )
        from gradwalk.studio.server import application

        self.sessions = sessions
        self.token = secrets.token_urlsafe(24)
        self._host = host
        self._socket = listening(host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            _unanswered(application(sessions, self.token, self.port)),
            http=_protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # there is no proxy, so its headers would be forged
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name="gradwalk studio",
            daemon=True,
        )
        self._thread.start()
        end = time.monotonic() + _STARTS_WITHIN
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise StudioError("the studio's server did not start")
            time.sleep(0.01)

    @property
    def running(self) -> bool:
        """Whether the server runs."""
        return self._thread.is_alive() and not self._server.should_exit

    def url(self, session: Session | None = None, link: str = "") -> str:
        """The address, with the token, of a session or of what a link names."""
        place = f"http://{HOSTS[self._host]}:{self.port}/"
        query = f"?session={session.id}" if session is not None else ""
        return f"{place}{query}#token={self.token}{f'&{link}' if link else ''}"

    def stop(self) -> None:
        """Stop the server; a second call does nothing."""
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        self._socket.close()

    def wait(self) -> None:
        """Wait until the server ends, or until Ctrl+C ends it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            self.stop()


def expression_link(source: str, values: dict[str, float]) -> str:
    """The part of an address that opens an expression (docs/develop/studio-design.md, Links)."""
    given = ",".join(f"{name}:{value:.17g}" for name, value in values.items())
    link = f"v=1&source={quote(source, safe='')}"
    return f"{link}&set={quote(given, safe=':,')}" if given else link


def listening(host: str, port: int | None) -> socket.socket:
    """A local socket: on the given port, or on the first free one of ours."""
    if host not in HOSTS:
        raise StudioError(
            f"the studio serves this machine only ({', '.join(HOSTS)}), not {host}: "
            "anyone who reaches it can read your traces. Fix: for others, write files with "
            "`gradwalk site` or `--export`; from another machine, use a tunnel: ssh -L "
            f"{FIRST_PORT}:127.0.0.1:{FIRST_PORT} this-machine"
        )
    if port is not None and not 0 <= port < 2**16:
        raise StudioError(f"a port is a number from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    wanted = [*range(FIRST_PORT, FIRST_PORT + TRIED), 0] if port is None else [port]
    for number in wanted:
        try:
            return _bound(family, (address, number))
        except OSError as error:
            if port is not None:
                raise StudioError(
                    f"port {port} cannot be used: {error.strerror}. Fix: choose another --port, or "
                    "omit it to use a free one"
                ) from None
            failure = error
    raise StudioError(f"no port of {address} can be used: {failure.strerror}")


def _bound(family: int, address: tuple[str, int]) -> socket.socket:
    # Declared as TCP: only then asyncio disables Nagle's algorithm, which costs 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on other systems two programs could share the port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(256)
    except OSError:
        bound.close()
        raise
    return bound


def _protocol() -> Any:
    """HTTP as uvicorn reads it; where an answer has begun, there is no room for its 400."""
    from h11 import LocalProtocolError
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        def send_400_response(self, msg: str) -> None:
            try:
                super().send_400_response(msg)
            except LocalProtocolError:
                self.transport.close()

    return Protocol


def _unanswered(inner: Application) -> Application:
    """The application, for requests that turn out malformed while it is at work.

    uvicorn has then answered 400 itself and closes the connection. An answer of ours, to nobody,
    would be an error that it prints with a traceback.
    """
    from h11 import LocalProtocolError

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        is_over = False

        async def sending(message: Message) -> None:
            nonlocal is_over
            try:
                await send(message)
            except LocalProtocolError:
                is_over = True

        await inner(scope, receive, sending)
        while is_over and (await receive())["type"] != "http.disconnect":
            pass

    return called


def _uvicorn() -> Any:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise StudioError(
            f"the studio's server needs {error.name}, which is not installed. Fix: "
            "pip install starlette uvicorn"
        ) from None
    return uvicorn


# -- the browser -----------------------------------------------------------------------------------


def open_in_browser(url: str) -> bool:
    """Open the address in a browser if there is a screen; return whether it worked."""
    import webbrowser

    chosen = os.environ.get("BROWSER")
    no_screen = sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if no_screen and not chosen:
        return False
    try:
        browser = webbrowser.get()
        # A text browser would take over the terminal, and has no JavaScript.
        if type(browser) is webbrowser.GenericBrowser and not chosen:
            return False
        return bool(browser.open(url))
    except (webbrowser.Error, OSError):
        return False


# -- from Python -----------------------------------------------------------------------------------


class Shown:
    """A trace in the studio: `.url` is its address, `.stop()` removes it."""

    def __init__(self, studio: Studio, session: Session) -> None:
        self._studio = studio
        self._session = session
        self.url = studio.url(session)

    def stop(self) -> None:
        """Remove the trace; with the last one the server stops."""
        with _starting:
            self._studio.sessions.remove(self._session)
            if self._studio.sessions.latest is None:
                self._studio.stop()

    def wait(self) -> None:
        """Keep the program alive until Ctrl+C."""
        self._studio.wait()

    def __repr__(self) -> str:
        return f"<{self._session.title} in the studio: {self.url}>"


_starting = threading.Lock()
_running: Studio | None = None


def show(
    loss: Any = None,
    title: str | None = None,
    *,
    open_browser: bool = True,
    wait: bool = False,
    port: int | None = None,
) -> Shown:
    """Open the studio on a loss (a Value or a Tensor) or a trace; without one, the last recording.

    The first call starts a server on this machine, in a thread of this program; further calls add
    to it. The address is printed, and opened in the browser if there is one. The result has the
    address as `.url`; `.stop()` removes the graph. With `wait=True` a script waits until Ctrl+C.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0, label="a")
    >>> shown = gw.studio.show(a * a, "a square", open_browser=False, port=0)
    a square: http://127.0.0.1:...
    >>> shown.stop()
    """
    global _running
    trace = trace_of(loss)
    with _starting:
        if _running is None or not _running.running:
            _running = Studio(Sessions(), port)
        studio = _running
        session = studio.sessions.show(trace, title or title_of(trace))
    shown = Shown(studio, session)
    say(f"{session.title}: {shown.url}")
    if open_browser:
        open_in_browser(shown.url)
    if wait:
        say("Ctrl+C ends it")
        shown.wait()
    elif not _interactive():
        say("(it ends with this program; show(..., wait=True) keeps it open)")
    return shown


def trace_of(thing: Any) -> Trace:
    """The recording of a Value, a Tensor or a trace; None means the current one."""
    try:
        return as_trace(thing)
    except AutogradError as error:
        raise AutogradError(
            f"{error}\nFix: show(loss) before loss.backward(), or compute both inside "
            "`with gradwalk.record() as trace:` and show(trace)."
        ) from error


def title_of(trace: Trace) -> str:
    """The default title of a trace."""
    outer = next((g.name for g in trace.groups if g.above is None), "")
    return outer or trace.name(trace.root)


def say(text: str) -> None:
    """Print and flush, also where output is buffered."""
    print(text, flush=True)


def _interactive() -> bool:
    """Whether this is a prompt or a notebook, where the program does not end by itself."""
    # An imported IPython is not enough: its shell must run.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(sys, "ps1") or shell is not None or bool(sys.flags.interactive)
