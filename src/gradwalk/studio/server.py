"""The studio's server: the page, and Python's answers about the traces it shows.

Text from the page is read only as JSON, as a trace file, or by the parser of expressions
(inspect/expression/parser.py); none of it is executed here. The engine that a learner writes in the
page runs where `gradwalk course check` runs it, and only if the kernel confines it. Slow work runs
in threads with a time limit (work.py). guard.py checks every request before this module sees it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk.course.catalogue import Catalogue
from gradwalk.inspect.expression.tokens import ExpressionError
from gradwalk.io.errors import FileError
from gradwalk.io.safetensors_files import unique_names
from gradwalk.studio import answers
from gradwalk.studio.answers import AnswerTooLarge, BadQuestion
from gradwalk.studio.exporting import document_of
from gradwalk.studio.guard import Application, Guard
from gradwalk.studio.pages import STATIC, NotBuilt, beside, page
from gradwalk.studio.sessions import Session, Sessions
from gradwalk.studio.work import Crew, TooBusy, TookTooLong

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

LONGEST_JSON = 64 << 10  # bytes of a question
LARGEST_FILE = 64 << 20  # bytes of a trace file
DEEPEST = 16  # levels of a question's JSON
SECONDS = 10.0  # for one answer
_SECONDS_TO_SEND = {LONGEST_JSON: 10.0, LARGEST_FILE: 60.0}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_log = logging.getLogger("gradwalk.studio")

Handler = Callable[["Request"], Awaitable["Response"]]


class Refused(Exception):
    """An error response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def application(
    sessions: Sessions,
    token: str,
    port: int,
    *,
    static: Path = STATIC,
    catalogue: Catalogue | None = None,
    seconds: float = SECONDS,
) -> Application:
    """The ASGI application of a server on this port."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    studio = _Studio(sessions, static, catalogue or Catalogue(), Crew(seconds))

    def route(path: str, handler: Handler, method: str = "GET") -> Route:
        return Route(path, _safely(handler), methods=[method])

    one = "/api/sessions/{id}"
    routes = [
        route("/", studio.index),
        route("/index.html", studio.index),
        *(route(f"/{name}", studio.file) for name in studio.files),
        route("/lessons/index.json", studio.lessons),
        route("/api/sessions", studio.sessions),
        route("/api/sessions", studio.upload, "POST"),
        route(f"{one}/trace", studio.trace),
        route(f"{one}/document", studio.document),
        route(f"{one}/arrays/{{name}}", studio.array),
        route(f"{one}/health", studio.health),
        route(f"{one}/why", studio.about(answers.why), "POST"),
        route(f"{one}/element", studio.about(answers.element), "POST"),
        route(f"{one}/open", studio.about(answers.opened), "POST"),
        route("/api/walk", studio.walk, "POST"),
        route("/api/check", studio.starter),
        route("/api/check", studio.check, "POST"),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _not_there})
    inner.router.redirect_slashes = False
    return Guard(inner, token, port)


class _Studio:
    """The handlers of the routes."""

    def __init__(self, sessions: Sessions, static: Path, catalogue: Catalogue, crew: Crew) -> None:
        self._sessions = sessions
        self._static = static
        self._catalogue = catalogue
        self._crew = crew
        # All files that are served; other names do not exist.
        self.files = beside(static)
        self.files |= {f"lessons/{name}": path for name, path in catalogue.files.items()}

    # -- the page ----------------------------------------------------------------------------------

    async def index(self, request: Request) -> Response:
        named = self._sessions.get(request.query_params.get("session", ""))
        session = named or self._sessions.latest
        shown, lessons = session.id if session else None, self._catalogue
        text = page("server", session=shown, catalogue=lessons, static=self._static)
        return _answer(text.encode(), _TYPES[".html"])

    async def file(self, request: Request) -> Response:
        path = self.files[request.url.path.removeprefix("/")]
        try:
            content = path.read_bytes()
        except OSError:
            raise Refused(404, f"{path.name} is not there: the page was not built") from None
        return _answer(content, _TYPES[path.suffix])

    async def lessons(self, request: Request) -> Response:
        return _json(self._catalogue.index())

    # -- sessions ----------------------------------------------------------------------------------

    async def sessions(self, request: Request) -> Response:
        return _json([session.summary() for session in self._sessions.all()])

    async def upload(self, request: Request) -> Response:
        content = await _body(request, LARGEST_FILE)
        title = request.query_params.get("title", "")
        session = await self._crew.run(lambda: self._sessions.upload(content, title))
        return _json({"id": session.id}, 201)

    async def trace(self, request: Request) -> Response:
        return _answer(self._session(request).description)

    async def document(self, request: Request) -> Response:
        session = self._session(request)
        return await self._computed(lambda: document_of(session.trace, session.title)[0])

    async def array(self, request: Request) -> Response:
        session = self._session(request)
        array = session.arrays.get(request.path_params["name"])
        if array is None:
            raise Refused(404, "there is no array of this name in the trace")
        query = dict(request.query_params)
        return await self._computed(lambda: answers.window(array, query))

    async def health(self, request: Request) -> Response:
        session = self._session(request)
        return await self._computed(lambda: session.findings)

    def about(self, question: Callable[[Any, dict[str, Any]], Any]) -> Handler:
        """A question about the trace of a session."""

        async def asked(request: Request) -> Response:
            session = self._session(request)
            given = await _question(request)
            return await self._computed(lambda: question(session.trace, given))

        return asked

    def _session(self, request: Request) -> Session:
        session = self._sessions.get(request.path_params["id"])
        if session is None:
            raise Refused(404, "there is no such session: the program that showed it has ended")
        return session

    # -- expressions -------------------------------------------------------------------------------

    async def walk(self, request: Request) -> Response:
        given = await _question(request)
        return await self._computed(lambda: answers.walk(given))

    # -- a learner's engine ------------------------------------------------------------------------

    async def starter(self, request: Request) -> Response:
        return await self._computed(answers.starter)

    async def check(self, request: Request) -> Response:
        given = await _question(request)
        return await self._computed(lambda: answers.check(given))

    async def _computed(self, compute: Callable[[], Any]) -> Response:
        """The result of slow work, as JSON; both are made in a thread."""
        return _answer(await self._crew.run(lambda: _text(compute())))


# -- requests --------------------------------------------------------------------------------------


async def _body(request: Request, limit: int) -> bytes:
    """The body, limited while it arrives: the length in the header may be wrong."""
    too_large = Refused(413, f"the request is larger than {limit >> 10:,} KiB")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS_TO_SEND[limit]):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise Refused(408, "the request did not arrive in time") from None
    return bytes(body)


async def _question(request: Request) -> dict[str, Any]:
    content = await _body(request, LONGEST_JSON)
    try:
        question = json.loads(content, object_pairs_hook=unique_names, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refused(400, f"the request is not JSON: {text}") from None
    if not isinstance(question, dict):
        raise Refused(400, "the request must be a JSON object")
    if _depth(question) > DEEPEST:
        raise Refused(400, f"the request is nested more than {DEEPEST} levels deep")
    return question


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid in JSON; write it as text")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while inner := [v for v in level if isinstance(v, (dict, list))]:
        depth += 1
        level = [x for v in inner for x in (v.values() if isinstance(v, dict) else v)]
    return depth


# -- responses -------------------------------------------------------------------------------------


def _text(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _json(value: Any, status: int = 200) -> Response:
    return _answer(_text(value), status=status)


def _answer(content: bytes, kind: str = _TYPES[".json"], status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(content, status, media_type=kind)


async def _not_there(request: Request, error: Any) -> Response:
    text = {
        404: "there is nothing at this address",
        405: f"{request.method[:20]} is not possible here",
    }.get(error.status_code, str(error.detail))
    answer = _json({"error": text}, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def _safely(handler: Handler) -> Handler:
    """Turn every error into a response that says what is wrong."""

    async def handled(request: Request) -> Response:
        from starlette.requests import ClientDisconnect

        try:
            return await handler(request)
        except Refused as error:
            return _json({"error": str(error)}, error.status)
        except ExpressionError as error:
            place = {"line": error.line, "column": error.column, "hint": error.hint}
            return _json({"error": error.message, **place}, 400)
        except TooBusy:
            return _json({"error": "the server is busy with other requests: try again"}, 503)
        except TookTooLong:
            return _json({"error": "this took too long and was stopped"}, 504)
        except (AnswerTooLarge, MemoryError) as error:
            return _json({"error": str(error) or "too large for this machine"}, 413)
        except NotBuilt as error:
            return _json({"error": str(error)}, 500)
        except (BadQuestion, FileError, ValueError, LookupError, TypeError) as error:
            # The tools raise these with a message for the user.
            text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
            return _json({"error": text}, 400)
        except ClientDisconnect:
            return _json({"error": "the client disconnected"}, 400)
        except Exception as error:
            _log.exception("the studio could not answer %s", request.url.path)
            return _json({"error": f"an error in gradwalk: {type(error).__name__}"}, 500)

    return handled
