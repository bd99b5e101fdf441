"""Two traces side by side in the page: what `gradwalk diff` found, as colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.diff.side_by_side import side_by_side
from tests.studio.page.test_access import complaints
from tests.studio.traced import open_file, saved
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow


def trace(eps: float) -> gw.Trace:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.LayerNorm(8, eps=eps), gw.nn.Linear(8, 1))
    with gw.record(keep="all") as recorded:
        model(gw.randn(5, 4)).square().mean().backward()
    return recorded


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_differences_are_colour(open_page: Any, tmp_path: Path, theme: str) -> None:
    both = side_by_side(gw.diff(trace(1e-5), trace(1e-2)))
    page: Watched = open_page()
    page.page.emulate_media(color_scheme=theme)
    open_file(page, saved(both, tmp_path))
    page.page.wait_for_selector("[data-finding]")
    expect(page.page.locator("[data-finding]").first).to_contain_text(
        "eps is 1e-05 in A and 0.01 in B", use_inner_text=True
    )
    differs = page.page.locator("g.differs.node")
    expect(differs).to_have_count(2)  # in A and in B
    names = {differs.nth(i).locator("[data-node]").get_attribute("data-name") for i in range(2)}
    assert len(names) == 1 and "standardize" in str(names)

    def tints(kind: str) -> list[float]:
        found = page.page.evaluate(
            f"[...document.querySelectorAll('g.{kind}')].map((g) => g.style.cssText)"
        )
        return [float(text.split(":")[1].strip(" ;%")) for text in found if "--error" in text]

    assert max(tints("compared.node")) > 10  # after the difference
    assert min(tints("compared.node")) == 0  # before it
    assert not complaints(page)
    page.page.locator("g.differs.node [data-node]").last.click()
    expect(page.page.locator("#panel")).to_contain_text("Counterpart", use_inner_text=True)


def test_equal_traces_say_so(open_page: Any, tmp_path: Path) -> None:
    page: Watched = open_page()
    open_file(page, saved(side_by_side(gw.diff(trace(1e-5), trace(1e-5))), tmp_path))
    page.page.wait_for_selector("[data-operations]")
    expect(page.page.locator("#panel")).to_contain_text(
        "No operation differs by more than rounding", use_inner_text=True
    )
    expect(page.page.locator("g.differs")).to_have_count(0)
