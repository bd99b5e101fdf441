"""A graph in the DOT language of Graphviz."""

from __future__ import annotations

from typing import Any

from gradwalk.printers.graphs.view import GraphView, ViewNode, view_of

_LOOK = {
    "leaf": 'fillcolor="#fdf6e9", color="#cbb27a"',
    "constant": 'fillcolor="#fbfbfb", color="#c4c4c4"',
    "group": 'fillcolor="#eef3ee", color="#86a386"',
    "op": 'fillcolor="#f4f7fa", color="#8fa1b3"',
}


def graph_dot(graph: Any, drawing: str = "nodes") -> str:
    """A trace, or the graph behind a Value, as DOT text: `dot -Tpdf` draws it.

    `drawing` says where the operations stand, on the "nodes" or on the "edges".

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> print(graph_dot(a * a).splitlines()[-2])
      n0 -> n1 [label="×3"];
    """
    if drawing not in ("nodes", "edges"):
        raise ValueError(f"drawing is 'nodes' or 'edges', not {drawing!r}")
    view = view_of(graph)
    on_edges = drawing == "edges"
    shape = 'shape=box, style="rounded,filled"'
    lines = [
        "digraph gradwalk {",
        '  rankdir=LR; node [fontname="Courier", fontsize=11, ' + shape + "];",
        '  edge [fontname="Courier", fontsize=10, color="#9aa3ad"];',
    ]
    hidden = view.folded() if on_edges else set()
    for node in view.nodes:
        if node.index not in hidden:
            lines.append(
                f"  n{node.index} [label={_label(view, node, on_edges)}, {_LOOK[node.kind]}];"
            )
    for edge in view.edges:
        if edge.source not in hidden:
            text = quoted(view.edge_text(edge, on_edges))
            lines.append(f"  n{edge.source} -> n{edge.target} [label={text}];")
    return "\n".join([*lines, "}", ""])


def _label(view: GraphView, node: ViewNode, on_edges: bool) -> str:
    head = node.name
    if not node.is_leaf and not node.nameless and not on_edges:
        head = f"{node.name}  {node.sign}"
    rows = [head]
    if not view.scalar:
        rows.append(str(node.shape) if node.shape else "scalar")
    if not node.constant:
        rows.append(node.detail or view.value_text(node))
    if view.swept and node.needs_grad:
        rows.append(f"grad {view.grad_text(node)}")
    gates = "  ".join(badge for badge in view.badges(node) if badge)
    return quoted("\n".join([*rows, *([f"({gates})"] if gates else [])]))


def quoted(text: str) -> str:
    """A DOT string with left-aligned lines.

    >>> print(quoted('say "hi"\\n'))
    "say \\"hi\\"\\l"
    """
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    end = "\\l" if "\n" in text else ""
    return '"' + safe.rstrip("\n").replace("\n", "\\l") + end + '"'
