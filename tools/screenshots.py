"""Take the documentation's screenshots: `python -m tools.screenshots`. Needs Chromium."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import gradwalk as gw
from gradwalk.inspect.diff.diff import diff
from gradwalk.inspect.diff.side_by_side import side_by_side
from gradwalk.studio.site import write_site
from tools import pytorch_page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# name of the picture -> where in the studio, and the colours
PLACES = {
    "studio-walk": ("#v=1&preset=neuron&step=13&select=n", "light"),
    "studio-order": ("#v=1&preset=order-diamond&panel=order&order=d,b,a,c", "dark"),
    "studio-lesson": ("#v=1&lesson=walk-it-backward&at=1", "light"),
}

# the same on several screens, light and dark in turn
SCREENS = {320: 720, 768: 1024, 1440: 900, 3840: 2160}
ON_SCREENS = {
    "walk": ("#v=1&preset=network-2-2-1&step=30", "[data-node]"),
    "matrices": ("#v=1&preset=dense-layer&step=8", "[data-node]"),
    "train": ("#v=1&train=data:moons&trained=95", "[data-trained='95']"),
    "lesson": ("#v=1&lesson=activations", "[data-task]"),
}
TRAININGS = {
    "playground": "data:moons&trained=150",
    "playground-vanishing": "depth:30,activation:sigmoid,init:xavier&trained=40",
}


@contextmanager
def site() -> Iterator[str]:
    """The address of the studio as a static site."""
    with tempfile.TemporaryDirectory() as folder:
        write_site(Path(folder) / "site")
        handler = partial(SimpleHTTPRequestHandler, directory=str(Path(folder) / "site"))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def take(page: Page, name: str) -> None:
    """Take a screenshot once all animations have finished; few colours are enough for it, if
    the rare ones are among them."""
    page.wait_for_timeout(800)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, 1).save(
        path, optimize=True
    )


def take_places(browser: Browser) -> None:
    """Take screenshots of public addresses of the studio."""
    with site() as address:
        for name, (link, colours) in PLACES.items():
            context = browser.new_context(
                viewport={"width": 1280, "height": 800},
                color_scheme=colours,  # type: ignore[arg-type]
            )
            page = context.new_page()
            page.goto(address + link)
            page.locator("[data-node]").first.wait_for()
            take(page, name)
            context.close()


def take_screens(browser: Browser) -> None:
    """Take what docs/studio/screens.md shows, and the trainings of docs/studio/playground.md."""
    with site() as address:
        for i, (name, (link, ready)) in enumerate(ON_SCREENS.items()):
            for j, (width, height) in enumerate(SCREENS.items()):
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if (i + j) % 2 else "light",
                )
                page = context.new_page()
                page.goto(address + link)
                page.locator(ready).first.wait_for()
                take(page, f"sizes/{name}-{width}")
                context.close()
        for name, settings in TRAININGS.items():
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{address}#v=1&train={settings}")
            page.locator(f"[data-trained='{settings.rpartition('=')[2]}']").wait_for()
            take(page, name)


def take_trace(browser: Browser) -> None:
    """A small GPT with a NaN, opened from a live session."""
    gw.manual_seed(0)
    model = small_gpt()
    tokens = gw.randint(0, 32, (2, 16))
    with gw.record() as trace:
        loss = model(tokens).log().mean()  # the logarithm of a negative number
        loss.backward()
    shown = gw.studio.show(trace, "a sick step", open_browser=False, port=0)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(shown.url)
    page.locator("[data-node], [data-group]").first.wait_for()
    take(page, "studio-trace")
    shown.stop()


def take_diff(browser: Browser) -> None:
    """Two models that differ in one constant, side by side."""

    def run(eps: float) -> gw.Trace:
        gw.manual_seed(0)
        layers = (
            gw.nn.Linear(8, 16),
            gw.nn.GELU(),
            gw.nn.LayerNorm(16, eps=eps),
            gw.nn.Linear(16, 4),
        )
        with gw.record(keep="all") as trace:
            gw.nn.Sequential(*layers)(gw.randn(6, 8)).square().mean().backward()
        return trace

    both = side_by_side(diff(run(1e-5), run(1e-3)))
    shown = gw.studio.show(both, "A and B", open_browser=False, port=0)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(shown.url)
    page.locator("[data-finding]").first.wait_for()
    take(page, "studio-diff")
    shown.stop()


def take_torch(browser: Browser) -> None:
    """The stopped step of docs/pytorch/debugging.md, at the operation that the report names."""
    with tempfile.TemporaryDirectory() as folder:
        pytorch_page.run(Path(folder))
        (path,) = Path(folder).rglob("*.trace")
        trace = gw.load_trace(path)
        shown = gw.studio.show(trace, path.stem, open_browser=False, port=0)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(shown.url)
        page.locator("[data-finding] button").first.click()
        take(page, "studio-torch")
        shown.stop()


def small_gpt() -> gw.nn.Module:
    """Embedding, two transformer blocks, a head."""
    layer = partial(gw.nn.TransformerEncoderLayer, 32, 4, 64, dropout=0.0, batch_first=True)
    return gw.nn.Sequential(
        gw.nn.Embedding(32, 32), layer(), layer(), gw.nn.LayerNorm(32), gw.nn.Linear(32, 32)
    )


def take_notebook(browser: Browser) -> None:
    """The output of the first cell of docs/studio/notebook.md, halfway through backward."""
    source = "e = a·b; d = e + c; L = d·f"
    values = {"a": 2, "b": -3, "c": 5, "f": -2}
    data, _ = gw.studio.widget(source, "A chain", values=values)._repr_mimebundle_() or ({}, {})
    page = browser.new_page(viewport={"width": 940, "height": 640})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output.html"
        style = "<!doctype html><meta charset=utf-8><style>body { margin: 0 }</style>"
        path.write_text(style + data["text/html"], encoding="utf-8")
        page.goto(path.as_uri())
        frame = page.frame_locator("iframe")
        frame.locator('[data-node="d"]').click()
        for _ in range(10):
            frame.locator("#main").press("ArrowRight")
        frame.locator("html").evaluate("() => scrollTo(0, 0)")
        take(page, "notebook")


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        take_notebook(chromium)
        take_places(chromium)
        take_screens(chromium)
        take_trace(chromium)
        take_diff(chromium)
        take_torch(chromium)
        chromium.close()
