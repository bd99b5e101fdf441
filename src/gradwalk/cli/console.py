"""Console output: colours on a terminal only, 80 columns elsewhere."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from gradwalk.io.atomic import write_atomically

PLAIN_SIGNS = "gradwalk.plain_signs"  # the handler of signs that a terminal cannot show
_PLAIN = {
    "−": "-", "×": "*", "·": "*", "⋅": "*", "σ": "sigmoid", "∂": "d", "Σ": "sum", "‖": "|",
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "≤": "<=", "≥": ">=", "≠": "!=", "…": "...",
    "—": "-", "²": "^2", "³": "^3",
}  # fmt: skip


def _plain_signs(error: UnicodeError) -> tuple[str, int]:
    """An error handler for codecs: the nearest ASCII text, so that −3 is not read as 3 or ?3."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    plain = "".join(_PLAIN.get(s) or unicodedata.normalize("NFKD", s) for s in signs)
    return "".join(s if s.isascii() else "?" for s in plain), error.end


codecs.register_error(PLAIN_SIGNS, _plain_signs)


def console(stderr: bool = False) -> Console:
    """A console of the terminal's width, or of 80 columns in a file or a pipe."""
    is_terminal = Console(stderr=stderr).is_terminal
    return Console(width=None if is_terminal else 80, stderr=stderr, highlight=False)


def fail(message: str) -> typer.Exit:
    """Print an error; raise the result to exit with status 2."""
    console(stderr=True).print("[bold red]Error:[/bold red]", end=" ")
    # Unformatted: a caret must stay below its column, and brackets are no markup.
    typer.echo(message, err=True)
    return typer.Exit(2)


@contextmanager
def reported(*others: type[Exception]) -> Iterator[None]:
    """Report what is wrong with the input, and exit; the errors have messages for the user."""
    try:
        yield
    except (*others, ValueError, KeyError) as error:  # type: ignore[misc]
        raise fail(str(error.args[0]) if error.args else str(error)) from error
    except OSError as error:
        raise fail(f"cannot write {error.filename}: {error.strerror}") from error


def write(text: str, path: str, what: str, quiet: bool = False) -> None:
    """Write a file and report it; - prints instead."""
    if path == "-":
        typer.echo(text, nl=False)
        return
    write_atomically(Path(path), [text.encode()])
    if not quiet:
        typer.echo(f"wrote {path}: {what}")


def panel(title: str) -> Callable[..., Any]:
    """Return a function that makes options of one panel of the help."""

    def option(help: str, metavar: str | None = None, flag: str | None = None, **more: Any) -> Any:
        flags = () if flag is None else (flag,)
        return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=title, **more)

    return option
