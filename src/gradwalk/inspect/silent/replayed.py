"""A recorded step computed again with other inputs: what depends on what is measured, not read.

The op table computes each operation again, in the order of the recording. Random numbers and the
statistics of batch norm stay those of the recording: rows that only share them do not count as
rows that influence one another.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gradwalk.inspect.mistakes.function_contributions import same_value
from gradwalk.inspect.silent.step_parts import MOVES
from gradwalk.inspect.trace.replay import NotReplayable, forward, is_array, op_of, operands
from gradwalk.inspect.trace.routes import leading_to, reached
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.ops.core.dtypes import dtype_named

BATCH_NORM = frozenset(("batch_norm", "batch_norm_update"))
MOST_NUMBERS = 50_000_000  # of all values together: a larger step is not computed again


class Replays:
    """Replays of what leads from some leaves (`places`) to some results (`goals`)."""

    def __init__(self, trace: Trace, places: Iterable[Edge], goals: Iterable[Edge]) -> None:
        self.trace = trace
        self.places = set(places)
        follows: set[int] = set()
        for edge in self.places:
            follows.update(reached(trace, edge.node, self._follows))
        leading = _with_custom_functions(trace, {edge.node for edge in goals})
        known = {edge.node for edge in self.places}
        self.nodes = sorted((follows & leading) - known)
        metas = (shape for i in self.nodes for shape, _ in trace.nodes[i].metas)
        if sum(int(np.prod(shape)) for shape in metas) > MOST_NUMBERS:
            raise NotReplayable("the step is too large to be computed again")
        # Two replays differ by the changes alone, not by the rounding of another engine.
        self.unchanged = self.run({})

    def _follows(self, consumer: int, argument: int) -> bool:
        """Whether a change is carried on; a mask that was computed from data stays."""
        node = self.trace.nodes[consumer]
        return node.needs_grad or node.op in MOVES or bool(node.note)

    def run(self, changes: dict[Edge, Any]) -> Trace:
        """The trace with these results changed; raise NotReplayable at an unknown operation."""
        trace, values = self.trace, dict(changes)
        other = copy.copy(trace)
        other.nodes, other.sweeps = list(trace.nodes), []
        for edge in changes:
            node = trace.nodes[edge.node]
            kept = [values.get(Edge(node.index, k), v) for k, v in enumerate(node.values)]
            other.nodes[node.index] = replace(node, values=kept)
        for index in self.nodes:
            node = trace.nodes[index]
            outputs = _computed(trace, node, values)
            values.update({Edge(index, k): out for k, out in enumerate(outputs)})
            other.nodes[index] = replace(node, values=outputs)
        return other


def _with_custom_functions(trace: Trace, goals: set[int]) -> set[int]:
    """All that lead to some results, the operations inside custom Functions included."""
    leading = leading_to(trace, goals)
    for index in sorted(leading, reverse=True):
        node = trace.nodes[index]
        if not node.is_leaf and op_of(node) is None:
            edges = (same_value(trace, node, k) for k in range(len(node.metas)))
            inside = {edge.node for edge in edges if edge is not None}
            leading |= leading_to(trace, inside - leading)
    return leading


def _computed(trace: Trace, node: TraceNode, values: dict[Edge, Any]) -> list[Any]:
    if _normalises_batch(trace, node):
        return [_with_recorded_statistics(trace, node, values)]
    if node.note in ("detach", "data"):  # a copy of its operand
        return [operands(trace, node, values)[0]]
    if op_of(node) is None:
        return _custom(trace, node, values)
    try:
        with np.errstate(all="ignore"):
            outputs = forward(trace, node, values)
    except (ValueError, TypeError, IndexError) as error:
        raise NotReplayable(f"{trace.name(node.index)} was not computed again: {error}") from error
    return [np.asarray(out, dtype_named(form)) for out, (_, form) in zip(outputs, node.metas)]


def _custom(trace: Trace, node: TraceNode, values: dict[Edge, Any]) -> list[Any]:
    """What a custom Function returns: the results of the operations inside its forward."""
    inside = [same_value(trace, node, k) for k in range(len(node.metas))]
    if any(edge is None for edge in inside):
        raise NotReplayable(f"the op table has no '{node.op}'")
    return [values.get(e, trace.nodes[e.node].values[e.output]) for e in inside if e is not None]


def _normalises_batch(trace: Trace, node: TraceNode) -> bool:
    if node.op in BATCH_NORM:
        return bool(node.attrs.get("training", True))
    groups = trace.group_path(node.index)
    inside = bool(groups) and "BatchNorm" in groups[-1].class_name
    return inside and node.op.startswith("standardize")


def _with_recorded_statistics(trace: Trace, node: TraceNode, values: dict[Edge, Any]) -> Any:
    """Batch norm as the affine map per channel that its recorded output shows."""
    before = operands(trace, node)[0]
    now, out = operands(trace, node, values)[0], node.value
    if not is_array(out) or before.ndim < 2:
        raise NotReplayable("the output of batch norm was not kept")
    axes = tuple(axis for axis in range(before.ndim) if axis != 1)
    x, y = before.astype(np.float64), out.astype(np.float64)
    center, middle = x.mean(axes, keepdims=True), y.mean(axes, keepdims=True)
    spread = np.square(x - center).sum(axes, keepdims=True)
    slope = ((x - center) * (y - middle)).sum(axes, keepdims=True) / np.where(spread, spread, 1.0)
    return ((now - center) * slope + middle).astype(out.dtype)
