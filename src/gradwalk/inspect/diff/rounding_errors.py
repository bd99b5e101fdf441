"""Rounding: how far an operation's recorded result is from float64, and whether that is in line."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.inspect.diff.known_values import KnownValues
from gradwalk.inspect.diff.numbers import between, computed
from gradwalk.inspect.trace.replay import NotReplayable
from gradwalk.inspect.trace.trace import Edge, TraceNode

IN_LINE = 16  # times the rounding of operands and result


class RoundingErrors:
    """The rounding errors of the operations of one trace."""

    def __init__(self, side: KnownValues) -> None:
        self.side = side
        self._known: dict[int, tuple[float, Any] | None] = {}

    def of(self, index: int) -> float:
        """The distance of a result from float64 on the recorded operands; NaN if unknown."""
        known = self._at(index)
        return np.nan if known is None else known[0]

    def _at(self, index: int) -> tuple[float, Any] | None:
        if index not in self._known:
            self._known[index] = self._measured(self.side.trace.nodes[index])
        return self._known[index]

    def _measured(self, node: TraceNode) -> tuple[float, Any] | None:
        recorded = self.side.value(Edge(node.index))
        if node.is_leaf or recorded is None or recorded.dtype.kind != "f":
            return None
        try:
            right = computed(node, self._operands(node))[0]
        except NotReplayable:
            return None
        return between(recorded, right), right

    def _operands(self, node: TraceNode) -> list[Any]:
        return [self.side.value(a) if isinstance(a, Edge) else a for a in node.args]

    def is_out_of_line(self, index: int, eps: float) -> bool:
        """Whether a result is further from float64 than computing with this precision explains."""
        known = self._at(index)
        if known is None or known[0] <= IN_LINE * eps or not np.isfinite(known[0]):
            return False
        return known[0] > IN_LINE * (eps + self._sensitivity(index, eps))

    def _sensitivity(self, index: int, eps: float) -> float:
        """How much a result changes if every operand is rounded to this precision."""
        known, node = self._at(index), self.side.trace.nodes[index]
        noise = np.random.default_rng(0)
        moved = [
            x * (1 + eps * noise.choice((-1.0, 1.0), np.shape(x)))
            if isinstance(x, np.ndarray) and x.dtype.kind == "f"
            else x
            for x in self._operands(node)
        ]
        try:
            return between(computed(node, moved)[0], known[1]) if known else 0.0
        except NotReplayable:
            return 0.0
