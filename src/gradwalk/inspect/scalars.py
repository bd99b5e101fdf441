"""A trace of a graph of Values: values, gradients and what went along each edge."""

from __future__ import annotations

from typing import Any

from gradwalk.engine.scalars import contributions
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import source_line
from gradwalk.inspect.trace import Edge, Sweep, Trace, TraceNode
from gradwalk.ops.op import Op


def trace_of_values(root: Any) -> Trace:
    """Record a graph of Values that is already there. Its own `.grad`s are not touched."""
    trace = Trace()
    trace.scalar = True
    order = inputs_first([root])
    trace._alive.append(root)  # which holds all the others
    lines: dict[Any, Any] = {}  # a loop makes many nodes on few lines, and looking one up is slow
    for v in order:
        place = id(v.code), v.position
        if place not in lines:
            lines[place] = source_line(v.code, v.position)
        node = TraceNode(
            index=0,
            op=v.op.name if isinstance(v.op, Op) else str(v.op),
            args=tuple(Edge(trace._index[id(i), 0]) for i in v.inputs),
            attrs=dict(v.attrs),
            label=v.label,
            line=lines[place],
            values=[v.data],
        )
        trace.add(node, (id(v), 0))
    _sweep(trace, order)
    return trace


def _sweep(trace: Trace, order: list[Any]) -> None:
    """The backward pass, in numbers of our own."""
    root = len(order) - 1
    sweep = Sweep(seeds={Edge(root): 1.0})
    grads = [0.0] * len(order)
    grads[root] = 1.0
    for index in range(root, -1, -1):
        v = order[index]
        if not v.inputs:
            continue
        sweep.visits.append(index)
        sweep.pushed[index] = pushed = contributions(v, grads[index])
        for edge, contribution in zip(trace.nodes[index].args, pushed, strict=True):
            if contribution is not None:
                grads[edge.node] += contribution
    sweep.grads = {index: [g] for index, g in enumerate(grads)}
    trace.sweeps.append(sweep)
