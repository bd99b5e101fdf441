"""Trace a tensor's graph that was not recorded, from what the graph still knows.

The values of leaves, of the root and of saved arrays are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.engine.backward import walk
from gradwalk.engine.errors import made_at, name_of, second_time
from gradwalk.engine.gradients import wrap
from gradwalk.engine.modes import no_grad
from gradwalk.graph.node import Freed
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import source_line
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.ops.core.dtypes import is_complex_dtype


def from_graph(root: Any, recorder: Any) -> Trace:
    """Trace the operations behind `root` and its backward pass; no `.grad` changes."""
    trace: Trace = recorder.trace
    trace.unrecorded = True
    start = root.grad_fn or root
    order = inputs_first([start])
    for node in order:
        if isinstance(getattr(node, "saved", None), Freed):
            raise second_time(node)
        if is_complex_dtype(node.dtype):
            raise NotImplementedError(
                f"{name_of(node)} is complex, and a trace holds real numbers only.\n"
                f"  made at:   {made_at(node)}\nFix: compute with pairs (gradwalk.view_as_real)."
            )
    for node in order:
        _add(trace, recorder, node)
    trace._alive.append(root)
    _fill_in(trace, recorder, order)
    index = trace._index[id(start), 0]
    trace.nodes[index].values[root._index] = recorder._kept(root._array, "values", index)
    trace._index[id(start), root._index] = index
    seed = np.ones(root.shape, root.dtype)
    recorder.sweeping([(start, root._index, seed)])
    with no_grad(), np.errstate(all="ignore"):
        walk(
            [(start, root._index, seed)],
            recorder.delivered,
            wrap,
            retain=True,
            on_step=recorder.visited,
        )
    recorder.swept()
    return trace


def _add(trace: Trace, recorder: Any, node: Any) -> None:
    if not node.inputs:  # a leaf is its own node
        recorder._leaf(node, (id(node), 0))
        return
    args = tuple(
        None if source is None else Edge(trace._index[id(source), 0], pick)
        for source, pick in zip(node.inputs, node.picks)
    )
    made = TraceNode(
        index=0,
        op=node.op.name,
        args=args,
        attrs=dict(node.attrs),
        label=node.label,
        line=source_line(node.code, node.position),
        metas=tuple((shape, str(dtype)) for shape, dtype in node.out_metas),
        values=[None] * len(node.out_metas),
    )
    index = trace.add(made, *((id(node), output) for output in range(len(node.out_metas))))
    recorder.holdings.note(index, node)


def _fill_in(trace: Trace, recorder: Any, order: list[Any]) -> None:
    """Fill in values from saved arrays."""
    for node in order:
        saved = getattr(node, "saved", None)
        if not node.inputs or not isinstance(saved, dict) or node.plan is None:
            continue
        op = node.op
        index = trace._index[id(node), 0]
        made = trace.nodes[index]
        args = list(made.args)
        for name, value in saved.items():
            if name in op.outputs:
                made.values[op.outputs.index(name)] = recorder._kept(value, "values", index)
            elif name in op.inputs and not (op.variadic and name == op.inputs[-1]):
                position = op.inputs.index(name)
                edge = args[position]
                if edge is None:
                    args[position] = value
                elif trace.nodes[edge.node].values[edge.output] is None:
                    kept = recorder._kept(value, "values", edge.node)
                    trace.nodes[edge.node].values[edge.output] = kept
        made.args = tuple(args)
