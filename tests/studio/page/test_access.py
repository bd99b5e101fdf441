"""axe finds nothing to complain about, in light, in dark and on a small screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.project.checkout import ROOT
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async () => (await axe.run(document, {resultTypes: ["violations", "incomplete"]}))
  .violations.map((v) => `${v.id}: ${v.help}: ` + v.nodes.slice(0, 3).map(
    (n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | "))"""

# What is on the page: a link, and keys pressed after it.
STATES = {
    "begin": ("", ""),
    "walking": ("#v=1&preset=neuron&step=13&select=n", ""),
    "edge": ("#v=1&preset=exploding&step=25&select=h3.0", ""),
    "path": ("#v=1&preset=diamond&step=8&select=d%3Ec%3Ea&drawing=edges", ""),
    "code": ("#v=1&preset=softmax&step=20&panel=code", ""),
    "mistake": ("#v=1&source=y%3D2x", ""),
    "table": ("#v=1&preset=masked-log&step=14", "v"),
    "help": ("#v=1&preset=square", "?"),
    "notice": ("#v=1&preset=none", ""),
}
LOOKS = [("light", 1280), ("dark", 320)]


def complaints(page: Watched) -> list[str]:
    """What axe has to say about the page as it is now."""
    page.page.evaluate(_axe() + "; undefined")
    found: list[str] = page.page.evaluate(RUN)
    return found


def _axe() -> str:
    if not AXE.exists():
        pytest.fail(f"{Path(AXE).name} is not installed: make page", pytrace=False)
    return AXE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_axe_finds_nothing(open_page: Any, scheme: str, width: int) -> None:
    page: Watched = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = {}
    for name, (link, keys) in STATES.items():
        page.go(link)
        page.page.locator("#main").focus()
        for key in keys:
            page.press(key)
        found[name] = complaints(page)
    page.go("#v=1&preset=neuron&step=16")
    page.page.fill("[data-leaf=w1]", "−2")
    page.page.wait_for_selector(".change")
    found["edited"] = complaints(page)
    assert not {name: list_ for name, list_ in found.items() if list_}


def test_the_theme_can_be_chosen_and_is_remembered(open_page: Any) -> None:
    page: Watched = open_page(color_scheme="light")
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(background)
    page.page.select_option(".setting select", "dark")
    dark = page.page.evaluate(background)
    assert dark != light
    page.go("")
    assert page.page.evaluate(background) == dark


def test_motion_is_reduced_where_asked(open_page: Any) -> None:
    durations = (
        "() => [...document.querySelectorAll('*')].map("
        "(e) => getComputedStyle(e).transitionDuration).filter((d) => parseFloat(d) > 0).length"
    )
    assert open_page("#v=1&preset=neuron").page.evaluate(durations) > 0
    assert open_page("#v=1&preset=neuron", reduced_motion="reduce").page.evaluate(durations) == 0
