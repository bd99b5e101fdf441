"""The values of one trace, to be found again in another: by number, not by name."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

import numpy as np

from gradwalk.inspect.diff.numbers import (
    FEW,
    between,
    doubles,
    fits_bfloat16,
    in_order,
    precision_of,
)
from gradwalk.inspect.trace.replay import is_array, op_of
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.ops.core.dtypes import dtype_named, is_floating

# Ops without arithmetic: they move numbers, and implementations differ freely in them.
_MOVES = frozenset(("cast", "clone", "concatenate", "detach", "flip"))


def moves(node: TraceNode) -> bool:
    """Whether an operation only moves numbers."""
    op = op_of(node)
    return node.op in _MOVES or (op is not None and op.view)


class KnownValues:
    """The part of a trace that leads to its ends, and its values as float64."""

    def __init__(self, trace: Trace, ends: list[int] | None = None) -> None:
        self.trace = trace
        self.ends = ends or list(dict.fromkeys(s.root for s in trace.sweeps)) or [trace.root]
        self.used = sorted(leading_to(trace, self.ends))
        self._precision: dict[Edge, float] = {}
        self._classes: dict[Edge, Any] = {}
        self._by_size: dict[int, list[tuple[float, Edge]]] = defaultdict(list)
        for index in self.used:
            for output in range(len(trace.nodes[index].metas)):
                self._take_in(Edge(index, output))

    def _take_in(self, edge: Edge) -> None:
        value = self.value(edge)
        if value is not None:
            self._by_size[value.size].append((_size(value), edge))

    def value(self, edge: Edge) -> Any:
        """A recorded value in float64; None if it was not kept."""
        values = self.trace.nodes[edge.node].values
        return doubles(values[edge.output]) if edge.output < len(values) else None

    def node(self, edge: Edge) -> TraceNode:
        """The node of an output."""
        return self.trace.nodes[edge.node]

    def is_float(self, edge: Edge) -> bool:
        """Whether an output has a floating-point dtype."""
        dtype = self.node(edge).metas[edge.output][1]
        return dtype == "float" or is_floating(dtype_named(dtype))

    def precision(self, edge: Edge) -> float:
        """The relative precision of a value; of a few numbers, as of what they were made from."""
        known = self._precision.get(edge)
        if known is not None:
            return known
        node = self.node(edge)
        kept: Any = node.values[edge.output] if edge.output < len(node.values) else None
        eps = precision_of(kept, node.metas[edge.output][1])
        if 1e-9 < eps < 1e-5 and is_array(kept) and np.size(kept) < FEW and fits_bfloat16(kept):
            inputs = [self.precision(a) for a in node.args if isinstance(a, Edge)]
            eps = max([eps, *inputs])
        self._precision[edge] = eps
        return eps

    @functools.cached_property
    def coarsest(self) -> float:
        """The lowest precision of any value."""
        outputs = (Edge(i, k) for i in self.used for k in range(len(self.trace.nodes[i].metas)))
        return max(map(self.precision, outputs), default=0.0)

    def class_of(self, edge: Edge) -> Any:
        """A key that is the same for all outputs with the same numbers, however arranged."""
        if edge not in self._classes:
            value = self.value(edge)
            self._classes[edge] = (
                ("unknown", edge) if value is None else (value.size, in_order(value).tobytes())
            )
        return self._classes[edge]

    def near(self, value: Any, tolerance: float) -> list[tuple[float, Edge]]:
        """The outputs whose numbers are those of `value` up to a tolerance, with the distance."""
        size = _size(value)
        found = []
        for other, edge in self._by_size[value.size]:
            if abs(size - other) <= tolerance * max(size, other):
                distance = between(value, self.value(edge))
                if distance <= tolerance:
                    found.append((distance, edge))
        return found


def _size(value: Any) -> float:
    """The norm of the finite elements."""
    flat = np.asarray(value, np.float64).ravel()
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(np.where(np.isfinite(flat), flat, 0.0)))
