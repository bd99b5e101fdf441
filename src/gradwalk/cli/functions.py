"""`gradwalk functions`: the functions of expressions, with their derivatives."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from gradwalk.cli.console import console
from gradwalk.inspect.expression.tokens import FUNCTIONS
from gradwalk.ops import TABLE
from gradwalk.printers.formulas.formula import derivative
from gradwalk.printers.graphs.terminal import LONGEST_FORMULA


def functions() -> None:
    """List the functions an expression may call, each with its local derivatives."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("function", no_wrap=True)
    table.add_column("local derivative of each input")
    for name, function in sorted(FUNCTIONS.items()):
        op = TABLE[function.op]
        rules = [derivative(op, i, **op.defaults) for i in range(function.arity)]
        rules = [rule if len(rule) <= LONGEST_FORMULA else f"{rule[:40]}…" for rule in rules]
        table.add_row(f"{name}({', '.join(op.inputs)})", escape("   and   ".join(rules)))
    screen = console()
    screen.print(table)
    screen.print("Operators: + - * / and ^ (or **); also · × for * and − for -. Constants: pi.")
