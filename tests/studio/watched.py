"""The page as a user reads it."""

from __future__ import annotations

import math
from typing import Any

_NODES = """() => Object.fromEntries([...document.querySelectorAll("[data-node]")].map(
  (g) => [g.dataset.node, {...g.dataset}]))"""
_EDGES = """() => [...document.querySelectorAll("[data-edge]")].map((g) => ({...g.dataset}))"""


class Watched:
    """A page in the browser, with everything it wrote to the console."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.messages: list[str] = []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))

    def go(self, link: str) -> None:
        """Open a link as a new visitor would, with a fresh load of the page."""
        self.page.goto("about:blank")
        self.page.goto(self.address + link)
        self.page.wait_for_selector("[data-position], [data-entry], .lesson h2")

    @property
    def position(self) -> int:
        """The number of steps done, from the step bar."""
        return int(self.page.get_attribute("[data-position]", "data-position"))

    @property
    def phase(self) -> str:
        """The phase of the last step."""
        return str(self.page.get_attribute("[data-position]", "data-phase"))

    @property
    def nodes(self) -> dict[str, dict[str, str]]:
        """The attributes of every node in the drawing, by name."""
        found: dict[str, dict[str, str]] = self.page.evaluate(_NODES)
        return found

    @property
    def edges(self) -> list[dict[str, str]]:
        """The attributes of every edge in the drawing."""
        found: list[dict[str, str]] = self.page.evaluate(_EDGES)
        return found

    def value(self, name: str) -> float | None:
        """A node's value, or None."""
        return number(self.nodes[name]["value"])

    def grad(self, name: str) -> float | None:
        """A node's gradient so far, or None."""
        return number(self.nodes[name]["grad"])

    def press(self, key: str) -> None:
        """Press a key; it goes to the element with the focus."""
        self.page.keyboard.press(key)

    def wait_for_position(self, position: int) -> None:
        """Wait until the step bar shows this position."""
        self.page.wait_for_selector(f'[data-position="{position}"]')

    @property
    def link(self) -> str:
        """The fragment of the address, once it matches the view."""
        # The page writes it with a timer; a timer set after the page's own ends after it.
        later = "() => new Promise((done) => setTimeout(() => done(location.hash), 200))"
        return str(self.page.evaluate(later))


def number(text: str) -> float | None:
    """Parse a number in an attribute of the page."""
    return float(text) if text else None


def same(one: float | None, other: float | None) -> bool:
    """Whether two numbers are equal up to rounding; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-300)
