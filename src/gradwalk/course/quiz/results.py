"""Grade a folder of answers: a text file for each learner of a class list."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradwalk.course.quiz.bank import Drawn
from gradwalk.course.quiz.quantities import read_number
from gradwalk.course.quiz.quiz import LETTERS, Quiz
from gradwalk.course.quiz.roster import Learner

LARGEST = 64 << 10  # bytes of a file of answers
ENDING = ".txt"
_LINE = re.compile(r"\s*(\d{1,3})\s*[.:=)]\s*(.*?)\s*")
_SHEET = re.compile(r"^# Sheet (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Graded:
    """One answer: right, wrong with a misconception, wrong, or none."""

    right: bool
    given: str = ""
    misconception: str = ""


@dataclass
class QuizResult:
    """The answers of one learner."""

    name: str
    answers: list[Graded] = field(default_factory=list)
    note: str = ""  # why there are none, or what could not be read

    @property
    def points(self) -> int:
        """The number of right answers."""
        return sum(answer.right for answer in self.answers)


def answer_sheet(learner: Learner, quiz: Quiz) -> str:
    """The file that a learner fills in."""
    lines = [
        f"# Answers of {learner.name}",
        f"# Sheet {_sheet(quiz)}",
        "# Write each answer after its =: a number such as -1.5 or 3/2, or an option's letter.",
        *(f"{place} = " for place in range(1, len(quiz.questions) + 1)),
    ]
    return "\n".join(lines) + "\n"


def _sheet(quiz: Quiz) -> str:
    """A few letters of its questions: answers are graded by the quiz that they were given to."""
    asked = "\n".join(question.text for question in quiz.questions)
    return hashlib.blake2b(asked.encode(), digest_size=3).hexdigest()


def grade_folder(
    folder: Path, learners: Sequence[Learner], term: str = "", count: int | None = None
) -> tuple[list[QuizResult], list[str]]:
    """The result of every learner, and the files that belong to none."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    results = []
    for learner in learners:
        quiz = learner.quiz(term, count)
        path = folder / f"{learner.file}{ENDING}"
        try:
            text = path.read_bytes()[:LARGEST].decode("utf-8-sig", errors="replace")
        except FileNotFoundError:
            results.append(QuizResult(learner.name, note="no file"))
        except OSError as error:
            results.append(QuizResult(learner.name, note=f"cannot be read: {error.strerror}"))
        else:
            results.append(grade(learner.name, text, quiz))
    wanted = {f"{learner.file}{ENDING}" for learner in learners}
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return results, [name for name in others if name not in wanted]


def grade(name: str, text: str, quiz: Quiz) -> QuizResult:
    """Grade the text of one file."""
    sheet = _SHEET.search(text)
    if sheet and sheet[1] != _sheet(quiz):
        return QuizResult(name, note="a sheet of another quiz: check --seed and --count")
    given, unread = _read(text, len(quiz.questions))
    asked = list(enumerate(quiz.questions, 1))
    unread += [f"{i} = {given[i]}" for i, q in asked if given.get(i) and meant(q, given[i]) is None]
    answers = [_graded(q, given.get(i, "")) for i, q in asked]
    return QuizResult(name, answers, f"not read: {unread[0][:60]!r}" if unread else "")


def _read(text: str, count: int) -> tuple[dict[int, str], list[str]]:
    """The answers by number, the last one counts; and the lines that are none."""
    given: dict[int, str] = {}
    unread = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match and 1 <= int(match[1]) <= count:
            given[int(match[1])] = match[2]
        elif line.strip() and not line.lstrip().startswith("#"):
            unread.append(line.strip())
    return given, unread


def _graded(question: Drawn, given: str) -> Graded:
    answer = meant(question, given)
    if answer is None:
        return Graded(False, given)
    if isinstance(question.answer, str):
        right = answer == question.answer
    else:
        right = isinstance(answer, float) and abs(answer - question.answer) <= question.tolerance
    wrong = None if right else question.names(answer)
    return Graded(right, given, wrong.name if wrong else "")


def meant(question: Drawn, given: str) -> float | str | None:
    """What a typed answer stands for: a number, or the text of an option; None if for nothing."""
    if not question.options:
        return read_number(given)
    letter = given.strip().strip("().").lower()
    if len(letter) == 1 and letter in LETTERS[: len(question.options)]:
        return question.options[LETTERS.index(letter)]
    plain = "".join(given.split()).lower()
    same = [text for text in question.options if "".join(text.split()).lower() == plain]
    return same[0] if same else None


def as_csv(results: Sequence[QuizResult], quizzes: Mapping[str, Quiz]) -> str:
    """A line per learner: the points, 1 or 0 for each question, and the misconceptions seen."""
    count = max((len(quiz.questions) for quiz in quizzes.values()), default=0)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    questions = [f"q{i}" for i in range(1, count + 1)]
    rows.writerow(["name", "points", "out_of", *questions, "misconceptions", "note"])
    for result in results:
        marks = ["" if not a.given else int(a.right) for a in result.answers] or [""] * count
        seen = dict.fromkeys(a.misconception for a in result.answers if a.misconception)
        out_of = len(quizzes[result.name].questions)
        cells = [guarded(result.name), result.points, out_of, *marks, " ".join(seen)]
        rows.writerow([*cells, guarded(result.note)])
    return text.getvalue()


def guarded(text: str) -> str:
    """Text for a spreadsheet, which reads what begins with = + - @ as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
