"""A scalar graph as tables for the terminal: every value going forward, every push going back."""

from __future__ import annotations

from typing import Any

from gradwalk.graph.order import inputs_first
from gradwalk.ops.op import Op
from gradwalk.ops.symbol import Symbol
from gradwalk.printers.formula import derivative, formula
from gradwalk.printers.scalars import local_derivative, names_of, number

BADGES = {"add": "distributor", "mul": "swapper", "maximum": "router", "minimum": "router"}


def show_walk(root: Any, console: Any) -> None:
    """Print the forward and the backward pass of a graph of Values; call backward() first."""
    order = inputs_first([root])
    names = names_of(order)
    last = names[order[-1]]
    console.print("[bold]Forward[/bold]: every node after its inputs")
    console.print(_forward_table(order, names))
    console.print(
        f"[bold]Backward[/bold]: from {last} down; each node hands on g × local derivative"
    )
    console.print(_backward_table(order, names))
    console.print(f"[bold]Gradients[/bold]: how {last} moves with each leaf")
    console.print(_gradient_table(order, names))


def _table(*columns: tuple[str, str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading, justify in columns:
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return table


def _forward_table(order: list[Any], names: dict[Any, str]) -> Any:
    table = _table(
        ("node", "left"), ("computed as", "left"), ("value", "right"),
    )  # fmt: skip
    for v in order:
        table.add_row(names[v], _expression(v, names), number(v.data))
    return table


def _expression(v: Any, names: dict[Any, str]) -> str:
    if not v.inputs:
        return "leaf"
    if not isinstance(v.op, Op):
        return f"{v.op}({', '.join(names[i] for i in v.inputs)})"
    symbols = {i: Symbol(names[i]) for i in v.inputs}  # one per node: a × a is a²
    return formula(v.op(*(symbols[i] for i in v.inputs), **v.attrs))


def _backward_table(order: list[Any], names: dict[Any, str]) -> Any:
    table = _table(
        ("node", "left"), ("g", "right"), ("to", "left"), ("local derivative", "left"),
        ("adds", "right"), ("gate", "left"),
    )  # fmt: skip
    for v in reversed(order):
        if not isinstance(v.op, Op):
            continue
        for position, source in enumerate(v.inputs):
            slope = local_derivative(v, position)
            rule = derivative(v.op, position, [names[i] for i in v.inputs], names[v], **v.attrs)
            first = position == 0
            table.add_row(
                names[v] if first else "",
                number(v.grad) if first else "",
                names[source],
                rule if rule == number(slope) else f"{rule} = {number(slope)}",
                number(v.grad * slope),
                BADGES.get(v.op.name, "") if first else "",
            )
    return table


def _gradient_table(order: list[Any], names: dict[Any, str]) -> Any:
    table = _table(
        ("leaf", "left"), ("value", "right"), ("gradient", "right"), ("to lower it", "left"),
    )  # fmt: skip
    for v in order:
        if not v.inputs:
            arrow = "—" if v.grad == 0 else ("lower ↓" if v.grad > 0 else "raise ↑")
            table.add_row(names[v], number(v.data), number(v.grad), arrow)
    return table
