"""A graph for the terminal: tables of every value and contribution, or a tree from the root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from gradwalk.printers.graphs.view import (
    GATES,
    GraphView,
    ViewEdge,
    ViewNode,
    amount,
    shortened,
    view_of,
)
from gradwalk.printers.scalars import number

ROWS = 60  # of a table, by default
LONGEST_FORMULA = 90  # letters; a longer formula is replaced by its number
DEEPEST = 12  # levels of a tree: the next would leave no room for text


def show_walk(graph: Any, console: Any, rows: int = ROWS) -> None:
    """Print the forward and the backward pass of a trace, or of the graph behind a Value.

    A Value shows the gradients it has: call backward() first. Each table prints at most `rows`
    rows, and the number of omitted ones.
    """
    view = view_of(graph)
    last = _plain(view.nodes[view.root].name)
    console.print("[bold]Forward[/bold]: every node after its inputs")
    _print_table(_forward_columns(view), view.nodes, rows, console)
    if not view.swept:
        return
    console.print(
        f"[bold]Backward[/bold]: from {last} down; each node hands on g × local derivative"
        if view.scalar
        else f"[bold]Backward[/bold]: from {last} down; norms of what each node hands on"
    )
    _print_table(_backward_columns(view), _pushes(view), rows, console)
    if view.scalar:
        console.print(f"[bold]Gradients[/bold]: how {last} moves with each leaf")
    else:
        console.print("[bold]Gradients[/bold] of the leaves (norms)")
    leaves = [n for n in view.nodes if n.is_leaf and n.needs_grad]
    _print_table(_gradient_columns(view), leaves, rows, console)


def show_tree(graph: Any, console: Any, rows: int = ROWS) -> None:
    """Print the graph as a tree: the root, below it its inputs, below each its own.

    A node that is used twice is expanded once, and only named after that.
    """
    from rich.tree import Tree

    view = view_of(graph)
    root = view.nodes[view.root]
    tree = Tree(_tree_line(view, root, None), guide_style="dim")
    seen = {root.index}
    shown = left_out = 0
    stack = [(tree, edge, 1) for edge in reversed(root.edges)]
    while stack:
        branch, edge, depth = stack.pop()
        node = view.nodes[edge.source]
        first = node.index not in seen
        seen.add(node.index)
        if shown == rows or depth > DEEPEST:
            left_out += first
            twig = branch
        else:
            twig = branch.add(_tree_line(view, node, edge, not first and not node.is_leaf))
            shown += 1
        if first:
            stack += [(twig, e, depth + 1) for e in reversed(node.edges)]
    console.print(tree)
    if left_out:
        console.print(f"[dim]… and {left_out:,} more nodes below these[/dim]")


def _tree_line(view: GraphView, node: ViewNode, edge: ViewEdge | None, again: bool = False) -> Any:
    from rich.text import Text

    line = Text(no_wrap=True, overflow="ellipsis")
    if edge is not None and view.edge_text(edge):
        line.append(view.edge_text(edge) + " ", "cyan")
    line.append(node.name, "bold")
    if again:
        return line.append(" (above)", "dim")
    if view.scalar and not node.is_leaf:
        line.append(f" = {view.computed_as(node)}")
    if not view.scalar:
        line.append(f" {_size(node)}", "dim")
    if not node.constant:
        line.append(f"  {view.value_text(node)}")
    if view.swept and node.needs_grad:
        line.append(f"  grad {view.grad_text(node)}", "red")
    return line


def _plain(text: str) -> str:
    """Escape brackets, which rich would read as markup."""
    from rich.markup import escape

    return escape(text)


class _Column(NamedTuple):
    """A column of a table: its heading, and the text of a cell."""

    heading: str
    cell: Callable[[Any], str]
    justify: Literal["left", "right"] = "left"
    wraps: bool = False

    def least_width(self, cells: Sequence[str]) -> int:
        """The width below which text would be cut."""
        from rich.cells import cell_len

        told = [self.heading, *cells]
        return max(map(cell_len, " ".join(told).split() if self.wraps else told))


def _print_table(columns: list[_Column], things: list[Any], most: int, console: Any) -> None:
    """Print a row per thing, as a list where the terminal is too narrow, so that nothing is cut."""
    from rich.box import SIMPLE_HEAD
    from rich.padding import Padding
    from rich.table import Table

    rows = [[column.cell(thing) for column in columns] for thing in things[:most]]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=not column.wraps)
    for row in rows:
        table.add_row(*map(_plain, row))
    more = f"… and {len(things) - most:,} more rows" if len(things) > most else ""
    if more:
        table.caption, table.caption_justify = more, "left"
    least = [column.least_width([row[i] for row in rows]) for i, column in enumerate(columns)]
    if sum(least) + 3 * len(least) - 1 <= console.width:
        console.print(table)
        return
    for first, *cells in rows:
        words = zip((column.heading for column in columns[1:]), cells)
        told = ", ".join(f"[dim]{heading}[/dim] {_plain(cell)}" for heading, cell in words if cell)
        if first:
            console.print(f"[bold]{_plain(first)}[/bold]")
        console.print(Padding(told, (0, 0, 0, 2)))
    console.print(f"{more}\n" if more else "")


def _size(node: ViewNode) -> str:
    return str(node.shape).replace(" ", "")


def _bare(kept: Any) -> str:
    """A number, or a norm without the word "norm"."""
    return amount(kept).removeprefix("norm ")


def _forward_columns(view: GraphView) -> list[_Column]:
    if view.scalar:
        return [
            _Column("node", lambda n: shortened(n.name, 24)),
            _Column("computed as", view.computed_as, wraps=True),
            _Column("value", view.value_text, "right"),
        ]

    def norm(n: ViewNode) -> str:
        return _bare(n.value) if n.dtype.startswith("float") or n.shape == () else n.dtype

    def source(n: ViewNode) -> str:
        names = ", ".join(shortened(view.nodes[e.source].name, 14) for e in n.edges)
        if not n.op:
            return "leaf" if n.needs_grad else "data"
        text = names if n.nameless else f"{n.op}({names})"
        return text if len(text) <= 30 else text[:29] + "…"

    return [
        _Column("node", lambda n: shortened(n.name, 21)),
        _Column("from", source),
        _Column("shape", _size),
        _Column("norm", norm, "right"),
    ]


def _pushes(view: GraphView) -> list[tuple[ViewEdge, bool]]:
    """The contributions in order, and whether each is the first of its node."""
    pushes = []
    for index in view.visits:
        told = [
            edge
            for edge in view.nodes[index].edges
            if view.nodes[edge.source].needs_grad
            and not (edge.pushed is None and edge.slope is None)
        ]
        pushes += [(edge, edge is told[0]) for edge in told]
    return pushes


def _backward_columns(view: GraphView) -> list[_Column]:
    room = 20 if view.scalar else 18

    def of_node(text: Callable[[ViewNode], str]) -> Callable[[tuple[ViewEdge, bool]], str]:
        """About the node of a contribution, in its first row only."""
        return lambda push: text(view.nodes[push[0].target]) if push[1] else ""

    def of_source(text: Callable[[ViewNode], str]) -> Callable[[tuple[ViewEdge, bool]], str]:
        return lambda push: text(view.nodes[push[0].source])

    adds = _Column("adds", lambda push: _bare(push[0].pushed), "right")
    columns = [
        _Column("node", of_node(lambda n: shortened(n.name, room))),
        _Column("g", of_node(lambda n: _bare(n.grad)), "right"),
        _Column("to", of_source(lambda n: shortened(n.name, room))),
    ]
    if not view.scalar:
        return [*columns, _Column("of shape", of_source(_size)), adds]
    slope = _Column("local derivative", lambda push: _derivative(view, push[0]), wraps=True)
    return [*columns, slope, adds, _Column("gate", of_node(lambda n: GATES.get(n.op, "")))]


def _derivative(view: GraphView, edge: ViewEdge) -> str:
    """Formula and number: `1 − o² = 0.5`; only one where they are the same."""
    rule = view.rule(edge)
    if len(rule) > LONGEST_FORMULA:
        rule = ""
    if edge.slope is None:
        return rule
    slope = number(edge.slope)
    return slope if rule in ("", slope) else f"{rule} = {slope}"


def _gradient_columns(view: GraphView) -> list[_Column]:
    if not view.scalar:
        return [
            _Column("leaf", lambda n: shortened(n.name, 38)),
            _Column("shape", _size),
            _Column("norm", lambda n: _bare(n.value), "right"),
            _Column("gradient", lambda n: "none" if n.grad is None else _bare(n.grad), "right"),
        ]

    def move(n: ViewNode) -> str:
        return {1: "raise ↑", -1: "lower ↓"}.get(n.raises, "constant" if n.constant else "—")

    return [
        _Column("leaf", lambda n: n.name),
        _Column("value", view.value_text, "right"),
        _Column("gradient", view.grad_text, "right"),
        _Column("to lower it", move),
    ]
