"""`gradwalk diff`: where two computations that should be equal begin to differ."""

from __future__ import annotations

import json as json_text
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from gradwalk.cli.console import console, reported
from gradwalk.cli.sources import IN_A_FILE, function_in
from gradwalk.inspect.diff.diff import diff as differences
from gradwalk.inspect.diff.side_by_side import side_by_side
from gradwalk.inspect.trace.file import save_trace
from gradwalk.printers.graphs.plain_data import jsonable

DIFFERENT = 1  # the status, as of diff(1); an error is 2


def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="What is taken for right: a trace file (gradwalk.save_trace), or file.py:function,"
            " which [bold]runs that file[/bold] and records the function.",
            show_default=False,
        ),
    ],
    b: Annotated[
        str, typer.Argument(metavar="B", help="What should be equal to it.", show_default=False)
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Show every aligned operation and weight.")
    ] = False,
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="FILE.trace",
            help="Write both as one trace: `gradwalk studio FILE.trace` draws them side by side.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON, nothing else.")] = False,
) -> None:
    """Compare two computations that should be equal: the first operation that differs.

    The exit status is 0 if they are equal up to rounding, 1 if they differ, 2 for an error.

    [bold]Examples[/bold]

      gradwalk diff before.trace after.trace
      gradwalk diff reference.py:loss port.py:loss
    """
    with reported(), redirect_stdout(sys.stderr):
        answer = differences(_given(a), _given(b), names=(Path(a).name, Path(b).name))
        if save is not None:
            save_trace(side_by_side(answer), save)
    if json:
        data = jsonable(answer.to_dict())
        typer.echo(json_text.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        text = answer.in_full() if every else str(answer)
        console().print(text, markup=False, soft_wrap=True)
    if answer:
        raise typer.Exit(DIFFERENT)


def _given(text: str) -> Any:
    match = IN_A_FILE.fullmatch(text.strip())
    if match is None:
        if not Path(text).is_file():
            raise ValueError(f"there is no file {text}")
        return Path(text)
    return function_in(Path(match["path"]), match["function"] or "")
