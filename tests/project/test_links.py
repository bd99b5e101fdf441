"""Links in the documentation lead somewhere, and the paths it names exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.checkout import ROOT
from tests.project.markdown import DOCUMENTS

BLOCK = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
# In `code`: a path with a folder and a suffix, such as `engine/walk.py`.
NAMED_PATH = re.compile(r"`(?P<path>(?:[\w.-]+/)+[\w-]+\.(?:py|pyi|md|ts|tsx|json|yml|toml|svg))`")
FOLDERS = ("src", "tests", "tools", "docs", "benchmarks", "examples", "web/src", "web/test")
FILES = [
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.*")
]
# What is made by a command and not committed.
MADE = re.compile(r"lessons/index\.json|generated/.*")


def prose(path: Path) -> str:
    """The text without its fenced blocks, line by line in the same places."""
    text = path.read_text(encoding="utf-8")
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def anchors(path: Path) -> set[str]:
    """The names of a page's headings, as GitHub and MyST make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        kept = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(kept.replace(" ", "-"))
    return found


def broken(path: Path) -> Iterator[str]:
    """The links and named paths of a document that lead nowhere."""
    text = prose(path)
    for link in LINK.finditer(CODE.sub("", text)):
        target, _, anchor = link["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (path.parent / target) if target else path
        if not file.exists():
            yield link["target"]
        elif anchor and anchor not in anchors(file):
            yield f"{link['target']}: no such heading"
    for named in NAMED_PATH.finditer(text):
        # Within its room a file is named from there: `plan/loops.py` on the compiler's page.
        if not MADE.fullmatch(named["path"]) and not any(
            f.endswith(f"/{named['path']}") for f in FILES
        ):
            yield f"`{named['path']}`"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths(path: Path) -> None:
    assert list(broken(path)) == []


def test_the_check_sees_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading, `here`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-heading-here) [c](other.md#none) ![d](none.png)\n"
        "`[e](none.md)` `ops/none.py`\n```text\n[f](none.md)\n```\n",
        encoding="utf-8",
    )
    found = list(broken(page))
    assert found == ["other.md#none: no such heading", "none.png", "`ops/none.py`"]
