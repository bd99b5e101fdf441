"""The page's fonts: all that its layout depends on, whatever is installed; complete and small.

The browser of this file has no font but a blank one: what the page does not bring is not drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from playwright.sync_api import expect

from gradwalk.studio.exporting import export
from gradwalk.studio.launch import Studio
from gradwalk.studio.notebook import frame_html
from gradwalk.studio.pages import STATIC, page
from tests.studio.page.test_scalar import (  # noqa: F401  the layout, once more without any font
    test_every_scalar_preset_is_drawn_within_its_boxes,
    test_operations_on_edges_can_be_read,
    test_text_stays_in_its_box,
    test_the_formula_of_a_power_is_shown_whole,
    test_what_scrolls_in_a_panel_is_as_high_as_what_is_in_it,
)
from tests.studio.page.test_traces import test_texts_stay_in_their_boxes  # noqa: F401
from tests.studio.page.test_walk import test_no_page_scrolls_sideways  # noqa: F401
from tests.studio.serving import scalar_trace
from tests.studio.watched import Watched
from tools.page_fonts import LICENCES, characters

pytestmark = pytest.mark.slow

FONTS = STATIC / "fonts"
MOST_BYTES = 120 * 1000  # of all fonts; the script is counted by itself
LINKS = (
    "#v=1&preset=neuron&step=99&select=n.0",
    "#v=1&preset=softmax&panel=why&step=20",
    "#v=1&preset=order-diamond&panel=order&step=99",
    "#v=1&preset=dense-layer&step=4",
    "#v=1&lesson=walk-it-backward",
)
# Glyphs are rendered as elsewhere on this machine, because hinting changes widths.
_CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<dir>{folder}</dir>
<cachedir>{folder}/cache</cachedir>
<include ignore_missing="yes">/etc/fonts/conf.d</include>
</fontconfig>
"""
_FACES = "() => [...document.fonts].map((font) => `${font.family} ${font.status}`)"
# Every element with a text of its own, and where that text is.
_TEXTS = """() => [...document.querySelectorAll("body *")].flatMap((element) => {
  const texts = [...element.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
  return texts.map((text) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    const {x, y, width, height} = range.getBoundingClientRect();
    return [text.data, ...[x, y, width, height].map((n) => Math.round(n * 10) / 10)];
  });
})"""
_WIDTH = """(text) => {
  document.body.innerHTML = `<span>${text}</span>`;
  return document.body.firstChild.getBoundingClientRect().width;
}"""
# Choices stand in an order of the learner's own.
_ONE_LEARNER = "if (origin !== 'null') localStorage.setItem('gradwalk.learner', '1')"
_SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => e.value)))
  .observe({type: "layout-shift", buffered: true});"""


@pytest.fixture(scope="module")
def browser(start_browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("no fonts")
    _write_blank_font(folder / "blank.ttf")
    configuration = folder / "fonts.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder), encoding="utf-8")
    return start_browser(FONTCONFIG_FILE=str(configuration))


def _write_blank_font(path: Path) -> None:
    """A font whose only glyph is empty, without width: with no font Chromium's own UI crashes."""
    font = FontBuilder(unitsPerEm=1000)
    font.setupGlyphOrder([".notdef"])
    font.setupCharacterMap({})
    font.setupGlyf({".notdef": TTGlyphPen(None).glyph()})
    font.setupHorizontalMetrics({".notdef": (0, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Blank", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


@pytest.fixture(scope="module")
def usual(start_browser: Any) -> Any:
    """A browser with the fonts of this machine."""
    return start_browser()


@pytest.fixture
def loaded(browser: Any) -> Iterator[Any]:
    """`loaded(address)`: a page of the browser without fonts, offline if it is a file."""
    contexts: list[Any] = []

    def loaded(address: str) -> Any:
        contexts.append(browser.new_context(offline=address.startswith("file:")))
        opened = contexts[-1].new_page()
        opened.add_init_script(_SHIFTS)
        opened.goto(address)
        opened.wait_for_selector("[data-position]")
        return opened

    yield loaded
    for context in contexts:
        context.close()


def assert_all_loaded(frame: Any) -> None:
    """All five are loaded, at once or, on a busy machine, some seconds after the page is drawn."""
    for _ in range(100):
        faces = frame.evaluate(_FACES)
        if all(face.endswith(" loaded") for face in faces):
            break
        time.sleep(0.1)
    assert len(faces) == 5 and all(face.endswith(" loaded") for face in faces), faces


def test_there_is_no_font_here_but_those_of_the_page(browser: Any, open_page: Any) -> None:
    bare = browser.new_page()
    assert bare.evaluate(_WIDTH, "some text") == 0
    bare.close()
    watched: Watched = open_page()
    assert_all_loaded(watched.page)
    assert (
        watched.page.locator("#scene-title").evaluate("(h) => h.getBoundingClientRect().width") > 50
    )


def at_rest(watched: Watched) -> Any:
    """The texts of the page and their places, once nothing moves any more."""
    before = None
    for _ in range(50):
        found = watched.page.evaluate(_TEXTS)
        if found == before:
            return found
        before = found
        watched.page.wait_for_timeout(150)
    raise AssertionError("the page never comes to rest")


@pytest.mark.parametrize("width", [1280, 320])
def test_installed_fonts_move_nothing(open_page: Any, usual: Any, site: str, width: int) -> None:
    size = {"width": width, "height": 800}
    bare: Watched = open_page(viewport=size)
    context = usual.new_context(viewport=size)
    dressed = Watched(context, site)
    for watched in (bare, dressed):
        watched.page.add_init_script(_ONE_LEARNER)
    for link in LINKS:
        texts = []
        for watched in (bare, dressed):
            watched.go(link)
            watched.page.wait_for_timeout(200)
            expect(watched.page.locator(".loading")).to_have_count(0)  # the code of a panel
            texts.append(at_rest(watched))
        assert len(texts[0]) > 30
        assert texts[0] == texts[1], link
    context.close()


def test_every_character_is_in_a_font_of_ours(usual: Any, site: str) -> None:
    """Fix: tools/page_fonts.py makes the fonts anew, from the characters that are used now."""
    text = "".join(map(chr, sorted(characters())))
    watched = Watched(usual.new_context(), site)
    watched.go(LINKS[0])
    devtools = watched.page.context.new_cdp_session(watched.page)
    devtools.send("DOM.enable")
    devtools.send("CSS.enable")
    watched.page.evaluate(
        """(texts) => {
          for (const [kind, text] of Object.entries(texts)) {
            document.body.appendChild(document.createElement(kind)).textContent = text;
          }
        }""",
        {"p": text, "pre": text, "math": text + "𝑎𝑧𝐴𝑍𝛼𝜔ℎ"},  # a single letter becomes italic
    )
    root = devtools.send("DOM.getDocument")["root"]["nodeId"]
    for selector in ("body > p", "body > pre", "body > math"):
        node = {"nodeId": root, "selector": selector}
        found = devtools.send("DOM.querySelector", node)["nodeId"]
        for _ in range(50):  # a font of the page is fetched when its first text is drawn
            used = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": found})["fonts"]
            if used:
                break
            watched.page.wait_for_timeout(100)
        assert used
        assert not [font for font in used if not font["isCustomFont"]], selector
    watched.page.context.close()


def test_pages_that_hold_everything_hold_their_fonts(loaded: Any, tmp_path: Path) -> None:
    export(scalar_trace(), tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 800_000  # with every part
    exported = loaded((tmp_path / "page.html").as_uri())
    assert_all_loaded(exported)
    assert exported.evaluate("window.shifts") == []
    with exported.expect_download() as download:
        exported.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "copy.html")
    assert_all_loaded(loaded((tmp_path / "copy.html").as_uri()))


def test_a_copy_of_the_site_holds_its_fonts(open_page: Any, loaded: Any, tmp_path: Path) -> None:
    watched: Watched = open_page("#v=1&preset=square")
    with watched.page.expect_download() as download:
        watched.page.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "copy.html")
    text = (tmp_path / "copy.html").read_text(encoding="utf-8")
    assert "url(fonts/" not in text and "preload" not in text.split("<script")[0]
    assert_all_loaded(loaded((tmp_path / "copy.html").as_uri()))


def test_a_frame_in_a_notebook_has_them(browser: Any) -> None:
    opened = browser.new_page()
    opened.set_content(frame_html(page("widget"), "a title", 600))
    opened.frame_locator("iframe").locator("[data-position]").wait_for()
    assert_all_loaded(opened.frames[1])
    opened.close()


def test_the_server_has_them(visit: Any, studio: Studio) -> None:
    served: Watched = visit(studio.url())
    assert_all_loaded(served.page)


def test_nothing_moves_while_the_page_is_loaded(loaded: Any, site: str) -> None:
    for link in LINKS[:4]:
        opened = loaded(site + link)
        opened.wait_for_timeout(300)
        assert opened.evaluate("window.shifts") == [], link


def test_a_font_that_does_not_come_is_not_waited_for(browser: Any, site: str) -> None:
    opened = browser.new_page()
    opened.route("**/text.woff2", lambda route: None)  # never answered
    opened.goto(site + LINKS[0], wait_until="commit")
    opened.wait_for_selector("[data-position]", timeout=10_000)
    opened.close()
    opened = browser.new_page()
    opened.route("**/text.woff2", lambda route: route.abort())
    opened.goto(site + LINKS[0])
    opened.wait_for_selector("[data-position]", timeout=10_000)
    opened.close()


def test_they_are_small_and_their_licences_are_with_them(site: str) -> None:
    assert sum(path.stat().st_size for path in FONTS.glob("*.woff2")) < MOST_BYTES
    assert {path.name for path in FONTS.glob("LICENSE*")} == set(LICENCES)
    for name in LICENCES:
        text = (FONTS / name).read_text(encoding="utf-8")
        assert "Copyright" in text and "Font" in text
