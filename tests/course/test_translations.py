"""Translations are data: what is missing is listed, and what is there agrees with English."""

from __future__ import annotations

import json
import re

import pytest

from gradwalk.course.catalogue import LESSONS, Catalogue
from tests.course.lesson_files import ENGLISH, Lesson, english, read_lesson
from tests.course.test_lessons import wrong_calculations

WORDS: dict[str, str] = json.loads((ENGLISH / "strings.json").read_text(encoding="utf-8"))
ENGLISH_LESSONS = {lesson.id: lesson for lesson in english()}
OTHERS = [code for code in Catalogue().languages if code != "en"]
TRANSLATED = [
    pytest.param(code, read_lesson(path), id=f"{code}-{path.stem}")
    for code in OTHERS
    for path in sorted((LESSONS / code).glob("*.md"))
]
# Fields that hold words; all others are the same in every language.
SAID = ("ask", "hint", "explain")


def test_german_is_there() -> None:
    assert "de" in OTHERS
    first = [
        name for name, lesson in ENGLISH_LESSONS.items() if int(str(lesson.head["order"])) <= 4
    ]
    assert set(first) <= {lesson["id"] for lesson in Catalogue().lessons["de"]}


@pytest.mark.parametrize("code", OTHERS)
def test_words_are_translated(code: str) -> None:
    """The page shows what is missing in English; most of it must be there."""
    words = Catalogue().words(code)
    missing, strange = sorted(WORDS.keys() - words.keys()), sorted(words.keys() - WORDS.keys())
    assert not strange, f"{code} has words that English has not: {', '.join(strange)}"
    assert len(missing) < 0.1 * len(WORDS), f"{code} lacks {', '.join(missing)}"
    for key, text in words.items():
        places = [sorted(re.findall(r"\{\w+\}", said)) for said in (text, WORDS[key])]
        assert places[0] == places[1], key
        assert bool(text) == bool(WORDS[key]), key


@pytest.mark.parametrize("code", OTHERS)
def test_lessons_are_translated(code: str) -> None:
    """At least the first half of the course; the rest is shown in English."""
    there = {lesson["id"] for lesson in Catalogue().lessons[code]}
    missing = [name for name in ENGLISH_LESSONS if name not in there]
    assert there <= ENGLISH_LESSONS.keys()
    assert len(missing) <= len(ENGLISH_LESSONS) / 2, f"{code} lacks {', '.join(missing)}"


@pytest.mark.parametrize(("code", "lesson"), TRANSLATED)
def test_a_translated_lesson_asks_the_same(code: str, lesson: Lesson) -> None:
    original = ENGLISH_LESSONS[lesson.id]
    assert lesson.head | {"title": ""} == original.head | {"title": ""}
    assert lesson.head["title"] != original.head["title"]
    assert [block.id for block in lesson.blocks] == [block.id for block in original.blocks]
    for block, other in zip(lesson.blocks, original.blocks, strict=True):
        where = f"{code}, {lesson.id}, {block.id}"
        assert (block.kind, block.core) == (other.kind, other.core), where
        data = [
            [field for field in one.fields if field[0] not in (*SAID, "wrong", "choice")]
            for one in (block, other)
        ]
        assert data[0] == data[1], where
        # The same mistakes are recognised, and the same choice is right.
        assert [quantity for quantity, _ in block.wrong] == [q for q, _ in other.wrong], where
        assert [right for right, _, _ in block.choices] == [r for r, _, _ in other.choices], where
        for name in SAID:
            assert len(block.all(name)) == len(other.all(name)), f"{where}, {name}"
        assert block.one("ask") != other.one("ask") or block.kind == "graph", where
        if block.kind == "question" and block.one("answer"):
            assert block.answer == other.answer, where


@pytest.mark.parametrize(("code", "lesson"), TRANSLATED)
def test_a_translated_lesson_calculates_the_same(code: str, lesson: Lesson) -> None:
    assert wrong_calculations(lesson.text) == []
    if int(str(lesson.head["order"])) < 4:
        assert not re.findall(r"\w*grad\w*", lesson.text, re.IGNORECASE)
