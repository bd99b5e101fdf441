"""The page as a user reads it."""

from __future__ import annotations

import math
from typing import Any

_NODES = """() => Object.fromEntries([...document.querySelectorAll("[data-node]")].map(
  (g) => [g.dataset.node, {...g.dataset}]))"""
_EDGES = """() => [...document.querySelectorAll("[data-edge]")].map((g) => ({...g.dataset}))"""


class Watched:
    """A page in the browser, with everything it said on the console."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.messages: list[str] = []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))

    def go(self, link: str) -> None:
        """Open a link as a fresh visitor would: the page is loaded anew."""
        self.page.goto("about:blank")
        self.page.goto(self.address + link)
        self.page.wait_for_selector("[data-position]")

    @property
    def position(self) -> int:
        """Steps done, as the step bar says."""
        return int(self.page.get_attribute("[data-position]", "data-position"))

    @property
    def phase(self) -> str:
        """Of the last step."""
        return str(self.page.get_attribute("[data-position]", "data-phase"))

    @property
    def nodes(self) -> dict[str, dict[str, str]]:
        """What the drawing says of every node, by name."""
        found: dict[str, dict[str, str]] = self.page.evaluate(_NODES)
        return found

    @property
    def edges(self) -> list[dict[str, str]]:
        """What the drawing says of every edge."""
        found: list[dict[str, str]] = self.page.evaluate(_EDGES)
        return found

    def value(self, name: str) -> float | None:
        """A node's value; None while it has none."""
        return number(self.nodes[name]["value"])

    def grad(self, name: str) -> float | None:
        """What has arrived at a node; None before anything has."""
        return number(self.nodes[name]["grad"])

    def press(self, key: str) -> None:
        """A key for whatever has the focus."""
        self.page.keyboard.press(key)

    def wait_for_position(self, position: int) -> None:
        """Until the step bar says so."""
        self.page.wait_for_selector(f'[data-position="{position}"]')

    @property
    def link(self) -> str:
        """The address's fragment, once it follows what is shown."""
        # The page writes it a moment later; a timer that is set after the page's own ends after it.
        later = "() => new Promise((done) => setTimeout(() => done(location.hash), 200))"
        return str(self.page.evaluate(later))


def number(text: str) -> float | None:
    """A number of the page's attributes."""
    return float(text) if text else None


def same(one: float | None, other: float | None) -> bool:
    """Equal but for the rounding of the last digits; NaN is NaN."""
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-300)
