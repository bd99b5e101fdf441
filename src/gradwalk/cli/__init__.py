"""The command line. Bare `gradwalk` walks the classic neuron forward and backward."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gradwalk import __version__
from gradwalk.cli.classroom import autograder, similar, verify_codes
from gradwalk.cli.console import PLAIN_SIGNS, console
from gradwalk.cli.course import course
from gradwalk.cli.diff import diff
from gradwalk.cli.doctor import doctor
from gradwalk.cli.functions import functions
from gradwalk.cli.quiz import quiz, results
from gradwalk.cli.run import run
from gradwalk.cli.studio import site, studio
from gradwalk.cli.walk import walk
from gradwalk.printers.graphs.terminal import show_walk
from gradwalk.studio.presets import PRESETS

_HELP = (
    "Reverse-mode differentiation in which nothing is hidden.\n\n"
    "Without a command: walk one neuron, o = tanh(x1·w1 + x2·w2 + b), forward and backward.\n\n"
    "[bold]Start here[/bold]\n\n"
    '  gradwalk walk "(a + b) * c" a=2 b=-3 c=10\n'
    '  gradwalk walk "b = a + 1; c = 3*a; d = b*c" a=2 --why a\n'
    '  gradwalk walk "tanh(x*w + b)" x=2 w=-3 b=7 --svg neuron.svg\n'
    "  gradwalk walk model.py:loss\n"
    "  gradwalk studio\n"
    "  gradwalk doctor train.py --lr 3e-4\n"
    "  gradwalk run --watch train.py --lr 3e-4\n"
    "  gradwalk diff before.trace after.trace\n\n"
    "An expression is made of names, numbers, + - * / ^ and functions (`gradwalk functions` lists "
    "them). Separate several with ; and gradwalk differentiates the last one.\n\n"
    "The forward pass computes every node from its inputs. The backward pass starts at the last "
    "node with gradient 1. Each node, after all its consumers, passes to every input its own "
    "gradient × the local derivative. A node's gradient is the sum of what it receives."
)

app = typer.Typer(add_completion=False, help=_HELP, rich_markup_mode="rich")
app.command(
    # An expression may begin with a minus sign and is no option.
    context_settings={"ignore_unknown_options": True}
)(walk)
app.command()(functions)
app.command()(diff)
for of_the_course in (quiz, results, similar, autograder):
    course.command()(of_the_course)
course.command("verify")(verify_codes)
app.add_typer(course, name="course")
app.command(context_settings={"ignore_unknown_options": True})(studio)
app.command()(site)
for command in (run, doctor):
    app.command(
        # Arguments after the program belong to it.
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    )(command)


@app.callback(invoke_without_command=True)
def walk_neuron(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Walk one neuron, o = tanh(x1·w1 + x2·w2 + b), forward and backward."""
    if version:
        print(f"gradwalk {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        return
    screen = console()
    screen.print("[bold]One neuron: o = tanh(x1·w1 + x2·w2 + b)[/bold]\n")
    neuron = next(preset for preset in PRESETS if preset.id == "neuron")
    show_walk(neuron.trace(), screen)
    screen.print('Your own: gradwalk walk "(a + b) * c" a=2 b=-3 c=10; more: gradwalk --help')


def main() -> None:
    """Entry point of the `gradwalk` command."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without − and × gets - and *
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN_SIGNS)
    app()
