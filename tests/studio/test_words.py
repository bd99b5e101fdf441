"""The words of the page: every one that is used is there, and none is there for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradwalk.course.catalogue import LESSONS
from tests.project.checkout import ROOT
from tools.page import tables as page_tables

WORDS: dict[str, str] = json.loads((LESSONS / "en" / "strings.json").read_text(encoding="utf-8"))
SOURCES = [*(ROOT / "web" / "src").rglob("*.ts"), *(ROOT / "web" / "src").rglob("*.tsx")]
PLURAL = re.compile(r"\.(zero|one|two|few|many|other)$")
# Where a key is said, sent as a message, or given to a component or a table as its word.
USED = re.compile(r"(?:say|hasWords)\(([^(){}]*)|\b(?:key|word)[:=] ?([^,;(){}\n]*)")
KEY = re.compile(r'"(\w+(?:\.[\w -]+)+)"')
LITERAL = re.compile(r'"([a-z]\w*(?:\.[\w-]+)+)"')
QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)+)"')
TEMPLATE = re.compile(r"`([^`\n]*\$\{[^`\n]*)`")
OF_PYTHON = {"language.name", "page.needsScript"}  # catalogue.py and pages.py ask for these


def stem(key: str) -> str:
    """Without its plural form."""
    return PLURAL.sub("", key)


def text_of(path: Path) -> str:
    without_lines = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
    return re.sub(r"/\*.*?\*/", "", without_lines, flags=re.DOTALL)


def texts_in(data: Any) -> Iterator[str]:
    """Every text in what is written as JSON."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        data = list(data.values())
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from texts_in(part)


def test_every_word_that_is_used_exists() -> None:
    known = {*WORDS, *map(stem, WORDS)}
    used = {
        key: path.name
        for path in SOURCES
        for said in USED.findall(text_of(path))
        for key in KEY.findall(" ".join(said))
    }
    assert len(used) > 150
    assert {key: file for key, file in used.items() if key not in known} == {}


def test_whatever_looks_like_a_word_is_one() -> None:
    """Also where a key is kept in a table or passed on, and said elsewhere."""
    known = {*WORDS, *map(stem, WORDS)}
    groups = {key.split(".")[0] for key in WORDS}
    found = {key for path in SOURCES for key in LITERAL.findall(path.read_text(encoding="utf-8"))}
    assert {key for key in found if key.split(".")[0] in groups} - known == set()


def test_no_word_is_there_for_nothing() -> None:
    plain = set(texts_in(page_tables.tables()))  # the page's data names presets and gates
    composed: list[re.Pattern[str]] = []
    for text in map(text_of, SOURCES):
        for quoted in QUOTED.findall(text):
            plain |= {quoted, *quoted.split("+")}  # "Shift+ArrowUp" is two keys
        for template in TEMPLATE.findall(text):
            parts = re.split(r"\$\{[^}]*\}", template)
            # What is filled in must be a text of its own somewhere: an op, a preset, a panel.
            if "." in "".join(parts):
                composed.append(re.compile(r"([\w. -]+)".join(map(re.escape, parts))))

    def is_used(key: str) -> bool:
        if key in plain or key in OF_PYTHON:
            return True
        matches = filter(None, (pattern.fullmatch(key) for pattern in composed))
        return any(
            all(part in plain or is_used(part) for part in match.groups()) for match in matches
        )

    unused = [key for key in WORDS if not is_used(key) and not is_used(stem(key))]
    assert not unused, ", ".join(unused)


def test_plural_forms_are_complete_and_say_the_number_or_not() -> None:
    pairs = {stem(key) for key in WORDS if PLURAL.search(key) and "{" in WORDS[key]}
    counted = {key for key in pairs if f"{key}.one" in WORDS}
    assert counted
    assert [key for key in counted if f"{key}.other" not in WORDS] == []


def test_words_are_ours() -> None:
    for key, text in WORDS.items():
        assert not re.search(r"\b(parent|child|step back)", text, re.IGNORECASE), key
        assert text.count("{") == len(re.findall(r"\{\w+\}", text)), key
        assert text == text.strip() or key.startswith("walk.way"), key
