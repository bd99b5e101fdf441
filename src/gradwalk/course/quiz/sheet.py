"""Quizzes on paper: a page for each learner, and the key, as one HTML file to print."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from gradwalk.course.quiz.bank import Drawn
from gradwalk.course.quiz.quiz import LETTERS, Quiz, shown_answer

_STYLE = Path(__file__).with_name("sheet.css")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def as_html(quiz: Quiz, answers: bool) -> str:
    """One quiz as a page to print."""
    return printed([quiz], answers)


def printed(quizzes: Sequence[Quiz], answers: bool, names: Sequence[str] = ()) -> str:
    """Sheets to print, each on a page of its own; `names` stand above them."""
    names = names or [quiz.seed for quiz in quizzes]
    sheets = [_sheet(quiz, name, answers) for quiz, name in zip(quizzes, names, strict=True)]
    what = "Key" if answers else "Quiz"
    title = f"{what} for {names[0]}" if len(names) == 1 else f"{what}: {len(names)} learners"
    style = _STYLE.read_text(encoding="utf-8")
    return _PAGE.format(title=html.escape(title), style=style, body="\n".join(sheets))


def _sheet(quiz: Quiz, name: str, answers: bool) -> str:
    questions = "\n".join(_question(question, answers) for question in quiz.questions)
    what = "Key" if answers else f"{len(quiz.questions)} questions"
    said = "" if answers else "A decimal point or comma and fractions such as 3/2 are fine."
    return (
        f'<section class="sheet">\n<header><h1>{html.escape(name)}</h1><p>{what}</p></header>\n'
        f'<ol class="questions">\n{questions}\n</ol>\n<footer>{said}</footer>\n</section>'
    )


def _question(question: Drawn, answers: bool) -> str:
    parts = [f'<p class="text">{_text(question.text)}</p>']
    if question.options:
        parts.append('<ul class="options">')
        for letter, text in zip(LETTERS, question.options):
            right = " right" if answers and text == question.answer else ""
            box = f'<span class="box{right}"></span>'
            parts.append(f"<li>{box}<span>{letter}) {_text(text)}</span></li>")
        parts.append("</ul>")
    elif not answers:
        parts.append('<span class="blank"></span>')
    if answers:
        if not question.options:
            parts.append(f'<p class="answer">{_text(shown_answer(question))}</p>')
        parts.append('<ul class="wrong">')
        for wrong in question.wrong:
            given = shown_answer(question, wrong.gives)
            parts.append(f"<li>✗ {_text(given)}: {html.escape(wrong.says)}</li>")
        parts.append("</ul>")
    return f"<li>{''.join(parts)}</li>"


def _text(text: str) -> str:
    """With equations kept on one line."""
    return html.escape(text.replace(" = ", "\xa0=\xa0"))
