"""Every word the page asks for exists, and every word that exists is asked for."""

from __future__ import annotations

import re

from gradwalk.course.catalogue import Catalogue
from tests.project.checkout import ROOT

SOURCES = sorted(
    path
    for folder in ("src",)
    for path in (ROOT / "web" / folder).rglob("*.ts*")
    if "generated" not in path.parts
)
KEY = r"[a-z]\w*(?:\.[\w-]+)+"
LITERAL = re.compile(rf'"({KEY})"')
TEMPLATE = re.compile(r"`([a-z]\w*\.[\w.${}()\[\]!?<=>: \"'-]*)`")
PLURALS = ("zero", "one", "two", "few", "many", "other")
PYTHON_ASKS = {"language.name", "page.needsScript"}  # pages.py and the catalogue


def _asked() -> tuple[set[str], list[re.Pattern[str]]]:
    """Whole keys in the sources, and patterns of those put together there."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    patterns = []
    for template in TEMPLATE.findall(text):
        if "${" in template:
            fixed = re.split(r"\$\{[^}]*\}", template)
            patterns.append(re.compile(r"[\w. -]+".join(map(re.escape, fixed))))
    return set(LITERAL.findall(text)), patterns


def _plain(key: str) -> str:
    """Without the plural form."""
    stem, _, last = key.rpartition(".")
    return stem if last in PLURALS else key


def test_no_word_is_missing() -> None:
    words = Catalogue().words("en")
    groups = {key.split(".")[0] for key in words}
    known = set(words) | {_plain(key) for key in words}
    literals, _ = _asked()
    missing = {key for key in literals if key.split(".")[0] in groups and key not in known}
    assert not missing


def test_no_word_is_left_over() -> None:
    literals, patterns = _asked()
    asked = literals | PYTHON_ASKS
    unused = [
        key
        for key in Catalogue().words("en")
        if key not in asked
        and _plain(key) not in asked
        and not any(p.fullmatch(k) for p in patterns for k in (key, _plain(key)))
    ]
    assert not unused
