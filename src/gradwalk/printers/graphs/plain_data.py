"""A graph as plain data: dictionaries, lists, text and numbers, ready for JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.printers.graphs.view import GraphView, ViewEdge, ViewNode, norm_of, view_of

SCHEMA = "gradwalk.walk/1"


def graph_data(graph: Any) -> dict[str, Any]:
    """Every node with its value, gradient and edges, in computed order.

    An array is given by its shape and norm. Numbers that JSON lacks are text: "NaN", "Infinity",
    "-Infinity".

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> graph_data(a * a)["nodes"][1]["inputs"][0]["local_derivative"]
    3.0
    """
    view = view_of(graph)
    return {
        "schema": SCHEMA,
        "root": view.root,
        "scalar": view.scalar,
        "visits": list(view.visits) if view.swept else [],
        "nodes": [_node(view, node) for node in view.nodes],
    }


def _node(view: GraphView, node: ViewNode) -> dict[str, Any]:
    gate, adder = view.badges(node)
    data: dict[str, Any] = {
        "index": node.index,
        "name": node.name,
        "op": node.op or None,
        "computed_as": view.computed_as(node),
        "attributes": {name: jsonable(value) for name, value in node.attrs.items()},
        "inputs": [_edge(view, edge) for edge in node.edges],
        "value": _kept(node.value),
        "gradient": _kept(node.grad) if view.swept else None,
        "needs_gradient": node.needs_grad,
        "gates": [badge for badge in (gate, adder) if badge],
    }
    if not view.scalar:
        data |= {"shape": list(node.shape), "dtype": node.dtype, "group": node.group or None}
    if node.line:
        data["line"] = node.line
    if view.scalar and node.is_leaf and not node.constant:
        data["to_lower_the_root"] = {1: "raise", -1: "lower"}.get(node.raises)
    return data


def _edge(view: GraphView, edge: ViewEdge) -> dict[str, Any]:
    data: dict[str, Any] = {"node": edge.source, "argument": edge.position}
    if edge.output:
        data["output"] = edge.output
    if view.scalar:
        data |= {"local_derivative": jsonable(edge.slope), "formula": view.rule(edge)}
    return data | {"pushed": _kept(edge.pushed)}


def _kept(kept: Any) -> Any:
    """A number, or the norm of an array."""
    if kept is None or isinstance(kept, (int, float)):
        return jsonable(kept)
    if getattr(kept, "norm", None) is None and np.ndim(kept) == 0:
        return jsonable(float(kept))
    return {"norm": jsonable(norm_of(kept))}


def jsonable(value: Any) -> Any:
    """Replace numbers that JSON lacks by text, and arrays by lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
