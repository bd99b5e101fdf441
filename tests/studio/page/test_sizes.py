"""How large things are on the screen: texts can be read, and rows of controls stay rows."""

from __future__ import annotations

from typing import Any

import pytest

from gradwalk.studio.presets import PRESETS
from tests.studio.watched import Watched

# How large every text of the drawing is on the screen, the smallest of its kind in a whole walk,
# and whether the camera had to go far away for the nodes of a step to be in sight.
_SIZES = """async (walk) => {
  const found = {};
  const drawn = () => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 0));
  const look = () => {
    const far = document.querySelector(".graph.farther") ? " from afar" : "";
    for (const text of document.querySelectorAll(".graph > svg text")) {
      if (!text.getClientRects().length || !text.textContent.trim()) continue;
      for (const part of [text, ...text.querySelectorAll("tspan")]) {
        if (!part.textContent.trim()) continue;
        const size = text.getScreenCTM().a * parseFloat(getComputedStyle(part).fontSize);
        const kind = (part.getAttribute("class") ?? "").split(" ")[0] + far;
        found[kind] = Math.min(found[kind] ?? Infinity, size);
      }
    }
  };
  const step = document.querySelector("[data-step]");
  await drawn();
  look();
  while (walk && step.getAttribute("aria-disabled") !== "true") {
    step.click();
    await drawn();
    await drawn();
    look();
  }
  return found;
}"""
LABEL, VALUE, GRADIENT = 12, 16, 14  # pixels
ROUNDING = 0.1


@pytest.mark.parametrize(("width", "height"), [(320, 720), (1440, 900)])
def test_every_text_of_a_walk_can_be_read(open_page: Any, width: int, height: int) -> None:
    page: Watched = open_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    for preset in PRESETS:
        page.go(f"#v=1&preset={preset.id}")
        least = {kind: size + ROUNDING for kind, size in page.page.evaluate(_SIZES, True).items()}
        assert not {kind: size for kind, size in least.items() if size < LABEL}, preset.id
        if preset.recording is None:
            assert least["value"] >= VALUE and least["grad"] >= GRADIENT, preset.id


@pytest.mark.parametrize(("width", "height"), [(320, 720), (1440, 900), (3840, 2160)])
def test_every_text_of_a_recording_can_be_read(open_page: Any, width: int, height: int) -> None:
    page: Watched = open_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    for preset in PRESETS:
        if preset.recording is None:
            continue
        page.go(f"#v=1&preset={preset.id}&step=999")
        page.page.click("[data-matrices]")
        page.page.wait_for_selector(".pushed")  # boxes, with numbers on their wires
        least = page.page.evaluate(_SIZES, False)
        assert least["pushed"] and min(least.values()) + ROUNDING >= LABEL, (preset.id, least)


def test_a_graph_of_six_columns_is_all_in_sight(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=dead-relu", viewport={"width": 1440, "height": 900})
    frame = page.page.locator(".graph").bounding_box()
    for node in page.page.locator("[data-node]").all():
        box = node.bounding_box()
        assert box["x"] >= frame["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
    assert page.page.locator("[data-minimap]").count() == 0


@pytest.mark.parametrize(
    ("link", "controls", "parts"),
    [
        ("#v=1&preset=network-2-2-1&step=999", ".stepbar", 4),
        ("#v=1&preset=dense-layer&step=999", ".stepbar", 4),
        ("#v=1&train=data:moons&trained=3", ".transport > .row", 4),
    ],
)
def test_controls_are_two_rows_on_a_telephone(
    open_page: Any, link: str, controls: str, parts: int
) -> None:
    page: Watched = open_page(viewport={"width": 320, "height": 720})
    page.page.evaluate("(link) => { location.hash = link }", link)
    page.page.wait_for_selector(controls)
    languages = page.page.locator(".tools .setting select").last
    for language in ("en", "de"):
        languages.select_option(language, force=True)
        page.page.wait_for_selector(f"html[lang={language}]")
        middles = page.page.locator(controls).evaluate(
            "(row) => [...row.children].map((part) => {"
            "const {top, bottom} = part.getBoundingClientRect();"
            "return Math.round((top + bottom) / 20)})"
        )
        assert len(middles) == parts and len(set(middles)) == 2, (language, middles)
