"""A real browser and the page in it, for the tests of the studio."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.launch import Studio
from gradwalk.studio.sessions import Sessions
from gradwalk.studio.site import write_site
from tests.studio.node import Node, bundle
from tests.studio.recordings import transformer
from tests.studio.traced import saved
from tests.studio.watched import Watched

PATHS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
UNDER = "a/folder of ours"  # the site works under any path: here two folders, one with blanks


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The page's engine, in Node: `engine("graph.compute", graph, values)`."""
    started = Node(bundle("engine.ts", tmp_path_factory.mktemp("engine")))
    yield started
    started.close()


def need_browser() -> str:
    """The path of Chromium; without it the tests fail and name the package to install."""
    found = next((path for name in PATHS if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("the studio's tests need Chromium: apt install chromium", pytrace=False)
    return found


@pytest.fixture(scope="module")
def start_browser() -> Iterator[Any]:
    """`start_browser(**environment)` starts a browser, which closes after the test file.

    (Its event loop must end before other tests start theirs.)
    """
    path = need_browser()
    try:
        from playwright.sync_api import expect, sync_playwright
    except ModuleNotFoundError:
        pytest.fail("the studio's tests need Playwright: pip install -e '.[dev]'", pytrace=False)
    expect.set_options(timeout=30_000)  # as every other wait: a busy machine takes its time
    with sync_playwright() as playwright:
        started: list[Any] = []

        def start(**environment: str) -> Any:
            options = dict(executable_path=path, args=list(ARGUMENTS))
            started.append(playwright.chromium.launch(**options, env=os.environ | environment))
            return started[-1]

        yield start
        for browser in started:
            browser.close()


@pytest.fixture(scope="module")
def browser(start_browser: Any) -> Any:
    """One browser for a file of tests."""
    return start_browser()


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the static site, under its own path."""
    folder = tmp_path_factory.mktemp("site")
    write_site(folder / UNDER)
    with serving(folder) as address:
        yield address + UNDER.replace(" ", "%20") + "/"


class serving:
    """Serve a folder on a free port: `with serving(folder) as address`."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(_Handler, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def open_page(browser: Any, site: str) -> Iterator[Any]:
    """`open_page("#v=1&preset=square")` returns a Watched page; its console must stay empty.

    A first visit without a link begins with the lessons.
    """
    opened: list[Watched] = []

    def open_page(link: str = "#v=1&preset=neuron", **options: Any) -> Watched:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = browser.new_context(**options)
        watched = Watched(context, site)
        opened.append(watched)
        watched.go(link)
        return watched

    yield open_page
    messages = [message for watched in opened for message in watched.messages]
    for watched in opened:
        watched.page.context.close()
    assert not messages


@pytest.fixture
def same_page(open_page: Any) -> Any:
    """`same_page(link)` for the cases of a batch: one page, which reloads for every link."""
    opened: list[Watched] = []

    def load(link: str) -> Watched:
        if opened:
            opened[0].go(link)
        else:
            opened.append(open_page(link))
        return opened[0]

    return load


@pytest.fixture
def studio() -> Iterator[Studio]:
    """A server with the built page."""
    started = Studio(Sessions(), port=0)
    yield started
    started.stop()


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """`visit(url)` opens a page of a server; its console must stay empty."""
    opened: list[Watched] = []

    def visit(url: str) -> Watched:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        watched = Watched(context, url)
        opened.append(watched)
        watched.go("")
        return watched

    yield visit
    messages = [message for watched in opened for message in watched.messages]
    for watched in opened:
        watched.page.context.close()
    assert not messages


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    """A transformer of two blocks with all of its numbers, as a recording and as a file."""
    trace = transformer(2, keep="all")
    return trace, saved(trace, tmp_path_factory.mktemp("small"))
