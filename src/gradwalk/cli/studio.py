"""`gradwalk studio`: any graph in the browser; `gradwalk site`: the studio as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradwalk.cli.console import reported
from gradwalk.cli.sources import GivenValues, Source, source_of
from gradwalk.course.catalogue import Catalogue
from gradwalk.inspect.trace.file import load_trace
from gradwalk.studio.exporting import document_of, document_of_expression, write_page
from gradwalk.studio.launch import (
    FIRST_PORT,
    Studio,
    StudioError,
    expression_link,
    open_in_browser,
    say,
)
from gradwalk.studio.pages import NotBuilt
from gradwalk.studio.scorm import VERSIONS
from gradwalk.studio.sessions import Sessions
from gradwalk.studio.site import write_package, write_site

TRACE = ".trace"


def studio(
    what: Annotated[
        str,
        typer.Argument(
            help="A trace file, an expression in quotes, or file.py:function, which [bold]runs "
            "that file[/bold] and takes the Value or Tensor it returns. Default: the presets.",
            show_default=False,
        ),
    ] = "",
    values: GivenValues = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help=f"The port. Default: the first free one from {FIRST_PORT}.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="127.0.0.1, localhost or ::1: this machine only.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, if there is one.")
    ] = True,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.html",
            help="Write one HTML file that works without Python or a network, and exit.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Open the studio: step any graph forward and backward in the browser.

    [bold]Examples[/bold]

      gradwalk studio
      gradwalk studio "tanh(x*w + b)" x=2 w=-3 b=7
      gradwalk studio step.trace
      gradwalk studio model.py:loss
      gradwalk studio model.py:loss --export model.html
    """
    with reported(StudioError, NotBuilt):
        if export is not None:
            _export(what, values or [], export)
        else:
            _serve(what, values or [], port, host, browser)


def _trace_file(what: str, values: list[str]) -> Path | None:
    """The path of a trace file; None for other sources."""
    path = Path(what)
    if path.suffix != TRACE:
        return None
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if values:
        raise ValueError(f"a trace contains its values: remove {values[0]}")
    return path


def _export(what: str, values: list[str], path: str) -> None:
    if not what:
        raise ValueError("--export needs a graph. Fix: name one, or use `gradwalk site FOLDER`")
    file = _trace_file(what, values)
    source = source_of(what, values) if file is None else Source(file.name, load_trace(file))
    left_out: dict[str, int] = {}
    if source.expression:
        document = document_of_expression(source.expression, source.values, source.title)
    else:
        document, left_out = document_of(source.trace, source.title)
    _tell(source.notes)
    typer.echo(str(write_page(document, left_out, path)))


def _serve(what: str, values: list[str], port: int | None, host: str, browser: bool) -> None:
    sessions, session, link = Sessions(), None, ""
    file = _trace_file(what, values)
    if file is not None:
        session = sessions.open(file)
    elif what:
        source = source_of(what, values)
        _tell(source.notes)
        if source.expression:
            link = expression_link(source.expression, source.values)
        else:
            session = sessions.show(source.trace, source.title)
    running = Studio(sessions, port, host)
    try:
        url = running.url(session, link)
        if port is None and running.port != FIRST_PORT:
            say(f"(port {FIRST_PORT} is taken; using {running.port})")
        say(f"gradwalk studio: {url}")
        if browser and not open_in_browser(url):
            say("(no browser was found: open the address in one on this machine)")
        say("Ctrl+C ends it")
        running.wait()
    except KeyboardInterrupt:  # before it waited
        running.stop()


def _tell(notes: list[str]) -> None:
    for note in notes:
        say(f"({note})")


def site(
    out: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Where to write it; with --scorm, a zip file.")
    ],
    lessons: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            help="Further lessons: a folder with en/my-lesson.md. May be given several times.",
            show_default=False,
        ),
    ] = None,
    class_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Learners get a line with a code, which `gradwalk course verify` checks.",
            show_default=False,
        ),
    ] = "",
    scorm: Annotated[
        str,
        typer.Option(
            metavar="|".join(VERSIONS),
            help="A package for a learning platform, which hears what is done.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write the studio as files for any web server: presets, typing, order lab, lessons.

    Mistakes in further lessons are reported with file and line; the site is
    written anyway. It needs no Python. Put the folder on any web server,
    under any path, or into a frame.

    [bold]Examples[/bold]

      gradwalk site public
      gradwalk site public --class-key "autumn 2026, group 3"
      gradwalk site course.zip --scorm 1.2
    """
    with reported(NotBuilt):
        if scorm:
            if not out.endswith(".zip"):
                raise ValueError(f"a SCORM package is a zip file. Fix: name it {out}.zip")
            names = write_package(out, scorm, lessons=lessons or (), class_key=class_key)
        else:
            written = write_site(out, lessons=lessons or (), class_key=class_key)
        faults = Catalogue(list(map(Path, lessons or ()))).faults()
    for fault in faults:
        typer.echo(f"warning: {fault}", err=True)
    if scorm:
        typer.echo(f"wrote {out}: SCORM {scorm}, {len(names)} files. Upload it to your platform.")
        return
    typer.echo(f"wrote {len(written)} files to {out}: open it through a web server, for example")
    typer.echo(f'  python -m http.server --bind 127.0.0.1 --directory "{out}"')
