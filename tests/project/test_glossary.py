"""Each word of the glossary stands there once, and is used in the code."""

import re
from functools import cache

import pytest

from tests.project.checkout import ROOT

PAGE = ROOT / "docs" / "develop" / "glossary.md"
ROW = re.compile(r"^\| (?P<word>[^|]+?) \| (?P<meaning>[^|]+?) \|$", re.MULTILINE)
ROWS = [
    (row["word"], row["meaning"])
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))
    if row["word"] != "word"
]


@cache
def code() -> str:
    """Every module of the library and of its tests, in lower case, `_` and camel case as spaces."""
    folders = (ROOT / "src" / "gradwalk", ROOT / "tests")
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    text = "\n".join([*map(str, files), *(path.read_text(encoding="utf-8") for path in files)])
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text).lower()


def test_each_word_stands_there_once() -> None:
    words = [word.lower() for word, _ in ROWS]
    assert len(words) > 40
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(("word", "meaning"), ROWS, ids=[word for word, _ in ROWS])
def test_a_word(word: str, meaning: str) -> None:
    # A word may stand in another form: push, pushes, pushed; lost path, lost paths.
    stem = re.escape(word.lower()).replace(r"\ ", r"\s+")
    assert re.search(rf"\b{stem}", code()), f"{word!r} is not used in the code"
    assert len(f"| {word} | {meaning} |") <= 130, "a meaning is one line"
