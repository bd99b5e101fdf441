"""`gradwalk course quiz` and `gradwalk course results`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gradwalk.cli.console import fail, reported
from gradwalk.course.quiz.qti import as_qti
from gradwalk.course.quiz.quiz import FORMATS, Quiz, make_quiz
from gradwalk.course.quiz.results import ENDING, answer_sheet, as_csv, grade_folder
from gradwalk.course.quiz.roster import Learner, read_roster
from gradwalk.course.quiz.sheet import as_html, printed
from gradwalk.io.atomic import write_atomically

PACKED = "qti"  # a zip, not text
WRITTEN: dict[str, Callable[[Quiz, bool], str]] = {**FORMATS, "html": as_html}
_ENDINGS = {"text": ".txt", "gift": ".gift", "json": ".json", "html": ".html", PACKED: ".zip"}
_SEED = "Any text, such as a student's name; with --roster, the term."
_ROSTER = "A CSV file with a column `name`: one quiz for each."


def quiz(
    seed: Annotated[
        str, typer.Option(metavar="ID", help=_SEED, show_default="gradwalk, or no term")
    ] = "",
    count: Annotated[int | None, typer.Option(min=1, help="Number of questions; else 10.")] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(_ENDINGS),
            help="Moodle imports gift; other platforms qti (2.1). html is for printing.",
            show_default="text; with --roster html",
        ),
    ] = "",
    answers: Annotated[
        bool, typer.Option("--answers", help="Add the answers and explain wrong ones.")
    ] = False,
    roster: Annotated[
        Path | None, typer.Option(metavar="NAMES.CSV", help=_ROSTER, show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file; with --roster a folder.", show_default=False),
    ] = None,
) -> None:
    """Draw a quiz from the question bank: the same ID gives the same quiz on every machine.

    With --roster, each name has its own numbers. --format html writes
    sheets.html, key.html and a file for each learner's answers, which
    `gradwalk course results` grades; the other formats write a file for each.

    [bold]Examples[/bold]

      gradwalk course quiz --seed "Ada Lovelace"
      gradwalk course quiz --seed "Ada Lovelace" --answers
      gradwalk course quiz --seed autumn --count 40 --format gift > bank.gift
      gradwalk course quiz --seed autumn --format qti --out autumn.zip
      gradwalk course quiz --roster names.csv --seed autumn --out sheets
    """
    format = format or ("text" if roster is None else "html")
    if format not in _ENDINGS:
        raise fail(f"--format is one of {', '.join(_ENDINGS)}, not '{format}'")
    with reported():
        if roster is not None:
            if out is None:
                raise fail("--roster writes several files. Fix: name a folder with --out")
            _for_a_class(read_roster(roster), seed, count, format, answers, out)
            return
        made = make_quiz(seed or "gradwalk", count)
        if format == PACKED and out is None:
            raise fail("a QTI package is a zip file. Fix: name it with --out quiz.zip")
        content = _bytes(made, format, answers)
        if out is not None:
            write_atomically(out, [content])
    if out is None:
        typer.echo(content.decode(), nl=False)
    else:
        typer.echo(f"wrote {out}")


def _bytes(made: Quiz, format: str, answers: bool) -> bytes:
    return as_qti(made) if format == PACKED else WRITTEN[format](made, answers).encode()


def _for_a_class(
    learners: list[Learner], term: str, count: int | None, format: str, answers: bool, out: Path
) -> None:
    quizzes = [learner.quiz(term, count) for learner in learners]
    files: dict[str, bytes] = {}
    if format == "html":
        names = [learner.name for learner in learners]
        files["sheets.html"] = printed(quizzes, False, names).encode()
        files["key.html"] = printed(quizzes, True, names).encode()
        for learner, made in zip(learners, quizzes):
            files[f"answers/{learner.file}{ENDING}"] = answer_sheet(learner, made).encode()
    else:
        for learner, made in zip(learners, quizzes):
            files[learner.file + _ENDINGS[format]] = _bytes(made, format, answers)
    filled = [name for name in files if name.startswith("answers/") and (out / name).exists()]
    if filled:
        fix = "Fix: name another folder with --out"
        raise ValueError(f"{out / filled[0]} exists already, and may be filled in. {fix}")
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out / name, [content])
    class_ = "1 learner" if len(learners) == 1 else f"{len(learners)} learners"
    typer.echo(f"wrote {len(files)} files for {class_} to {out}")


def results(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The answers, as they came.")],
    roster: Annotated[Path, typer.Option(metavar="NAMES.CSV", help="The class list of the quiz.")],
    seed: Annotated[str, typer.Option(metavar="ID", help="The quiz's --seed.")] = "",
    count: Annotated[int | None, typer.Option(min=1, help="The quiz's --count.")] = None,
) -> None:
    """Grade the answers of a class and print them as CSV; a summary goes to standard error.

    FOLDER has a text file for each learner, named as `gradwalk course quiz
    --roster` named it, with lines such as `3 = -1.5`. The quizzes are drawn
    again from the class list, so nothing in the answers' files can change
    what is asked.

    [bold]Example[/bold]

      gradwalk course results sheets/answers --roster names.csv --seed autumn > results.csv
    """
    with reported():
        learners = read_roster(roster)
        quizzes = {learner.name: learner.quiz(seed, count) for learner in learners}
        found, others = grade_folder(folder, learners, seed, count)
    typer.echo(as_csv(found, quizzes), nl=False)
    handed_in = [[a for a in result.answers if a.given] for result in found]
    given = [answer for answers in handed_in for answer in answers]
    typer.echo(f"{sum(map(bool, handed_in))} of {len(found)} learners gave answers.", err=True)
    if given:
        right = sum(answer.right for answer in given) / len(given)
        typer.echo(f"{right:.0%} of the answers are right.", err=True)
    seen = Counter(answer.misconception for answer in given if answer.misconception)
    for name, times in seen.most_common(5):
        typer.echo(f"  {times} × {name}", err=True)
    for name in others[:20]:
        typer.echo(f"{name} belongs to nobody on the list.", err=True)
