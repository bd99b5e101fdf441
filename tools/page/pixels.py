"""Renew the pictures that the studio is compared with: `python -m tools.page.pixels`.

Every preset, and the graphs of the README's screenshots, are drawn in light and in dark, without
the page around them. The pictures are a quarter of the size: a filled edge or a missing node shows
in them, the way a browser smooths letters does not. Needs Chromium.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradwalk.studio.presets import PRESETS
from tools.screenshots import PLACES, site

FOLDER = Path(__file__).parents[2] / "tests" / "studio" / "page"
SCHEMES = ("light", "dark")
WIDTH, HEIGHT = 1216, 640
SMALLER = 4
COLUMNS = 5
# The drawing alone, as large as the window, whatever the page around it looks like.
ALONE = """.graph { position: fixed !important; inset: 0; z-index: 99; width: auto !important;
  height: auto !important; border: 0 !important; background: var(--paper) !important }
  .graph .foot, .graph .legend, .caption { display: none !important }"""
# Give the page time to draw, to fit the drawing and to draw again.
OPEN = """async (link) => {
  location.hash = link;
  for (let i = 0; i < 4; i++)
    await new Promise((done) => setTimeout(() => requestAnimationFrame(done), 40));
}"""
DRAWN = {preset.id: f"#v=1&preset={preset.id}&step=999" for preset in PRESETS}
DRAWN |= {
    name: link for name, (link, _) in PLACES.items() if "lesson" not in link and "train" not in link
}
DRAWN["neuron, operations on edges"] = "#v=1&preset=neuron&step=12&drawing=edges"

Picture = Any  # float64 (height, width, 3)


def open_window(browser: Any, address: str, scheme: str) -> Any:
    """A page in which nothing but the drawing is seen."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address + DRAWN["neuron"])
    page.wait_for_selector("[data-node]")
    add_style(page, ALONE)
    return page


def add_style(page: Any, css: str) -> None:
    """As its own script may: the page allows no style elements."""
    page.evaluate(
        "(css) => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);"
        "document.adoptedStyleSheets.push(sheet) }",
        css,
    )


def take(page: Any, link: str) -> Picture:
    """One drawing, small."""
    page.evaluate(OPEN, link)
    return smaller(Image.open(io.BytesIO(page.screenshot())))


def smaller(image: Image.Image) -> Picture:
    """Each pixel is the mean of a square."""
    pixels = np.asarray(image.convert("RGB"), dtype=float)
    return pixels.reshape(HEIGHT // SMALLER, SMALLER, WIDTH // SMALLER, SMALLER, 3).mean((1, 3))


def kept(scheme: str) -> dict[str, Picture]:
    """The committed pictures, by name."""
    sheet = np.asarray(Image.open(_path(scheme)).convert("RGB"), dtype=float)
    return {name: sheet[_place(i)] for i, name in enumerate(DRAWN)}


def save(scheme: str, pictures: dict[str, Picture]) -> None:
    """Write the pictures into one file, side by side."""
    rows = -(-len(DRAWN) // COLUMNS)
    sheet = np.zeros((rows * HEIGHT // SMALLER, COLUMNS * WIDTH // SMALLER, 3), dtype=np.uint8)
    for i, name in enumerate(DRAWN):
        sheet[_place(i)] = np.minimum(255, 8 * (pictures[name] / 8).round())  # half the bytes
    Image.fromarray(sheet).save(_path(scheme), optimize=True)


def _path(scheme: str) -> Path:
    return FOLDER / f"pixels-{scheme}.png"


def _place(i: int) -> tuple[slice, slice]:
    row, column = divmod(i, COLUMNS)
    high, wide = HEIGHT // SMALLER, WIDTH // SMALLER
    return slice(row * high, (row + 1) * high), slice(column * wide, (column + 1) * wide)


def main() -> None:
    """Take all of them anew."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, site() as address:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        for scheme in SCHEMES:
            page = open_window(browser, address, scheme)
            save(scheme, {name: take(page, link) for name, link in DRAWN.items()})
        browser.close()


if __name__ == "__main__":
    main()
