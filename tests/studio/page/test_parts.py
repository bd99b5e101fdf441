"""Parts of the page that load when they are opened."""

from __future__ import annotations

from typing import Any

import pytest

from tests.studio.watched import Watched

pytestmark = pytest.mark.slow


def test_a_part_loads_when_it_is_opened_and_can_be_asked_for_again(open_page: Any) -> None:
    page: Watched = open_page()
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url.rsplit("/")[-1]))
    page.page.route("**/part-*.js", lambda route: route.abort())
    page.page.click("[data-lessons]")
    alert = page.page.locator("main [role=alert]")
    alert.wait_for()
    assert [name for name in asked if name.startswith("part-")] == ["part-view-lessons-place.js"]
    page.page.unroute("**/part-*.js")
    alert.get_by_role("button").click()
    page.page.get_by_role("heading", name="Lessons").wait_for()
    assert alert.count() == 0
    # The browser itself tells of the request that failed.
    assert [message for message in page.messages if "ERR_FAILED" not in message] == []
    page.messages.clear()
    before = len(asked)
    page.page.click("[data-lessons]")
    page.page.click("[data-lessons]")
    page.page.get_by_role("heading", name="Lessons").wait_for()
    assert len(asked) == before  # once loaded, it is there
