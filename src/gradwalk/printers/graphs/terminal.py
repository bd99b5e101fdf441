"""A graph for the terminal: tables of every value and contribution, or a tree from the root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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

Row = tuple[str, ...]
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
    _print_table(_forward_table(view, rows), console)
    if not view.swept:
        return
    console.print(
        f"[bold]Backward[/bold]: from {last} down; each node hands on g × local derivative"
        if view.scalar
        else f"[bold]Backward[/bold]: from {last} down; norms of what each node hands on"
    )
    _print_table(_backward_table(view, rows), console)
    if view.scalar:
        console.print(f"[bold]Gradients[/bold]: how {last} moves with each leaf")
    else:
        console.print("[bold]Gradients[/bold] of the leaves (norms)")
    _print_table(_gradient_table(view, rows), console)


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


@dataclass
class _Table:
    """Headings with their alignment, and rows of text; only the column named in `wraps` wraps."""

    columns: Sequence[tuple[str, Any]]
    wraps: str = ""
    rows: list[Row] = field(default_factory=list)
    left_out: int = 0

    def filled(self, things: list[Any], row: Callable[[Any], Row], most: int) -> _Table:
        """Fill in one row per thing; only shown rows are formatted."""
        self.rows = [row(thing) for thing in things[:most]]
        self.left_out = max(0, len(things) - most)
        return self

    def least_width(self) -> int:
        """The terminal width below which text would be cut."""
        from rich.cells import cell_len

        widths = []
        for place, (heading, _) in enumerate(self.columns):
            cells = [heading, *(row[place] for row in self.rows)]
            if heading == self.wraps:
                cells = [word for cell in cells for word in cell.split()]
            widths.append(max(map(cell_len, cells)))
        return sum(widths) + 3 * len(widths) - 1


def _print_table(content: _Table, console: Any) -> None:
    """Print a table, or a list where the terminal is too narrow, so that nothing is cut."""
    from rich.box import SIMPLE_HEAD
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading, justify in content.columns:
        table.add_column(heading, justify=justify, no_wrap=heading != content.wraps)
    for row in content.rows:
        table.add_row(*map(_plain, row))
    more = f"… and {content.left_out:,} more rows" if content.left_out else ""
    if more:
        table.caption, table.caption_justify = more, "left"
    if content.least_width() <= console.width:
        console.print(table)
        return
    for first, *cells in content.rows:
        words = zip((heading for heading, _ in content.columns[1:]), cells)
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


def _forward_table(view: GraphView, most: int) -> _Table:
    columns: tuple[tuple[str, str], ...]
    if view.scalar:
        columns = (("node", "left"), ("computed as", "left"), ("value", "right"))
        row: Callable[[ViewNode], Row] = lambda n: (
            shortened(n.name, 24),
            view.computed_as(n),
            view.value_text(n),
        )
    else:
        columns = (("node", "left"), ("from", "left"), ("shape", "left"), ("norm", "right"))
        row = lambda n: _tensor_row(view, n)
    return _Table(columns, "computed as").filled(view.nodes, row, most)


def _tensor_row(view: GraphView, n: ViewNode) -> Row:
    source = ", ".join(shortened(view.nodes[e.source].name, 14) for e in n.edges)
    if n.op and not n.nameless:
        source = f"{n.op}({source})"
    elif not n.op:
        source = "leaf" if n.needs_grad else "data"
    source = source if len(source) <= 30 else source[:29] + "…"
    floats = n.dtype.startswith("float") or n.shape == ()
    return shortened(n.name, 21), source, _size(n), _bare(n.value) if floats else n.dtype


def _backward_table(view: GraphView, most: int) -> _Table:
    start = (("node", "left"), ("g", "right"), ("to", "left"))
    end: tuple[tuple[str, str], ...]
    if view.scalar:
        end = (("local derivative", "left"), ("adds", "right"), ("gate", "left"))
    else:
        end = (("of shape", "left"), ("adds", "right"))
    pushes: list[tuple[ViewEdge, bool]] = []  # and whether it is the first of its node
    for index in view.visits:
        first = True
        for edge in view.nodes[index].edges:
            wanted = view.nodes[edge.source].needs_grad
            if wanted and not (edge.pushed is None and edge.slope is None):
                pushes.append((edge, first))
                first = False
    table = _Table((*start, *end), "local derivative")
    return table.filled(pushes, lambda push: _push_row(view, *push), most)


def _push_row(view: GraphView, edge: ViewEdge, first: bool) -> Row:
    node, source = view.nodes[edge.target], view.nodes[edge.source]
    room = 20 if view.scalar else 18
    row = (
        shortened(node.name, room) if first else "",
        _bare(node.grad) if first else "",
        shortened(source.name, room),
        _derivative(view, edge) if view.scalar else _size(source),
        _bare(edge.pushed),
    )
    return (*row, GATES.get(node.op, "") if first else "") if view.scalar else row


def _derivative(view: GraphView, edge: ViewEdge) -> str:
    """Formula and number: `1 − o² = 0.5`; only one where they are the same."""
    rule = view.rule(edge)
    if len(rule) > LONGEST_FORMULA:
        rule = ""
    if edge.slope is None:
        return rule
    slope = number(edge.slope)
    return slope if rule in ("", slope) else f"{rule} = {slope}"


def _gradient_table(view: GraphView, most: int) -> _Table:
    columns: tuple[tuple[str, str], ...]
    leaves = [n for n in view.nodes if n.is_leaf and n.needs_grad]
    if view.scalar:
        columns = (
            ("leaf", "left"), ("value", "right"), ("gradient", "right"), ("to lower it", "left"),
        )  # fmt: skip
        row: Callable[[ViewNode], Row] = lambda n: (
            n.name,
            view.value_text(n),
            view.grad_text(n),
            {1: "raise ↑", -1: "lower ↓"}.get(n.raises, "constant" if n.constant else "—"),
        )
    else:
        columns = (
            ("leaf", "left"), ("shape", "left"), ("norm", "right"), ("gradient", "right"),
        )  # fmt: skip
        row = lambda n: (
            shortened(n.name, 38),
            _size(n),
            _bare(n.value),
            "none" if n.grad is None else _bare(n.grad),
        )
    return _Table(columns).filled(leaves, row, most)
