"""The page as a user reads it."""

from __future__ import annotations

import math
from typing import Any

_NODES = """() => Object.fromEntries([...document.querySelectorAll("[data-node]")].map(
  (g) => [g.dataset.node, {...g.dataset}]))"""
_EDGES = """() => [...document.querySelectorAll("[data-edge]")].map((g) => ({...g.dataset}))"""
# An effect begins to move the view within a frame or two, or after 100 ms; ten equal frames and
# 200 ms are rest.
_RESTING = """async (selector) => {
  const spot = () => {
    const {x, y, width, height} = document.querySelector(selector).getBoundingClientRect();
    return {x, y, width, height};
  };
  let [last, frames, since] = [spot(), 0, performance.now()];
  while (frames < 10 || performance.now() - since < 200) {
    await new Promise(requestAnimationFrame);
    const now = spot();
    if (JSON.stringify(now) === JSON.stringify(last)) frames++;
    else [last, frames, since] = [now, 0, performance.now()];
  }
  return last;
}"""
PATIENCE, POLL = 30_000, 50  # milliseconds


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

    def wait_for_value(self, name: str, wanted: Any) -> None:
        """Wait until a node has this value; `pytest.approx` is one, too."""
        self._wait_for(name, "value", wanted)

    def wait_for_grad(self, name: str, wanted: Any) -> None:
        """Wait until a node has this gradient."""
        self._wait_for(name, "grad", wanted)

    def _wait_for(self, name: str, what: str, wanted: Any) -> None:
        for _ in range(PATIENCE // POLL):
            node = self.nodes.get(name)
            if node is not None and number(node[what]) == wanted:
                return
            self.page.wait_for_timeout(POLL)
        assert number(self.nodes[name][what]) == wanted, (name, what)

    def resting_box(self, selector: str) -> dict[str, float]:
        """Where an element is once the view stands still: the camera glides for some frames."""
        found: dict[str, float] = self.page.evaluate(_RESTING, selector)
        return found

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
