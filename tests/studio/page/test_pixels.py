"""What is really painted: every preset and the README's graphs beside committed pictures.

Colours of CSS that hit the wrong element change nothing in the tree: edges were once filled dark in
every recording, and no test saw it. The comparison allows for how a browser smooths letters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tools.page import pixels

CELL = 8  # small pixels: 32 on the screen
MOST = 9.0  # of 255: how far the mean colour of a cell may be off
FIX = "Look at it; if it is meant to be so: python -m tools.page.pixels"


def apart(one: Any, other: Any) -> float:
    """The largest difference of two pictures' cells."""
    wide = pixels.WIDTH // pixels.SMALLER // CELL
    high = pixels.HEIGHT // pixels.SMALLER // CELL
    off = np.abs(blurred(one) - blurred(other))
    return float(off.reshape(high, CELL, wide, CELL, 3).mean((1, 3)).max())


def blurred(picture: Any) -> Any:
    """Each pixel with its neighbours: a line that lies half a pixel beside another is the same."""
    around = np.pad(picture, ((1, 1), (1, 1), (0, 0)), mode="edge")
    high, wide = picture.shape[:2]
    parts = [around[i : i + high, j : j + wide] for i in range(3) for j in range(3)]
    return np.mean(parts, axis=0)


@pytest.mark.parametrize("scheme", pixels.SCHEMES)
def test_drawings_look_as_they_did(browser: Any, site: str, scheme: str) -> None:
    page = pixels.open_window(browser, site, scheme)
    off = {}
    for name, wanted in pixels.kept(scheme).items():
        off[name] = apart(pixels.take(page, pixels.DRAWN[name]), wanted)
    wrong = {name: round(by, 1) for name, by in off.items() if by > MOST}
    page.context.close()
    assert not wrong, f"{wrong} of 255. {FIX}"


@pytest.mark.parametrize(
    ("preset", "fault"),
    [
        ("tied-weight", ".edge .line { fill: var(--ink) !important }"),
        ("network-2-2-1", ".edge .line { fill: var(--ink) !important }"),
        ("diamond", ".edge .line { stroke: none !important }"),
        ("square", ".edge text { display: none }"),
        ("diamond", ".node:has([data-node=c]) { display: none }"),
        ("softmax", ".node text { fill: var(--paper) !important }"),
    ],
)
def test_what_is_painted_wrong_is_found(browser: Any, site: str, preset: str, fault: str) -> None:
    page = pixels.open_window(browser, site, "light")
    pixels.add_style(page, fault)
    found = apart(pixels.take(page, pixels.DRAWN[preset]), pixels.kept("light")[preset])
    page.context.close()
    assert found > 1.3 * MOST
