"""Links of version 1 open the same in every release, and a saved copy of the page stays live."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.studio.pages import STATIC
from tests.studio.watched import Watched, number, same

pytestmark = pytest.mark.slow

FROZEN = json.loads((Path(__file__).parent / "links.json").read_text(encoding="utf-8"))["links"]
_STAGE = """() => { const {stage} = window.gradwalkStudio; return {
  order: stage.order.value?.map((node) => stage.name(node)) ?? null,
  overwrite: stage.overwrite.value, drawing: stage.drawing.value }}"""

_OPENED = "() => window.gradwalkStudio.stage.scene.value.origin.id"


def _float(kept: Any) -> float | None:
    return None if kept is None else float(kept)  # "nan" and "inf" are written as text


# What a link can name; of each there is a frozen one.
KINDS = {
    "preset": r"preset=", "expression": r"source=", "values": r"set=", "lesson": r"lesson=",
    "block of a lesson": r"at=[a-z]", "block by its number, of old": r"at=\d", "step": r"step=",
    "node": r"select=\w+(&|$)", "edge": r"select=\w+\.\d(&|$)", "path": r"select=.*%3E",
    "panel": r"panel=", "drawing": r"drawing=", "order": r"order=", "overwrite": r"overwrite=",
    "language": r"lang=", "training": r"train=", "its step": r"trained=",
}  # fmt: skip


def test_there_are_thirty_of_all_kinds() -> None:
    assert len(FROZEN) >= 30
    links = {row["link"] for row in FROZEN}
    assert len(links) == len(FROZEN)
    for kind, pattern in KINDS.items():
        assert any(re.search(f"&{pattern}", link) for link in links), kind


def test_frozen_links_open_as_ever(open_page: Any) -> None:
    page: Watched = open_page()
    for row in (row for row in FROZEN if "title" in row):
        page.go(row["link"])
        link = row["link"]
        expect(page.page.locator(".notices"), link).to_have_count(0)
        expect(page.page.locator("#scene-title"), link).to_have_text(row["title"])
        page.wait_for_position(row["position"])
        shown = page.nodes
        assert set(shown) == set(row["values"]), link
        for name, node in shown.items():
            assert same(number(node["value"]), _float(row["values"][name])), (link, name)
            assert same(number(node["grad"]), _float(row["grads"][name])), (link, name)
        assert _chosen(page, ".node.selected [data-node]", "node") == row["selectedNodes"], link
        assert _chosen(page, ".edge.selected [data-edge]", "edge") == row["selectedEdges"], link
        tab = page.page.get_attribute("[role=tab][aria-selected=true]", "id")
        assert tab == f"tab-{row['panel']}", link
        stage = page.page.evaluate(_STAGE)
        assert stage["order"] == row["order"] and stage["overwrite"] == row["overwrite"], link
        assert stage["drawing"] == row["drawing"], link
        if row["product"] is not None:
            product = number(page.page.get_attribute("[data-product]", "data-product"))
            assert same(product, row["product"]), link


def test_frozen_links_to_lessons_open_as_ever(open_page: Any) -> None:
    page: Watched = open_page()
    for row in (row for row in FROZEN if "lesson" in row):
        page.page.goto("about:blank")
        page.page.goto(page.address + row["link"])
        page.page.wait_for_selector(f".lesson h2:text-is('{row['lesson']}')")
        expect(page.page.locator(".notices"), str(row)).to_have_count(0)
        if row["block"]:
            page.page.wait_for_selector(f"[data-task={row['block']}]:focus, "
                                        f"[data-graph={row['block']}]:focus")  # fmt: skip


def test_frozen_links_to_a_training_open_as_ever(open_page: Any) -> None:
    page: Watched = open_page()
    for row in (row for row in FROZEN if "loss" in row):
        page.page.goto("about:blank")
        page.page.goto(page.address + row["link"])
        page.page.wait_for_selector(f"[data-trained='{row['link'].rpartition('=')[2]}']")
        expect(page.page.locator(".notices"), str(row)).to_have_count(0)
        assert same(number(page.page.get_attribute("[data-loss]", "data-loss")), row["loss"]), row


def _chosen(page: Watched, selector: str, what: str) -> list[str]:
    found: list[str] = page.page.evaluate(
        f"() => [...document.querySelectorAll('{selector}')].map((e) => e.dataset.{what})"
    )
    return sorted(found)


def test_a_link_is_followed_while_the_address_is_about_to_be_written(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond")
    page.page.wait_for_timeout(300)
    page.page.evaluate(
        """(link) => {
          const later = window.setTimeout;
          let write = null;
          window.setTimeout = (call) => { write = call; return 0; };
          const {stage} = window.gradwalkStudio;
          stage.position.value = 1 + stage.position.value;
          window.setTimeout = later;
          location.hash = link;
          write();  // before the event that tells the page of the link
        }""",
        "#v=1&preset=square",
    )
    page.page.wait_for_timeout(300)
    assert page.page.evaluate(_OPENED) == "square"


_COPIED = "() => navigator.clipboard.readText()"


def test_a_page_on_this_computer_says_so_when_it_is_shared(open_page: Any) -> None:
    link = "#v=1&preset=diamond&step=5"
    page: Watched = open_page(link, permissions=["clipboard-read", "clipboard-write"])
    share = page.page.locator("[data-send]")
    for part, copied in (("all", page.address + link), ("end", link)):
        share.click()
        expect(page.page.locator("dialog[open]").first).to_contain_text(
            "your computer", use_inner_text=True
        )
        page.page.click(f"[data-copy={part}]")
        page.page.get_by_role("button", name="Link copied").wait_for()
        assert page.page.evaluate(_COPIED) == copied
        expect(page.page.locator("dialog[open]")).to_have_count(0)
    share.click()
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Save one file").click()
    assert download.value.suggested_filename == "The-diamond.html"


def test_sharing_copies_the_link(open_page: Any, site: str) -> None:
    page: Watched = open_page(permissions=["clipboard-read", "clipboard-write"])
    public = "https://studio.test/"

    def answer(route: Any) -> None:
        route.fulfill(response=page.page.request.get(route.request.url.replace(public, site)))

    page.page.context.route(public + "**", answer)
    page.page.goto(public + "#v=1&preset=diamond&step=5")
    page.page.wait_for_selector("[data-position]")
    page.page.locator("[data-send]").click()
    page.page.get_by_role("button", name="Link copied").wait_for()
    assert page.page.evaluate(_COPIED) == public + "#v=1&preset=diamond&step=5"


def test_a_saved_copy_works_from_disk(open_page: Any, browser: Any, tmp_path: Path) -> None:
    page: Watched = open_page("#v=1&preset=square&set=a:5&step=4&select=f.1")
    copies = []
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Export").click()
    copies.append(tmp_path / download.value.suggested_filename)
    download.value.save_as(copies[0])
    context = browser.new_context(offline=True)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    for copy in copies:
        saved = Watched(context, copy.as_uri())
        saved.go("")
        saved.wait_for_grad("a", 10)
        assert saved.position == 4
        parts = saved.page.evaluate("() => Object.keys(gradwalkParts)")
        assert {f"part-{name}.js" for name in parts} == {p.name for p in STATIC.glob("part-*.js")}
        expect(saved.page.locator(".edge.selected")).to_have_count(1)
        saved.page.locator("#main").focus()
        saved.press("ArrowLeft")
        saved.wait_for_position(3)
        saved.press("Escape")
        saved.page.fill("[data-leaf=a]", "3/2")
        saved.page.locator("#main").focus()
        saved.press("End")
        saved.wait_for_position(4)
        saved.wait_for_grad("a", 3)
        if copy is copies[0]:  # a copy of the copy is as good
            with saved.page.expect_download() as download:
                saved.page.get_by_role("button", name="Export").click()
            again = tmp_path / f"again-{download.value.suggested_filename}"
            download.value.save_as(again)
            assert '"link":"#v=1&preset=square&set=a:1.5&step=4"' in again.read_text(
                encoding="utf-8"
            ).replace("\\u0026", "&")
        assert not saved.messages
    assert all(url.startswith(("file:", "blob:", "data:", "about:")) for url in asked), asked
    context.close()
