"""How quickly the studio's page appears and steps in Chromium.

A static server that compresses serves it. First paint, and the time until the graph stands, are
on the browser's clock. A step lasts from the key until the frame after next begins, which shows its
result. The slow start has a processor four times slower and 1.6 Mbit a second.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import shutil
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import table

from gradwalk.studio.site import write_site

STARTS, SLOW_STARTS, STEPS = 11, 5, 24
PRESETS = ("neuron", "network-2-2-1", "exploding", "dense-layer")
WATCH = """
new MutationObserver(() => {
  if (!window.shown && document.querySelector(SHOWN))
    requestAnimationFrame(() => (window.shown ||= performance.now()));
}).observe(document, { childList: true, subtree: true });
window.steps = [];
addEventListener("keydown", (event) => {
  const begin = event.timeStamp;
  requestAnimationFrame(() => requestAnimationFrame(
    () => window.steps.push(performance.now() - begin)));
}, true);
"""
GRAPH, LESSONS = ".graph [data-node]", "main h1, main h2"


class Compressing(http.server.SimpleHTTPRequestHandler):
    """Serves a folder as static hosts do."""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def send_head(self) -> Any:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if path.suffix not in (".html", ".js", ".css", ".json", ".svg") or not path.exists():
            return super().send_head()
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)


@contextmanager
def served() -> Iterator[str]:
    """The address of the static site."""
    with tempfile.TemporaryDirectory() as folder:
        write_site(Path(folder))
        handler = functools.partial(Compressing, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def opened(browser: Any, address: str, shown: str, slow: bool = False) -> Any:
    """A page in a browser without a past, when its graph or its lessons stand."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.add_init_script(WATCH.replace("SHOWN", repr(shown)))
    if slow:
        session = page.context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        limits = {
            "offline": False,
            "latency": 0,
            "downloadThroughput": 2e5,
            "uploadThroughput": 2e5,
        }
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", limits)
    page.goto(address)
    page.wait_for_function("window.shown")
    return page


def starts(browser: Any, address: str, shown: str, slow: bool) -> tuple[list[float], list[float]]:
    """The times of first paint and of standing, in milliseconds."""
    paints, stands = [], []
    for _ in range(SLOW_STARTS if slow else STARTS):
        page = opened(browser, address, shown, slow)
        paints.append(page.evaluate("performance.getEntriesByType('paint').at(-1).startTime"))
        stands.append(page.evaluate("window.shown"))
        page.context.close()
    return paints, stands


def steps(browser: Any, address: str) -> list[float]:
    """The times of steps through a preset."""
    page = opened(browser, address, GRAPH)
    for _ in range(STEPS):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(400)  # the motion of a step
    found: list[float] = page.evaluate("window.steps")
    page.context.close()
    return found


def cells(times: list[float]) -> list[str]:
    """The shortest, the median and the longest."""
    return [f"{x:.0f} ms" for x in (min(times), statistics.median(times), max(times))]


def main() -> None:
    sync_playwright = import_module("playwright.sync_api").sync_playwright
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    rows = []
    with served() as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for slow in (False, True):
            for name, link, shown in (
                ("neuron", "#v=1&preset=neuron", GRAPH),
                ("lessons", "", LESSONS),
            ):
                paints, stands = starts(browser, site + link, shown, slow)
                how = f"{name}, slow" if slow else name
                rows.append([f"first paint: {how}", *cells(paints)])
                rows.append([f"stands: {how}", *cells(stands)])
        for preset in PRESETS:
            found = steps(browser, f"{site}#v=1&preset={preset}")
            rows.append([f"step: {preset}", *cells(found)])
    table("The page", ["", "shortest", "median", "longest"], rows)


if __name__ == "__main__":
    main()
