"""The parts of a recorded training step: its data, its targets, and where both meet in the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import leading_to, reached
from gradwalk.inspect.trace.trace import Edge, Shape, Trace, TraceNode

# Losses as one operation: the prediction first, then the target.
LOSSES = frozenset(
    ("nll_loss", "cross_entropy", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div",
     "binary_cross_entropy", "binary_cross_entropy_loss", "binary_cross_entropy_logits",
     "binary_cross_entropy_with_logits", "l1_loss", "soft_margin_loss", "nll_loss2d")
)  # fmt: skip
# What leaves the numbers of an operand as they are, or moves them.
MOVES = frozenset(
    ("reshape", "expand", "permute", "clone", "cast", "getitem", "split", "detach", "alias",
     "unbind")
)  # fmt: skip
WHOLE = MOVES - {"getitem", "split", "unbind"}  # of these, what leave nothing out


@dataclass(frozen=True)
class Head:
    """Where a prediction meets its target."""

    node: TraceNode
    prediction: Edge
    target: Edge


class StepParts:
    """What a recorded step is made of."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.leading = leading_to(trace, [trace.root]) if len(trace) else set()

    def values(self, edge: Edge) -> Any:
        """The numbers of a result; None if they were not kept."""
        values = self.trace.nodes[edge.node].values
        value = values[edge.output] if edge.output < len(values) else None
        return value if is_array(value) else None

    def source(self, edge: Edge, through: frozenset[str] = MOVES) -> Edge:
        """What an edge is a moved copy of: through reshape, permute, expand and their like."""
        while (node := self.trace.nodes[edge.node]).op in through and node.edges:
            edge = node.edges[0][1]
        return edge

    def is_data(self, edge: Edge) -> bool:
        """Whether a result comes from data alone, without a parameter."""
        return not self.trace.nodes[edge.node].needs_grad

    @cached_property
    def heads(self) -> list[Head]:
        """Where predictions meet targets, in the order of computation."""
        return [head for index in sorted(self.leading) for head in self._heads_at(index)]

    def _heads_at(self, index: int) -> Iterator[Head]:
        node = self.trace.nodes[index]
        edges = [edge for _, edge in node.edges]
        if not node.needs_grad:
            return
        if node.op in LOSSES and len(edges) >= 2:
            yield Head(node, edges[0], edges[1])
        elif node.op in ("sub", "mul") and len(edges) == 2 and self._is_in_loss(index):
            # A loss written by hand: (prediction - target) ** 2, -(target * log_probability).
            for one, other in (edges, edges[::-1]):
                if not self.is_data(one) and self._is_target(other):
                    yield Head(node, one, other)
        elif node.op == "getitem" and len(edges) >= 2 and self._is_in_loss(index):
            integers = [e for e in edges[1:] if self._integers(e) and self._is_target(e)]
            if integers:
                yield Head(node, edges[0], integers[-1])

    def _integers(self, edge: Edge) -> bool:
        return "int" in self.trace.nodes[edge.node].metas[edge.output][1]

    def _is_target(self, edge: Edge) -> bool:
        """Whether it is data that no parameter acts on: it reaches the loss here alone."""
        shape = self.trace.shape_of(edge)
        return self.is_data(edge) and len(shape) > 0 and max(shape, default=0) > 1

    @cached_property
    def _model(self) -> set[int]:
        """The operations that parameters act on data in, and all that lead to them."""
        acting = []
        for index in self.leading:
            node = self.trace.nodes[index]
            kinds = {self.has_data(e) for _, e in node.edges}
            with_parameter = any(self.is_parameter(e) for _, e in node.edges)
            if with_parameter and True in kinds:
                acting.append(index)
        return leading_to(self.trace, acting)

    def is_parameter(self, edge: Edge) -> bool:
        """A leaf that needs a gradient, perhaps moved."""
        node = self.trace.nodes[self.source(edge).node]
        return node.is_leaf and node.needs_grad

    @cached_property
    def _from_data(self) -> set[int]:
        found: set[int] = set()
        for node in self.trace:
            is_data = node.is_leaf and not node.needs_grad and node.shape
            if is_data or any(i in found for i in node.inputs):
                found.add(node.index)
        return found

    def has_data(self, edge: Edge) -> bool:
        """Whether a result depends on data."""
        return edge.node in self._from_data

    def _is_in_loss(self, index: int) -> bool:
        return index not in self._model

    def entries(self, goal: Edge) -> list[Edge]:
        """The data where the model takes them: after slices and casts, before parameters.

        `tokens[:, :-1]` enters, not `tokens`, whose last column is a target.
        """
        leading = leading_to(self.trace, [goal.node])
        found = []
        for index in sorted(leading):
            node = self.trace.nodes[index]
            if node.needs_grad or not self.has_data(Edge(index)) or index in self.trace.names:
                continue
            used = [c for c, _ in self.trace.consumers[index] if c in leading]
            if any(self.trace.nodes[c].needs_grad for c in used):
                found.append(self.source(Edge(index), WHOLE))
        return [edge for edge in dict.fromkeys(found) if self.values(edge) is not None]

    def shape(self, edge: Edge) -> Shape:
        """The shape of a result."""
        return self.trace.shape_of(edge)

    def trace_between(self, entries: list[Edge], goal: Edge) -> set[int]:
        """The operations on the way from some inputs to a result."""
        follows = {i for edge in entries for i in reached(self.trace, edge.node)}
        return follows & leading_to(self.trace, [goal.node])
