"""Graphs for the page's tests: Python's Values as the page's Graph, and random expressions."""

from __future__ import annotations

import random
from typing import Any

from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.trace import Edge, Trace


def page_graph(trace: Trace) -> tuple[dict[str, Any], list[float], dict[int, int]]:
    """A scalar trace as the page's Graph (unnamed leaves become constants), the numbers of its
    nodes, and the new index of each node of the trace."""
    place: dict[int, int] = {}
    nodes, values = [], []
    for node in trace.nodes:
        if not node.op and not node.label and len(trace.nodes) > 1:
            continue
        args = []
        for argument in node.args:
            if isinstance(argument, Edge) and argument.node in place:
                args.append({"node": place[argument.node]})
            else:
                args.append({"constant": float(trace.nodes[argument.node].value)})
        place[node.index] = len(nodes)
        nodes.append({"op": node.op, "args": args, "attrs": node.attrs, "label": node.label})
        values.append(float(node.value))
    return {"nodes": nodes, "root": place[trace.sweep.root]}, values, place


def random_program(seed: int, statements: int = 7) -> tuple[str, dict[str, float]]:
    """Several assignments that use each other: many paths, all finite."""
    draw = random.Random(seed)
    names = ["a", "b", "x1"]
    lines = []
    for number in range(statements):
        one, other, third = (draw.choice(names) for _ in range(3))
        constant = draw.choice(["2", "0.5", "-1.5", "3"])
        form = draw.choice(
            [
                "{0} * {1}", "{0} + {1}", "{0} - {1} * {2}", "tanh({0}) + {1}", "max({0}, {1})",
                "{0} * {3} + {1}", "sigmoid({0} - {1})", "({0} + 4) / (exp({1}/9) + 1)",
                "{0}^2 - {2}",
                "relu({0}) * {1}", "-{0} + {3}", "softplus({0})", "sqrt({0}^2 + 1)", "{0} * {0}",
                "leaky_relu({1}) + sin({0})", "min({0}, {3})", "abs({0}) - erf({1})",
            ]
        )  # fmt: skip
        name = f"n{number}" if number % 3 else f"h{number}"
        lines.append(f"{name} = {form.format(one, other, third, constant)}")
        names = [*names[-5:], name]
    values = {n: round(draw.uniform(-2, 2), 3) for n in ("a", "b", "x1")}
    source = "; ".join(lines)
    used = set(parse(source).leaves)
    return source, {n: v for n, v in values.items() if n in used}
