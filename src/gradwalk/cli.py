"""The command line. Bare `gradwalk` walks the classic neuron forward and backward."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from gradwalk import __version__
from gradwalk.printers.terminal import show_walk
from gradwalk.scalar import Value

app = typer.Typer(
    add_completion=False,
    help="Reverse-mode differentiation in which nothing is hidden. Without a command: walk one "
    "neuron, o = tanh(x1·w1 + x2·w2 + b), forward and backward.",
)


def neuron() -> Value:
    """o = tanh(x1·w1 + x2·w2 + b), at the numbers every course uses."""
    x1, w1 = Value(2.0, label="x1"), Value(-3.0, label="w1")
    x2, w2 = Value(0.0, label="x2"), Value(1.0, label="w2")
    b = Value(6.8813735870195432, label="b")
    first, second = x1 * w1, x2 * w2
    total = first + second
    n = total + b
    o = n.tanh()
    first.label, second.label, total.label = "x1w1", "x2w2", "sum"
    n.label, o.label = "n", "o"
    return o


@app.callback(invoke_without_command=True)
def walk_neuron(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Walk one neuron, o = tanh(x1·w1 + x2·w2 + b), forward and backward."""
    if version:
        print(f"gradwalk {__version__}")
        return
    if context.invoked_subcommand is not None:
        return
    console = Console(width=None if Console().is_terminal else 80)
    console.print("[bold]One neuron: o = tanh(x1·w1 + x2·w2 + b)[/bold]\n")
    o = neuron()
    o.backward()
    show_walk(o, console)


def main() -> None:
    """Entry point of the `gradwalk` command."""
    app()
