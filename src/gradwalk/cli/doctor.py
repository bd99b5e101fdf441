"""`gradwalk doctor`: run a training program, and say what is most likely wrong with it."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
import time
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from gradwalk.cli.console import fail
from gradwalk.cli.run import FOUND, Arguments, Script, as_program, print_traceback, status_of
from gradwalk.inspect.report import json_safe, short

EVERY = 5.0  # seconds between two lines of progress


def doctor(
    script: Script,
    arguments: Arguments = None,
    steps: Annotated[
        int, typer.Option(help="Stop the program after this many steps. 0: let it finish.")
    ] = 1000,
    seconds: Annotated[
        float, typer.Option(help="Stop the program after this time. 0: let it finish.")
    ] = 300.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")
    ] = False,
) -> None:
    """Run a training program, observed, and name what is most likely wrong with it.

    For programs that use PyTorch or gradwalk, as they are. It observes every step, records some,
    and runs the other tools on them. It ends with at most three findings, most likely first, and
    with what was ruled out. Errors of the program are explained, too.

    Options of gradwalk come before the program; arguments after it belong to the program.

    The exit status is 3 if something was found, 0 if nothing was, or the program's own.

    [bold]Examples[/bold]

      gradwalk doctor train.py --lr 3e-4

      gradwalk doctor --steps 200 --json train.py
    """
    path = Path(script)
    if not path.is_file():
        raise fail(f"there is no file {script}")
    if steps < 0 or seconds < 0:
        raise fail("--steps and --seconds are not below 0")
    raise typer.Exit(_examine(path, arguments or [], steps or float("inf"), seconds, as_json))


def _examine(path: Path, arguments: list[str], steps: float, seconds: float, as_json: bool) -> int:
    from gradwalk.inspect.doctor.doctor import examined

    left: list[int] = []

    def program() -> None:
        try:
            with as_program(path, arguments):
                runpy.run_path(str(path), run_name="__main__")
        except SystemExit as leaving:
            left.append(status_of(leaving))
        except Exception as error:
            if type(error).__name__ != "StepStopped":
                print_traceback(error)
            raise

    engines = [False, True] if _uses_torch(path) else [False]
    with ExitStack() as stack:
        if as_json:  # what the program prints is not part of the answer
            stack.enter_context(redirect_stdout(sys.stderr))
        found = examined(
            program,
            engines,
            told=_Progress(),
            most_steps=steps,
            most_seconds=seconds or float("inf"),
        )
    if as_json:
        typer.echo(json.dumps(json_safe(found.to_dict()), indent=2, allow_nan=False))
    else:
        typer.echo(str(found))
    return FOUND if found else (left or [0])[0]


def _uses_torch(path: Path) -> bool:
    """Whether a program may use PyTorch: it, or a file beside it, names it."""
    if importlib.util.find_spec("torch") is None:
        return False
    beside = [path, *path.resolve().parent.glob("*.py"), *path.resolve().parent.glob("*/*.py")]
    return any("torch" in file.read_text(encoding="utf-8", errors="ignore") for file in beside)


class _Progress:
    """Say from time to time how far the program is."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, step: Any) -> None:
        if time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        loss = f", loss {short(step.losses[-1])}" if step.losses else ""
        typer.echo(f"gradwalk: step {step.number}{loss}", err=True)
