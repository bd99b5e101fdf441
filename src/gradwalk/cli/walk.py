"""`gradwalk walk`: a graph from an expression or from a function, shown and explained."""

from __future__ import annotations

import json as json_text
import sys
from contextlib import nullcontext, redirect_stdout
from typing import Annotated, Any

import typer

from gradwalk.cli.console import console, panel, reported, write
from gradwalk.cli.sources import GivenValues, Source, constant, source_of
from gradwalk.inspect.show import Picture, show
from gradwalk.printers.graphs.plain_data import jsonable
from gradwalk.printers.graphs.terminal import ROWS, show_tree, show_walk

_tell, _draw, _ask = panel("What is printed"), panel("Pictures"), panel("Questions")


def walk(
    expression: Annotated[
        str,
        typer.Argument(
            help="An expression in quotes, several separated by ; — or file.py:function, which "
            "[bold]runs that file[/bold] and takes the Value or Tensor it returns.",
            show_default=False,
        ),
    ],
    values: GivenValues = None,
    why: Annotated[
        list[str] | None, _ask("Split the gradient of NAME by edge and by path.", "NAME")
    ] = None,
    nudge: Annotated[
        list[str] | None, _ask("Move NAME by EPS (0.001): predicted and real change.", "NAME[=EPS]")
    ] = None,
    derive: Annotated[
        list[str] | None, _ask("Write out the chain rule for NAME in symbols and numbers.", "NAME")
    ] = None,
    latex: Annotated[bool, _ask("Print the result of --derive as LaTeX.", flag="--latex")] = False,
    order: Annotated[
        str | None,
        _ask(
            "Run backward in this order (d,b,c,a) and show the lost gradients; or a recipe: "
            "breadth-first, depth-first, plain recursion, overwrite, twice.",
            "NODES",
        ),
    ] = None,
    tree: Annotated[bool, _tell("A tree instead of tables.", flag="--tree")] = False,
    rows: Annotated[int, _tell("The maximum number of table rows.", min=1)] = ROWS,
    json: Annotated[bool, _tell("Everything as JSON, nothing else.", flag="--json")] = False,
    svg: Annotated[str | None, _draw("Draw the graph as SVG.", "FILE")] = None,
    dot: Annotated[str | None, _draw("Write it for Graphviz.", "FILE")] = None,
    tikz: Annotated[
        str | None,
        _draw("A LaTeX document, one page per step; the last is the whole walk.", "FILE"),
    ] = None,
    frames: Annotated[
        str | None, _draw("One SVG per step, all with the same layout, for slides.", "DIR")
    ] = None,
    drawing: Annotated[str, _draw("Where pictures show the operations.", "nodes|edges")] = "nodes",
    depth: Annotated[
        int | None, _draw("Draw module calls this deep as one node each.", min=1)
    ] = None,
) -> None:
    """Walk an expression forward and backward: every value, every gradient, and why.

    [bold]Examples[/bold]

      gradwalk walk "(a + b) * c" a=2 b=-3 c=10
      gradwalk walk "y = x^3 + 5*x" x=2 --derive x --nudge x=0.01
      gradwalk walk "b = a+1; c = 3*a; d = b*c" a=2 --why a --order b,d,c
      gradwalk walk "tanh(x1·w1 + x2·w2 + b)" x1=2 --frames slides
      gradwalk walk model.py:loss --svg model.svg --depth 2
    """
    printed = [name for name in (svg, dot, tikz) if name == "-"]
    with reported():
        if len(printed) + json > 1:
            raise ValueError("only one of --svg -, --dot -, --tikz - and --json can be printed")
        if latex and not derive:
            raise ValueError("--latex needs --derive. Fix: --derive NAME --latex")
        # For a pipe, standard output has only the JSON or the picture.
        with redirect_stdout(sys.stderr) if json or printed else nullcontext():
            source = source_of(expression, values or [])
        whole = show(source.trace)
        picture = show(source.trace, drawing=drawing, depth=depth)
        answers = _answers(source, why or [], nudge or [], derive or [], order)
    if json:
        _print_json(source, whole, answers)
    elif not printed:
        _print(source, whole, answers, rows, tree, latex)
    _write_files(picture, svg, dot, tikz, frames, quiet=json or bool(printed))


def _answers(
    source: Source, why: list[str], nudge: list[str], derive: list[str], order: str | None
) -> dict[str, list[Any]]:
    from gradwalk import inspect

    trace = source.trace
    sizes = [(name, size) for name, _, size in (text.partition("=") for text in nudge)]
    answers: dict[str, list[Any]] = {
        "why": [inspect.why(source.find(name), trace) for name in why],
        "nudge": [
            inspect.nudge(source.find(name), _size(name, size), trace) for name, size in sizes
        ],
        "derive": [inspect.derive(source.find(name), trace) for name in derive],
        "order": [],
    }
    if order is not None:
        from gradwalk.inspect.order.recipes import recipe_called

        known = recipe_called(order)
        answers["order"] = [inspect.run_order(trace, order if known else _visits(source, order))]
    return {question: listed for question, listed in answers.items() if listed}


def _visits(source: Source, order: str) -> list[int]:
    from gradwalk.inspect.order.recipes import RECIPES

    try:
        return [source.find(name) for name in order.replace(",", " ").split()]
    except KeyError as error:
        recipes = ", ".join(RECIPES)
        raise ValueError(f"{error.args[0]}; or one of the recipes {recipes}") from None


def _size(name: str, text: str) -> float:
    try:
        return constant(text) if text else 1e-3
    except ValueError:
        raise ValueError(f"--nudge {name}={text}: {text} is not a number") from None


def _print(
    source: Source,
    picture: Picture,
    answers: dict[str, list[Any]],
    rows: int,
    tree: bool,
    latex: bool,
) -> None:
    screen = console()
    screen.print(source.title, style="bold", markup=False)
    for note in source.notes:
        screen.print(f"({note})", style="dim", markup=False)
    screen.print()
    (show_tree if tree else show_walk)(picture._view, screen, rows)
    for question, listed in answers.items():
        for answer in listed:
            text = answer.latex if latex and question == "derive" else str(answer)
            screen.print()
            screen.print(text, markup=False, soft_wrap=True)


def _print_json(source: Source, picture: Picture, answers: dict[str, list[Any]]) -> None:
    data = {"title": source.title, "notes": source.notes, **picture.to_dict()}
    for question, listed in answers.items():
        data[question] = [jsonable(answer.to_dict()) for answer in listed]
    typer.echo(json_text.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def _write_files(
    picture: Picture,
    svg: str | None,
    dot: str | None,
    tikz: str | None,
    frames: str | None,
    quiet: bool,
) -> None:
    with reported():  # the graph may be too large to draw
        for path, draw, what in (
            (svg, picture.svg, "the drawing"),
            (dot, picture.dot, "draw it with dot -Tpdf"),
            (tikz, picture.tikz_frames, "one page per step"),
        ):
            if path is not None:
                write(draw(), path, what, quiet)
        if frames is not None:
            written = picture.frames(frames)
            if not quiet:
                typer.echo(f"wrote {len(written)} files, {written[0]} to {written[-1].name}")
