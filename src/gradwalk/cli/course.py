"""`gradwalk course`: the exercise file, the checker of engines, and quizzes."""

from __future__ import annotations

import csv
import io
import json as json_text
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from gradwalk.cli.console import console, fail, reported
from gradwalk.course.checker.grading import CheckedFile, check_files, starter
from gradwalk.course.checker.process import ProcessLimits, supported
from gradwalk.course.checker.trials import OUT_OF, STAGES
from gradwalk.course.classroom.gradescope import gradescope
from gradwalk.io.atomic import write_atomically

_CHECK = (
    "Run each file's class Value on graphs, grade it, and explain what is wrong.\n\n"
    "The exit status is 0 if every file has all points, else 1. Several files are checked in "
    "parallel on all cores; a failure in one does not stop the others.\n\n"
    "Each file runs in its own process, with limits on time and memory. It returns only numbers, "
    "and a file that imports another engine, ends early, touches other files or tampers with the "
    "checker scores 0. On Linux the kernel prevents it; where it cannot, the report says what is "
    "not enforced, and files from strangers belong in a container.\n\n"
    "[bold]Examples[/bold]\n\n"
    "  gradwalk course check engine.py\n"
    "  gradwalk course check submissions/*.py --csv > points.csv"
)

course = typer.Typer(
    help="Write your own engine and have it checked; make quizzes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@course.command()
def start(
    file: Annotated[
        Path, typer.Argument(help="Where to write it; an existing file is not overwritten.")
    ] = Path("engine.py"),
) -> None:
    """Write a starter file: a class Value with empty methods and a description of the task."""
    if os.path.lexists(file):
        raise fail(f"{file} exists already. Fix: choose another name.")
    with reported():
        write_atomically(file, [starter().encode()])
    typer.echo(f"wrote {file}; edit it, then run: gradwalk course check {file}")


@course.command(help=_CHECK)
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Files with a class Value.")
    ],
    seed: Annotated[int, typer.Option(help="The seed of the random graphs.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line per file.")] = False,
    as_gradescope: Annotated[
        bool, typer.Option("--gradescope", help="Gradescope's results.json, for one file.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="With several files, explain each one's mistakes.")
    ] = False,
    seconds: Annotated[
        int, typer.Option(min=1, help="The CPU time limit per graph.")
    ] = ProcessLimits.seconds,
    megabytes: Annotated[
        int, typer.Option(min=64, help="The memory limit per file.")
    ] = ProcessLimits.megabytes,
) -> None:
    """Run each file's class Value on graphs, grade it, and explain what is wrong."""
    missing = supported()
    if missing:
        raise fail(missing)
    if json + as_csv + as_gradescope > 1:
        raise fail("--json, --csv and --gradescope cannot be used together")
    if as_gradescope and len(files) > 1:
        raise fail("--gradescope is for one file: Gradescope checks each submission by itself")
    checked = _with_progress(files, seed, ProcessLimits(seconds, megabytes))
    if json:
        report = {"schema": "gradwalk.check/1", "seed": seed, "out_of": OUT_OF}
        listed = [one.to_dict() for one in checked]
        typer.echo(json_text.dumps({**report, "files": listed}, indent=2, ensure_ascii=False))
    elif as_csv:
        typer.echo(_as_csv(checked), nl=False)
    elif as_gradescope:
        typer.echo(json_text.dumps(gradescope(checked[0]), indent=2, ensure_ascii=False))
    elif len(checked) == 1:
        _print_one(checked[0])
    else:
        _print_class(checked, details)
    for words in dict.fromkeys(words for one in checked for words in one.not_enforced):
        typer.echo(f"Not enforced on this system: {words}.", err=True)
    if not all(one.passed for one in checked):
        raise typer.Exit(1)


def _with_progress(files: Sequence[Path], seed: int, limits: ProcessLimits) -> list[CheckedFile]:
    """Check files, with a progress bar for several on a terminal."""
    screen = console(stderr=True)
    if len(files) < 2 or not screen.is_terminal:
        return check_files(files, seed, limits)
    with Progress(console=screen, transient=True) as progress:
        bar = progress.add_task("checking", total=len(files))
        return check_files(files, seed, limits, on_done=lambda _: progress.advance(bar))


def _print_one(checked: CheckedFile) -> None:
    screen = console()
    screen.print(
        f"{checked.file}: {checked.points} of {checked.out_of} points", style="bold", markup=False
    )
    if checked.reason:
        screen.print(checked.reason, markup=False)
    if checked.stages:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column()
        table.add_column(justify="right")
        table.add_column(style="dim")
        for stage in checked.stages:
            wrong = stage.tried - stage.right
            note = f"{wrong} of {stage.tried} wrong" if wrong else ""
            table.add_row(stage.title, f"{stage.points} of {stage.out_of}", note)
        screen.print(table)
    _print_mistakes(checked)


def _print_mistakes(checked: CheckedFile) -> None:
    screen = console()
    for mistake in checked.mistakes:
        screen.print()
        screen.print(f"It {mistake.title}.", style="bold", markup=False)
        screen.print(mistake.text, markup=False)


def _print_class(checked: Sequence[CheckedFile], details: bool) -> None:
    screen = console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("points", justify="right")
    table.add_column("what is wrong", overflow="fold")
    for name, one in zip(_short_names(checked), checked):
        said = one.reason or "; ".join(mistake.title for mistake in one.mistakes)
        table.add_row(escape(name), str(one.points), escape(said))
    screen.print(table)
    passed = sum(one.passed for one in checked)
    mean = sum(one.points for one in checked) / len(checked)
    screen.print(f"{passed} of {len(checked)} have all {OUT_OF} points; {mean:.1f} on average.")
    often = Counter(
        title for one in checked for title in dict.fromkeys(m.title for m in one.mistakes)
    )
    for title, count in often.most_common(5):
        if count > 1:
            screen.print(f"  {count} × {title}", markup=False)
    if details:
        for one in checked:
            if one.mistakes:
                screen.print(f"\n{one.file}", style="bold underline", markup=False)
                _print_mistakes(one)


def _short_names(checked: Sequence[CheckedFile]) -> list[str]:
    """The names without the common folder."""
    folders = {str(Path(one.file).parent) for one in checked}
    return [Path(one.file).name if len(folders) == 1 else one.file for one in checked]


def _as_csv(checked: Sequence[CheckedFile]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["file", "points", "out_of", *(s.key for s in STAGES), "mistakes", "reason"])
    for one in checked:
        # A spreadsheet reads text that begins with = + - @ as a formula.
        file = f"./{one.file}" if one.file[:1] in "=+-@" else one.file
        points = {stage.key: stage.points for stage in one.stages}
        stages = [points.get(stage.key, 0) for stage in STAGES]
        mistakes = " ".join(mistake.key for mistake in one.mistakes)
        rows.writerow([file, one.points, one.out_of, *stages, mistakes, one.reason])
    return text.getvalue()
