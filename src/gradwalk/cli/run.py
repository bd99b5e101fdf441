"""`gradwalk run`: run an unmodified program; --watch stops it at a NaN."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gradwalk.cli.console import fail, panel
from gradwalk.graph.source import own_files
from gradwalk.inspect.trace.routes import wrapped

_watching = panel("Options for --watch")
FOUND = 3  # the status if something was found

Script = Annotated[
    str, typer.Argument(metavar="PROGRAM.py", help="The program to run.", show_default=False)
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="Arguments of the program: everything after it.", show_default=False),
]


def run(
    script: Script,
    arguments: Arguments = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Watch its PyTorch training: stop before the first step on NaN, inf or an "
            "explosion, and report its cause.",
        ),
    ] = False,
    out: Annotated[
        str | None,
        _watching(
            "The folder for the trace and the report. Default: a new folder gradwalk-report.",
            "FOLDER",
        ),
    ] = None,
    explosion: Annotated[
        float | None,
        _watching(
            "A gradient this many times its usual norm is an explosion. "
            "Default: 1000. inf: stop at NaN and inf only.",
            "FACTOR",
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        _watching(
            "The number of first steps, to which the square of that factor applies. Default: 10.",
            "STEPS",
        ),
    ] = None,
    record_from: Annotated[
        int | None,
        _watching(
            "Record every step from this one on as it runs: slower, for a fault that a rerun "
            "of its step does not reproduce.",
            "STEP",
        ),
    ] = None,
) -> None:
    """Run a program as `python PROGRAM.py ...` does, and with --watch monitor its training.

    Options of gradwalk come before the program; arguments after it belong to the program.

    The exit status is the program's own, or 3 if --watch found something. The trace, report.txt
    and report.json are then in the printed folder.

    [bold]Examples[/bold]

      gradwalk run --watch train.py --lr 3e-4

      gradwalk run --watch --explosion 100 train.py

      gradwalk run --watch --record-from 4999 train.py
    """
    path = Path(script)
    if not path.is_file():
        raise fail(f"there is no file {script}")
    for_watch = {
        "--out": out,
        "--explosion": explosion,
        "--warmup": warmup,
        "--record-from": record_from,
    }
    if not watch:
        useless = [name for name, given in for_watch.items() if given is not None]
        if useless:
            raise fail(f"{useless[0]} is an option for --watch. Fix: add --watch")
        raise typer.Exit(_run(path, arguments or []))
    if explosion is not None and not explosion > 1:
        raise fail(f"--explosion is a factor above 1, not {explosion:g}")
    limits = {"explosion": explosion, "warmup": warmup}
    limits = {name: given for name, given in limits.items() if given is not None}
    raise typer.Exit(_run_watched(path, arguments or [], out, limits, record_from))


def _run_watched(
    path: Path,
    arguments: list[str],
    out: str | None,
    limits: dict[str, Any],
    record_from: int | None,
) -> int:
    if importlib.util.find_spec("torch") is None:
        raise fail("--watch is for programs that use PyTorch. Fix: pip install 'gradwalk[torch]'")
    from gradwalk.torch.watch.loop_notes import loop_faults
    from gradwalk.torch.watch.step_report import StepStopped, free_path
    from gradwalk.torch.watch.watch import Watch

    # Absolute, because the program may change its directory.
    folder = free_path(Path("gradwalk-report").resolve()) if out is None else Path(out).resolve()
    watched = Watch(None, None, folder=folder, record_from=record_from, **limits)
    status = _run(path, arguments, StepStopped, partial(_out_of_memory, watched, folder))
    watched.remove()
    if not watched.reports:
        with suppress(StepStopped):
            watched.check_parameters()
    if not watched.reports:
        faults = loop_faults(watched)
        for fault in faults:
            typer.echo("\n".join(wrapped(f"gradwalk: {fault}.", "", "  ")), err=True)
        return FOUND if faults else status
    report = watched.reports[0]
    if report.summary is not None:  # every rank has written its own report
        report._stopped_rank.tell(report, partial(typer.echo, err=True))
        return FOUND
    report.save_text(folder)
    typer.echo(f"gradwalk: {report}\nreport:    {folder}", err=True)
    return FOUND


def _out_of_memory(watched: Any, folder: Path, error: Exception) -> int:
    """Explain an out-of-memory error; return the status that an error of the program gives."""
    from gradwalk.torch.memory.out_of_memory import out_of_memory

    report = out_of_memory(error, watched._reached)
    if report is None:
        return 1
    report.save_text(folder)
    typer.echo(f"gradwalk: {report}\nreport:    {folder}", err=True)
    return FOUND


def _run(
    path: Path,
    arguments: list[str],
    stopped: type[Exception] | tuple[()] = (),
    explain: Callable[[Exception], int] = lambda error: 1,
) -> int:
    """Run a program as Python does; return its status. `stopped` exceptions are reported later;
    `explain` is asked about others."""
    try:
        with as_program(path, arguments):
            runpy.run_path(str(path), run_name="__main__")
    except stopped:
        return FOUND
    except SystemExit as left:
        return status_of(left)
    except Exception as error:
        print_traceback(error)
        return explain(error)
    return 0


@contextmanager
def as_program(path: Path, arguments: list[str]) -> Iterator[None]:
    """Set sys.argv, and put the program's folder first in sys.path."""
    argv, first = sys.argv, sys.path[:1]
    sys.argv = [str(path), *arguments]
    sys.path[:1] = [str(path.resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:1] = argv, first


def status_of(left: SystemExit) -> int:
    """The exit status of a SystemExit, as in Python."""
    if left.code is None:
        return 0
    if isinstance(left.code, int):
        return left.code
    typer.echo(str(left.code), err=True)
    return 1


def print_traceback(error: Exception) -> None:
    """Print a traceback without the frames that started the program."""
    trace: Any = error.__traceback__
    while trace is not None and (
        own_files[trace.tb_frame.f_code.co_filename]
        or trace.tb_frame.f_code.co_filename in ("<frozen runpy>", runpy.__file__)
    ):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
