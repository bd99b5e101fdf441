"""Lesson files read a second time, apart from the page's reader: what the tests compare it with."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from gradwalk.course.catalogue import LESSONS, front_matter
from gradwalk.course.quantities import Quantities

ENGLISH = LESSONS / "en"
KINDS = ("graph", "question", "order", "byhand")
_BLOCK = re.compile(r"^```(\w*)[ ]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    kind: str
    fields: list[tuple[str, str]]
    source: str = ""
    values: dict[str, float] = field(default_factory=dict)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str:
        found = self.all(name)
        assert len(found) <= 1, (self.fields, name)
        return found[0] if found else ""

    @property
    def id(self) -> str:
        return self.one("id")

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """Quantity and feedback of each misconception."""
        return [_cells(text, 2) for text in self.all("wrong")]  # type: ignore[misc]

    @property
    def choices(self) -> list[tuple[bool, str, str]]:
        """Whether it is right, its text, and what is said to it."""
        cells = [_cells(text, 3) for text in self.all("choice")]
        return [(right == "yes", text, says) for right, text, says in cells]

    def number(self, quantity: str) -> float:
        """A quantity of this block's graph, by Python."""
        return Quantities(self.source or "x", self.values)(quantity)

    @property
    def answer(self) -> float:
        return self.number(self.one("answer"))


@dataclass
class Lesson:
    id: str
    head: dict[str, object]
    blocks: list[Block]
    text: str  # all of the file

    @property
    def tasks(self) -> list[Block]:
        return [block for block in self.blocks if block.kind != "graph"]

    @property
    def questions(self) -> list[Block]:
        return [block for block in self.blocks if block.kind == "question"]


def read_lesson(path: Path) -> Lesson:
    text = path.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for kind, body in _BLOCK.findall(text):
        if kind not in KINDS:
            continue
        lines = re.sub(r"\n  \s*", " ", body).splitlines()
        fields = [(name, value.strip()) for name, _, value in (x.partition(":") for x in lines)]
        block = Block(kind, fields)
        if block.one("source"):
            pairs = (pair.split("=") for pair in block.one("set").split())
            block.source = block.one("source")
            block.values = {name: float(number) for name, number in pairs}
        elif blocks:
            block.source, block.values = blocks[-1].source, blocks[-1].values
        blocks.append(block)
    return Lesson(path.stem, front_matter(path), blocks, text)


def english() -> list[Lesson]:
    """The lessons there are, in their order."""
    found = [read_lesson(path) for path in sorted(ENGLISH.glob("*.md"))]
    return sorted(found, key=lambda lesson: str(lesson.head["order"]))


def told_apart(one: float, other: float) -> bool:
    """Far enough from each other that a rounded answer is one of them only."""
    return not math.isclose(one, other, rel_tol=0.012, abs_tol=1e-9)


def _cells(text: str, count: int) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in text.split("|", count - 1))
