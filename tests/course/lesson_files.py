"""The existing lessons, as Python reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradwalk.course.catalogue import LESSONS, front_matter
from gradwalk.course.lesson_files import Block, read_blocks

ENGLISH = LESSONS / "en"


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
    return Lesson(path.stem, front_matter(path), read_blocks(text), text)


def english() -> list[Lesson]:
    """The existing lessons, in order."""
    found = [read_lesson(path) for path in sorted(ENGLISH.glob("*.md"))]
    return sorted(found, key=lambda lesson: int(str(lesson.head["order"])))
