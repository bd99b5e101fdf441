"""Showing a walk to others: the graph alone on the screen, and the walk as pictures."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from tests.studio.page.test_access import complaints
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
STEPS = 4  # of the preset `square`


def test_presenting_shows_the_graph_alone_and_arrows_walk_it(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square")
    size = "() => parseFloat(getComputedStyle(document.querySelector('.steptext')).fontSize)"
    before = page.page.evaluate(size)
    page.page.click("[data-present]")
    page.page.wait_for_selector("[data-presenting]")
    for gone in ("[data-presets]", ".panels", ".switches"):
        expect(page.page.locator(gone)).to_be_hidden()
    assert page.page.evaluate(size) > 1.2 * before
    page.press("ArrowRight")
    page.wait_for_position(1)
    page.press("ArrowLeft")
    page.wait_for_position(0)
    graph = page.page.locator(".graph").bounding_box()
    assert graph["width"] == 1280 and graph["height"] > 300
    tall = page.page.evaluate("() => document.documentElement.scrollHeight - innerHeight")
    assert tall <= 0, "nothing to scroll"
    assert not complaints(page)
    page.press("Escape")
    page.page.wait_for_selector("[data-presenting]", state="detached")
    expect(page.page.locator(".panels")).to_be_visible()
    page.page.locator("#main").focus()
    page.press("p")
    page.page.wait_for_selector("[data-presenting]")
    page.page.get_by_role("button", name="End the presentation").click()
    page.page.wait_for_selector("[data-presenting]", state="detached")


def test_one_sentence_stands_at_the_active_node_and_covers_no_other(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=13")
    page.page.wait_for_selector(".caption.shown")
    expect(page.page.locator(".caption").first).to_have_text(
        "n has its whole gradient, 0.5, and hands each input its share."
    )
    caption = page.page.locator(".caption").bounding_box()
    boxes = {name: page.page.locator(f'[data-node="{name}"]').bounding_box() for name in page.nodes}
    assert not [name for name, box in boxes.items() if _meet(caption, box)]
    gap = caption["y"] - boxes["n"]["y"] - boxes["n"]["height"]
    assert 0 < gap < 30, "below it"
    page.page.click("#tab-byhand")
    page.page.wait_for_selector(".caption.shown", state="detached")


def _meet(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"]
        and other["y"] < one["y"] + one["height"]
    )


@pytest.fixture
def saved(open_page: Any, tmp_path: Path) -> Any:
    """`saved(kind)`: the walk of a × a from its first step on, as the page saves it."""
    page: Watched = open_page("#v=1&preset=square&set=a:5&step=2")

    def save(kind: str) -> Path:
        if not page.page.locator("dialog[open]").count():
            page.page.click("[data-save-walk]")
        with page.page.expect_download() as download:
            page.page.click(f"[data-film={kind}]")
        path = tmp_path / f"{kind}-{download.value.suggested_filename}"
        download.value.save_as(path)
        page.page.wait_for_selector("[data-told]:text('Saved.')")
        expect(page.page.locator(".film"), "nothing is left beside the page").to_have_count(0)
        page.wait_for_position(2)  # the page stays where it is
        return path

    return save


def _texts(frame: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in frame.iter(f"{SVG}text")]


def test_a_walk_is_saved_as_pictures(saved: Any) -> None:
    moving = ElementTree.parse(saved("animated")).getroot()
    frames = [part for part in moving if part.tag == f"{SVG}g"]
    assert len(frames) == STEPS + 1
    for frame in frames:
        (animation,) = frame.findall(f"{SVG}animate")
        times = [float(time) for time in animation.attrib["keyTimes"].split(";")]
        assert times == sorted(set(times)) and times[0] == 0 and times[-1] == 1
        assert len(times) == len(animation.attrib["values"].split(";"))
    assert frames[-1].attrib["visibility"] == "visible", "where nothing moves"
    assert "25" in _texts(frames[2]) and "25" not in _texts(frames[0])
    assert any("+10" in text for text in _texts(frames[-1]))
    assert any("step 4 of 4" in text for text in _texts(frames[-1]))
    # The active node has the border that it has on the page, not one on its way there.
    borders = [rect.attrib.get("stroke-width", "0") for rect in frames[2].iter(f"{SVG}rect")]
    assert max(float(border.rstrip("px")) for border in borders) < 4

    with zipfile.ZipFile(saved("frames")) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [f"{i:03}.svg" for i in range(STEPS + 1)]
        last = archive.read("004.svg").decode()
        assert "font/woff2" in last and "url(fonts" not in last, "it needs nothing else"
        assert _texts(ElementTree.fromstring(last)) == _texts(frames[-1])

    with zipfile.ZipFile(saved("pngs")) as archive:
        assert archive.testzip() is None
        pictures = [archive.read(name) for name in archive.namelist()]
    assert len(pictures) == STEPS + 1 == len(set(pictures)), "each shows another step"
    for picture in pictures:
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", picture[16:24]) == (1920, 1080)
