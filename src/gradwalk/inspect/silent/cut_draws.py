"""A random draw whose parameters are trained, made where no gradient can pass through it.

`z = Normal(mu, std).sample()`, or `mu + std * noise` inside `no_grad`, feeds a decoder, and the
decoder's loss never reaches `mu`. Nothing is None: another term of the loss trains `mu` meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.silent.step_parts import StepParts
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import group_name, leading_to, listed, reached
from gradwalk.inspect.trace.trace import Trace, TraceNode

_DRAWS = frozenset(("aten.normal", "normal"))  # they take the parameters of the distribution
_DISTINCT = 0.9  # the share of different numbers in what was drawn from a continuous distribution


def cut_draws(trace: Trace) -> list[Finding]:
    """Draws that a trained layer reads, and that cut the gradient of what they were drawn from."""
    parts = StepParts(trace)
    trained = leading_to(trace, [trace.root], lambda edge: trace.nodes[edge.node].needs_grad)
    draws = {draw.made.index: draw for i in sorted(trained) for draw in _read_by(parts, i)}
    found: dict[object, Finding] = {}
    for draw in draws.values():
        if draw.sources and draw.sources <= trained and draw.is_random() and not draw.is_scored():
            found.setdefault(draw.line, draw.finding())
    return list(found.values())


def _read_by(parts: StepParts, index: int) -> Iterator[_Draw]:
    """What cuts a gradient among the inputs of a layer with parameters, moved or joined."""
    edges = [edge for _, edge in parts.trace.nodes[index].edges]
    if any(parts.is_parameter(edge) for edge in edges):
        for edge in edges:
            for start in _without_gradient(parts.trace, edge.node):
                made = parts.trace.nodes[start]
                if made.note == "no_grad" or made.op in _DRAWS:
                    yield _Draw(parts, made)


def _without_gradient(trace: Trace, index: int) -> set[int]:
    """The operations without a gradient that lead to a result, as far as results with one."""

    def has_none(index: int) -> bool:
        return bool(trace.nodes[index].op) and not trace.nodes[index].needs_grad

    return leading_to(trace, [index], lambda e: has_none(e.node)) if has_none(index) else set()


class _Draw:
    """A result that may be a random draw, and what it was made from."""

    def __init__(self, parts: StepParts, made: TraceNode) -> None:
        self.trace = trace = parts.trace
        self.made = made
        self.region = _without_gradient(trace, made.index)
        self.line = made.block or made.line
        self._operands = [edge for i in self.region for _, edge in trace.nodes[i].edges]
        with_gradient = (e for e in self._operands if trace.nodes[e.node].needs_grad)
        origins = (parts.source(edge).node for edge in with_gradient)
        self.sources = {node for node in origins if trace.nodes[node].op}

    def is_random(self) -> bool:
        """Whether it was drawn: by an operation, or from noise made beside it. No detach: meant."""
        nodes = [self.trace.nodes[i] for i in self.region]
        if any(node.note == "detach" for node in nodes):
            return False
        shapes = {self.trace.nodes[source].shape for source in self.sources}
        leaves = (self.trace.nodes[edge.node] for edge in self._operands)
        return any(node.op in _DRAWS for node in nodes) or any(
            leaf.is_leaf and leaf.shape in shapes and self._is_fresh_noise(leaf) for leaf in leaves
        )

    def _is_fresh_noise(self, leaf: TraceNode) -> bool:
        """Whether a leaf was made in the same function, and its numbers all differ."""
        if leaf.needs_grad or leaf.line is None or self.made.line is None:
            return False
        function = self.made.line.file, self.made.line.function
        values = leaf.value
        if (leaf.line.file, leaf.line.function) != function or not is_array(values):
            return False
        drawn = values.dtype.kind == "f" and values.size > 1
        return drawn and len(np.unique(values)) > _DISTINCT * values.size

    def is_scored(self) -> bool:
        """Whether it meets its own parameters again: log_prob(draw), a straight-through sum."""

        def with_gradient(consumer: int, _: int) -> bool:
            return self.trace.nodes[consumer].needs_grad

        followers = {
            i for source in self.sources for i in reached(self.trace, source, with_gradient)
        }
        moved = reached(self.trace, self.made.index, lambda i, _: not with_gradient(i, 0))
        readers = {consumer for i in moved for consumer, _ in self.trace.consumers[i]}
        operands = (e.node for i in readers for _, e in self.trace.nodes[i].edges)
        return any(node in followers for node in operands)

    def finding(self) -> Finding:
        """What is wrong, and the change to try."""
        groups = (group_name(self.trace, i) or self.trace.name(i) for i in sorted(self.sources))
        return Finding(
            "cut draw",
            group_name(self.trace, self.made.index),
            float(len(self.sources)),
            f"a random draw from what {listed(list(dict.fromkeys(groups)), 4)} computes has no "
            "gradient, and trained layers read it: the loss behind them never reaches the "
            "parameters of the draw; only other terms of the loss train them.",
            "draw so that the gradient passes: rsample() instead of sample(), or mean + scale * "
            "noise outside no_grad.",
            self.line,
            confidence="likely",
            basis="the recording has the draw, a gradient of its parameters from elsewhere, and no "
            "path through the draw; nothing scores it as log_prob does.",
        )
