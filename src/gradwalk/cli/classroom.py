"""`gradwalk course similar`, `autograder` and `verify`: for a class."""

from __future__ import annotations

import csv
import io
import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradwalk.cli.console import console, fail, reported
from gradwalk.course.checker.grading import starter as starter_file
from gradwalk.course.classroom.autograders import SERVICES
from gradwalk.course.classroom.completion import Completion, verify
from gradwalk.course.classroom.similarity import LEAST, similarity
from gradwalk.course.quiz.results import guarded
from gradwalk.course.quiz.roster import read_roster
from gradwalk.io.atomic import write_atomically

LARGEST = 2**20  # bytes of a file that is compared


def similar(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Python files, or a folder of them.")
    ],
    starter: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What everybody began with; else the course's own starter.",
            show_default=False,
        ),
    ] = None,
    least: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share from which a pair is listed.")
    ] = LEAST,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """List the pairs of files that have most of their code in common.

    Names, comments, layout and annotations do not count. The starter is left
    out, and what more than half of a class of five or more has. The files are
    read, not run. A pair is a reason to read both files: people who follow
    one lecture write alike, and what two have in common does not say who
    wrote it first.

    [bold]Examples[/bold]

      gradwalk course similar submissions
      gradwalk course similar submissions/*.py --starter lecture.py --least 0.8
    """
    with reported():
        paths = [p for f in files for p in (sorted(f.rglob("*.py")) if f.is_dir() else [f])]
        missing = [path for path in files if not path.exists()]
        if missing:
            raise ValueError(f"there is no {missing[0]}")
        if len(paths) < 2:
            raise ValueError("a comparison needs two files. Fix: name a folder, or several files")
        begun = starter_file() if starter is None else _text(starter)
        report = similarity([(str(path), _text(path)) for path in paths], begun, least)
    if json:
        listed = {"schema": "gradwalk.similarity/1", **report.to_dict()}
        typer.echo(json_text.dumps(listed, indent=2, ensure_ascii=False))
        return
    console().print(str(report), markup=False)
    if report.pairs:
        typer.echo("Read both files before you conclude anything.")


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > LARGEST:
        raise ValueError(f"{path} is larger than {LARGEST // 2**20} MB")
    return content.decode("utf-8-sig", errors="replace")


def autograder(
    service: Annotated[str, typer.Argument(metavar="|".join(SERVICES), help="The service.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the files.")],
) -> None:
    """Write what a grading service needs to run `gradwalk course check`.

    gradescope: setup.sh and run_autograder, to be zipped. github: a workflow,
    and the test of GitHub Classroom. otter and nbgrader: a notebook with the
    starter, and a test for each part.

    [bold]Example[/bold]

      gradwalk course autograder gradescope autograder
    """
    if service not in SERVICES:
        raise fail(f"a service is one of {', '.join(SERVICES)}, not '{service}'")
    with reported():
        files = SERVICES[service]()
        there = next((name for name in files if (folder / name).exists()), None)
        if there is not None:
            raise ValueError(f"{folder / there} exists already. Fix: name another folder")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, [text.encode()])
            if text.startswith("#!"):
                path.chmod(0o755)
    for name in files:
        typer.echo(f"wrote {folder / name}")


def verify_codes(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The lines that learners sent; - reads them.")
    ],
    key: Annotated[str, typer.Option(metavar="KEY", help="The site's --class-key.")],
    roster: Annotated[
        Path | None,
        typer.Option(metavar="NAMES.CSV", help="Who is missing?", show_default=False),
    ] = None,
) -> None:
    """Check lines of completion and print them as CSV; the exit status is 1 if one is not right.

    A right code shows that the line is as the page made it with this key. It
    does not show who sat at the page: the key is in the site, for everybody
    who looks for it.

    [bold]Examples[/bold]

      gradwalk site public --class-key "autumn 2026, group 3"
      gradwalk course verify lines.txt --key "autumn 2026, group 3"
    """
    with reported():
        text = sys.stdin.read() if str(file) == "-" else _text(file)
        found = verify(text, key)
        names = [] if roster is None else [learner.name for learner in read_roster(roster)]
    typer.echo(_as_csv(found), nl=False)
    if not found:
        typer.echo(f"{file} has no lines of completion in it.", err=True)
    sent = {" ".join(one.name.split()).casefold() for one in found if not one.fault}
    for name in names:
        if name.casefold() not in sent:
            typer.echo(f"{name} sent no line that is right.", err=True)
    if any(one.fault for one in found):
        raise typer.Exit(1)


def _as_csv(found: list[Completion]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["name", "right", "lessons_completed", "lessons_begun", "tasks", "date", "note"])
    for one in found:
        tasks = sum(done for done, _ in one.lessons.values())
        counts = [len(one.completed), len(one.lessons), tasks]
        name = guarded(one.name or one.line)
        rows.writerow([name, int(not one.fault), *counts, guarded(one.date), one.fault])
    return text.getvalue()
