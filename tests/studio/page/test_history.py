"""The browser's back button goes through graphs, panels and lessons, and not through steps."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.studio.launch import Studio
from tests.studio.serving import scalar_trace, tensor_trace
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

TITLE = "#scene-title"


def _panel(page: Watched) -> str:
    return str(page.page.get_attribute("[role=tab][aria-selected=true]", "id"))[len("tab-") :]


def _back(page: Watched) -> None:
    page.link  # what changed last is written first
    page.page.evaluate("() => history.back()")
    page.page.wait_for_timeout(50)


def test_back_and_forward_go_through_graphs_panels_and_lessons(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square")
    page.link
    length = page.page.evaluate("() => history.length")
    page.page.locator("#main").focus()
    for position in (1, 2, 3):
        page.press("ArrowRight")
        page.wait_for_position(position)
        page.link
    assert page.page.evaluate("() => history.length") == length, "steps are replaced"
    page.page.select_option("[data-presets]", "diamond")
    page.wait_for_position(0)
    page.link
    page.page.click("#tab-why")
    page.link
    page.page.click("#tab-type")
    page.link
    page.page.fill("#own", "y = a*b")
    page.press("Control+Enter")
    page.page.wait_for_selector('[data-node="y"]')
    page.link
    page.page.click("[data-lessons]")
    page.page.wait_for_selector("[data-entry]")
    assert "lesson=" in page.link

    _back(page)
    page.page.wait_for_selector('[data-node="y"]')
    _back(page)
    page.page.wait_for_selector(f"{TITLE}:text-is('The diamond')")
    assert _panel(page) == "type"
    _back(page)
    page.page.wait_for_selector("#tab-why[aria-selected=true]")
    _back(page)
    page.page.wait_for_selector("#tab-inspect[aria-selected=true]")
    assert "preset=diamond" in page.link
    _back(page)
    page.wait_for_position(3)
    assert "preset=square" in page.link
    for wanted in ("diamond", "diamond&panel=why", "diamond&panel=type"):
        page.page.evaluate("() => history.forward()")
        page.page.wait_for_function("(part) => location.hash.includes(part)", arg=wanted)
        page.link
    page.page.evaluate("() => history.forward()")
    page.page.wait_for_selector('[data-node="y"]')


def test_back_to_a_recording(visit: Any, studio: Studio) -> None:
    """A link cannot hold a recording: the page remembers it, and the address names its session."""
    first = studio.sessions.show(tensor_trace(), "tensors")
    second = studio.sessions.show(scalar_trace(), "numbers")
    page: Watched = visit(studio.url(first))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    page.link
    page.page.click("[data-open-trace]")
    page.page.locator("[data-session]", has_text="numbers").click()
    page.page.wait_for_selector('[data-node="d"]')
    page.page.wait_for_url(lambda url: f"session={second.id}" in url)
    page.page.locator("#main").focus()
    page.press("End")
    last = page.position
    page.link
    page.page.select_option("[data-presets]", "square")
    page.page.wait_for_selector('[data-node="f"]')

    _back(page)
    page.page.wait_for_selector('[data-node="d"]')
    page.wait_for_position(last)
    _back(page)
    page.page.wait_for_selector("[data-trace-drawing] .box")
    expect(page.page.locator(TITLE).first).to_have_text("tensors")
    page.page.wait_for_url(lambda url: f"session={first.id}" in url)
    page.page.reload()
    page.page.wait_for_selector(f"{TITLE}:text-is('tensors')")


def test_a_page_in_a_frame_leaves_the_history_around_it_alone(open_page: Any) -> None:
    page: Watched = open_page()
    around = page.address + "around"
    frame = f'<iframe src="{page.address}#v=1&amp;preset=square"></iframe>'
    page.page.context.route(
        around, lambda route: route.fulfill(body=frame, content_type="text/html")
    )
    page.page.goto(around)
    inside = page.page.frames[1]
    inside.wait_for_selector("[data-position]")
    length = page.page.evaluate("() => history.length")
    inside.select_option("[data-presets]", "diamond")
    inside.wait_for_function("() => location.hash.includes('preset=diamond')")
    assert page.page.evaluate("() => history.length") == length


def test_two_windows_share_progress_at_once(open_page: Any) -> None:
    page: Watched = open_page("#v=1&lesson=index")
    page.page.wait_for_selector("[data-entry]")
    other = page.page.context.new_page()
    other.goto(page.address + "#v=1&lesson=index")
    counted = other.locator("[data-entry] .count").first
    counted.wait_for()
    expect(counted).to_have_attribute("data-done", "0")
    lesson = page.page.get_attribute("[data-entry]", "data-entry")
    page.page.evaluate(
        "(lesson) => localStorage.setItem('gradwalk.lessons', JSON.stringify({[lesson]: ['q1']}))",
        lesson,
    )
    other.wait_for_selector('[data-entry] .count[data-done="1"]')


def test_a_first_visit_begins_with_the_lessons_and_the_next_where_one_was(open_page: Any) -> None:
    page: Watched = open_page("")
    page.page.wait_for_selector("[data-entry]")
    assert "lesson=index" in page.link
    page.go("")
    page.page.wait_for_selector("[data-entry]")
    page.page.click("[data-graph]")
    page.page.wait_for_selector("[data-node]")
    page.link
    page.go("")
    page.page.wait_for_selector("[data-node]")
    expect(page.page.locator(TITLE).first).to_have_text("One neuron")
    page.go("#v=1&preset=square")
    expect(page.page.locator(TITLE).first, "a link opens what it names").to_have_text("a times a")


def test_training_is_one_place_whatever_its_settings(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond")
    page.link
    page.page.click("[data-lessons]")
    page.page.wait_for_selector("[data-entry]")
    page.link
    length = page.page.evaluate("() => history.length")
    page.page.click("[data-playground]")
    page.page.wait_for_selector("[data-trained]")
    page.page.locator("input[data-setting=depth]").focus()
    for _ in range(3):
        page.press("ArrowRight")
    assert "depth:5" in page.link
    assert page.page.evaluate("() => history.length") == length + 1
    _back(page)
    page.page.wait_for_selector("[data-entry]")
    _back(page)
    page.page.wait_for_selector(f"{TITLE}:text-is('The diamond')")
