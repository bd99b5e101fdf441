"""The languages and lessons there are: those in the folders, so adding one takes no code.

A folder of lessons has one folder per language, named by its code (`en`, `pt-BR`), with the words
of the page in `strings.json` and one Markdown file per lesson. A lesson begins with a block

    ---
    title: Draw the graph
    minutes: 15
    order: 1
    ---
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradwalk.course.lesson_files import TASKS, faults, fenced

LESSONS = Path(__file__).parent / "lessons"
WORDS = "strings.json"
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_LESSON = re.compile(r"[A-Za-z0-9][\w-]*")
_WHOLE_NUMBERS = ("minutes", "order")


class Catalogue:
    """The lessons of one or several folders; of two files with the same name, the later counts."""

    def __init__(self, folders: Sequence[Path] = (LESSONS,)) -> None:
        self.files: dict[str, Path] = {}  # "en/strings.json" -> where it is
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"there is no folder of lessons {folder}")
            for path in sorted(folder.glob("*/*")):
                lesson = path.suffix == ".md" and _LESSON.fullmatch(path.stem)
                language = path.parent.name
                known = _LANGUAGE.fullmatch(language) and (lesson or path.name == WORDS)
                if known and path.is_file():
                    self.files[f"{language}/{path.name}"] = path
        self.languages: dict[str, str] = {}  # "en" -> "English"
        self.lessons: dict[str, list[dict[str, Any]]] = {}
        for code in dict.fromkeys(name.partition("/")[0] for name in sorted(self.files)):
            self.languages[code] = str(self.words(code).get("language.name", code))
            self.lessons[code] = self._lessons_in(code)

    def _lessons_in(self, code: str) -> list[dict[str, Any]]:
        lessons = [
            front_matter(path) | {"id": path.stem, "tasks": count_tasks(path)}
            for name, path in self.files.items()
            if name.startswith(f"{code}/") and name.endswith(".md")
        ]
        return sorted(lessons, key=lambda lesson: (lesson["order"], lesson["id"]))

    def words(self, code: str) -> dict[str, str]:
        """The words of a language; the page shows missing ones in English."""
        path = self.files.get(f"{code}/{WORDS}")
        if path is None:
            return {}
        try:
            words = json.loads(_text(path))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        if not isinstance(words, dict) or not all(isinstance(w, str) for w in words.values()):
            raise ValueError(f"{path} must be one object of texts: {{key: words}}")
        return words

    def faults(self) -> list[str]:
        """What the page could not show of these lessons: file, line and fault."""
        return [
            f"{path}, {fault}"
            for name, path in self.files.items()
            if name.endswith(".md")
            for fault in faults(_text(path))
        ]

    def index(self) -> dict[str, Any]:
        """The content of `lessons/index.json`."""
        return {
            "languages": {
                code: {"name": name, "lessons": self.lessons[code]}
                for code, name in self.languages.items()
            }
        }


def front_matter(path: Path) -> dict[str, Any]:
    """Read the block at the head of a lesson; title, minutes and order must be in it."""
    lines = _text(path).removeprefix("\ufeff").splitlines()
    end = next((i for i, line in enumerate(lines) if i and line.strip() == "---"), None)
    if not lines or lines[0].strip() != "---" or end is None:
        raise ValueError(f"{path} does not begin with a block between two lines of ---")
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines[1:end], 2):
        key, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"{path}, line {number}: '{line}' is not of the form key: value")
        fields[key.strip()] = value.strip()
    missing = [key for key in ("title", *_WHOLE_NUMBERS) if not fields.get(key)]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)} in the block it begins with")
    for key in _WHOLE_NUMBERS:
        if not fields[key].isdecimal() or len(fields[key]) > 9:
            raise ValueError(f"{path}: {key} is '{fields[key]}', and must be a whole number")
        fields[key] = int(fields[key])
    return fields


def count_tasks(path: Path) -> int:
    """How many tasks a lesson has: what progress is counted against."""
    return sum(name.partition(":")[0] in TASKS for name, _, _ in fenced(_text(path)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}. Fix: save it as UTF-8") from None
