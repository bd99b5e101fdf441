"""Quizzes: questions of the bank with drawn numbers, as text, for Moodle, or as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gradwalk.course.quiz.bank import KINDS, Drawn, Question, bank, draw_question
from gradwalk.course.quiz.draw import ChoiceStream
from gradwalk.printers.scalars import number

COUNT = 10
WIDTH = 80
LETTERS = "abcdefgh"  # of the options
_RESERVED = re.compile(r"[\\~=#{}:]")  # characters with a meaning in GIFT


@dataclass(frozen=True)
class Quiz:
    """Questions with their numbers."""

    seed: str
    questions: tuple[Drawn, ...]


def make_quiz(seed: str, count: int | None = None) -> Quiz:
    """Make the quiz of a seed, such as a student's name: the same on every machine.

    The questions are of as many kinds as possible; the same seed and a larger count give the same
    questions and more.

    >>> quiz = make_quiz("Ada", 3)
    >>> len({question.kind for question in quiz.questions}), quiz == make_quiz("Ada", 3)
    (3, True)
    """
    count = COUNT if count is None else count
    if count > len(bank()):
        raise ValueError(f"the bank has {len(bank())} questions, not {count}")
    draw = ChoiceStream(f"quiz for {seed}")
    kinds = draw.shuffled(KINDS)
    left = {kind: draw.shuffled([q for q in bank() if q.kind == kind]) for kind in kinds}
    chosen: list[Question] = []
    while len(chosen) < count:
        chosen += [left[kind].pop() for kind in kinds if left[kind]]
    return Quiz(seed, tuple(draw_question(question, seed) for question in chosen[:count]))


# -- text ------------------------------------------------------------------------------------------


def as_text(quiz: Quiz, answers: bool) -> str:
    """The quiz as text, at most 80 columns wide."""
    lines = [f"Quiz for {quiz.seed}: {len(quiz.questions)} questions"]
    for place, question in enumerate(quiz.questions, 1):
        lines += ["", *_wrapped(question.text, f"{place}. ")]
        indent = " " * len(f"{place}. ")
        lines += [f"{indent}{letter}) {text}" for letter, text in zip(LETTERS, question.options)]
        if answers:
            lines += _wrapped(f"Answer: {shown_answer(question)}", indent)
            for wrong in question.wrong:
                lines += _wrapped(
                    f"{shown_answer(question, wrong.gives)}: {wrong.says}", f"{indent}✗ "
                )
        elif not question.options:
            lines.append(f"{indent}______")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, begin: str) -> list[str]:
    kept_together = text.replace(" = ", "\xa0=\xa0")
    after = " " * len(begin)
    lines = textwrap.wrap(
        kept_together, WIDTH, initial_indent=begin, subsequent_indent=after, break_on_hyphens=False
    )
    return [line.replace("\xa0", " ") for line in lines]


def shown_answer(question: Drawn, answer: float | str | None = None) -> str:
    """The right answer of a question, or another one, as people write it."""
    answer = question.answer if answer is None else answer
    return answer if isinstance(answer, str) else number(answer)


# -- GIFT, which Moodle imports --------------------------------------------------------------------


def as_gift(quiz: Quiz, answers: bool = True) -> str:
    """The quiz in Moodle's import format, which always has the answers."""
    parts = [f"// Quiz for {' '.join(quiz.seed.split())}", "$CATEGORY: gradwalk"]
    parts += [_gift_question(question) for question in quiz.questions]
    return "\n\n".join(parts) + "\n"


def _gift_question(question: Drawn) -> str:
    head = f"::{escaped(f'{question.kind}, {question.id}')}::[plain]{escaped(question.text)} "
    if question.options:
        options = [_gift_option(question, text) for text in question.options]
        return "\n".join([head + "{", *options, "}"])
    lines = [head + "{#", f"\t=%100%{plain_number(question.answer)}:{question.tolerance}#Right."]
    for wrong in question.wrong:
        said = escaped(wrong.says)
        lines.append(f"\t=%0%{plain_number(wrong.gives)}:{question.tolerance}#{said}")
    return "\n".join([*lines, "\t~#Walk it once more, one edge at a time.", "}"])


def _gift_option(question: Drawn, text: str) -> str:
    if text == question.answer:
        return f"\t={escaped(text)}#Right."
    wrong = question.names(text)
    return f"\t~{escaped(text)}#{escaped(wrong.says if wrong else '')}"


def plain_number(x: float | str) -> str:
    """A number as every platform reads it."""
    return f"{float(x):.6f}".rstrip("0").rstrip(".")


def escaped(text: str) -> str:
    r"""Escape what has a meaning in GIFT.

    >>> print(escaped("f = a: {1}"))
    f \= a\: \{1\}
    """
    one_line = " ".join(text.split())
    return _RESERVED.sub(lambda match: "\\" + match[0], one_line)


# -- JSON ------------------------------------------------------------------------------------------


def as_json(quiz: Quiz, answers: bool) -> str:
    """The quiz as JSON."""
    listed = [_plain_data(question, answers) for question in quiz.questions]
    data = {"schema": "gradwalk.quiz/1", "seed": quiz.seed, "questions": listed}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _plain_data(question: Drawn, answers: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"id": question.id, "kind": question.kind, "text": question.text}
    if question.options:
        data["options"] = list(question.options)
    if answers:
        data["answer"] = question.answer
        if not question.options:
            data["tolerance"] = question.tolerance
        data["misconceptions"] = [asdict(wrong) for wrong in question.wrong]
    return data


FORMATS: dict[str, Callable[[Quiz, bool], str]] = {
    "text": as_text,
    "gift": as_gift,
    "json": as_json,
}
