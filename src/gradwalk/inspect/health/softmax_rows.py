"""The rows of a softmax: what each may choose from, how flat it is, and whether it has learned.

A row that has picked one element has no slope left. That is a fault if the pick was made before
training (scores that are too large), and the goal if it was learned: attention that looks up one
token. To tell them apart, the loss is computed again with equal weights: without a learned choice
it rises, without a random one it does not. Where it cannot be computed again, the gradient tells
whether the picks are better than the average of what else there was to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.health.gradient_flow import Anatomy
from gradwalk.inspect.trace.array_statistics import array_of
from gradwalk.inspect.trace.replay import NotReplayable, forward, operands
from gradwalk.inspect.trace.routes import reached
from gradwalk.inspect.trace.trace import Edge, TraceNode
from gradwalk.ops import TABLE

MASKED = -9e3  # a score below is a mask: -1e4, -1e9, -inf
RISES = 0.1  # of the loss, without a learned choice
LEARNED = 0.2  # how much better a learned pick is, by the spread of the gradients in its row


@dataclass(frozen=True)
class SoftmaxRows:
    """The weights of a softmax, the summed axis last, of rows with a choice."""

    weights: Any  # (rows, elements)
    allowed: Any  # elements that no mask excludes
    gradient: Any  # of the weights; None if it was not kept

    @property
    def slope(self) -> Any:
        """Per row 1 − Σ weight²: 0 if one element has it all."""
        return 1 - (self.weights * self.weights).sum(-1)

    def is_pulled_here(self, flat: Any) -> bool:
        """Whether these rows picked what the loss wants, on average."""
        if self.gradient is None or not flat.any():
            return False
        g, allowed = self.gradient[flat], self.allowed[flat]
        if not np.isfinite(g).all():
            return False
        count = allowed.sum(-1)
        mean = np.where(allowed, g, 0).sum(-1) / count
        spread = np.sqrt(np.where(allowed, (g - mean[:, None]) ** 2, 0).sum(-1) / count)
        picked = np.take_along_axis(g, self.weights[flat].argmax(-1)[:, None], -1)[:, 0]
        total = float(spread.sum())
        return total > 0 and float((mean - picked).sum()) > LEARNED * total


def softmax_rows(anatomy: Anatomy, node: TraceNode) -> SoftmaxRows | None:
    """The rows of a softmax or attention that have a choice; None if they are unknown."""
    found = _softmax(anatomy, node) if node.op == "softmax" else _attention(anatomy, node)
    if found is None or not found[0].size:
        return None
    weights, allowed, gradient = found
    rows = np.broadcast_to(allowed, weights.shape).reshape(-1, weights.shape[-1])
    chooses = rows.sum(-1) > 1
    if not chooses.any():
        return None
    flat = [x if x is None else x.reshape(rows.shape)[chooses] for x in (weights, gradient)]
    return SoftmaxRows(flat[0], rows[chooses], flat[1])


def is_learned(anatomy: Anatomy, node: TraceNode, flatness: float) -> bool:
    """Whether the rows of a softmax that are flatter than this learned to be."""
    rows = softmax_rows(anatomy, node)
    if rows is None:
        return False
    try:
        before, after = (
            float(np.asarray(loss).item()) for loss in _with_equal_weights(anatomy, node)
        )
        return after > before + RISES * abs(before)
    except (NotReplayable, ValueError, TypeError, IndexError):
        return rows.is_pulled_here(rows.slope < flatness)


def _with_equal_weights(anatomy: Anatomy, node: TraceNode) -> tuple[Any, Any]:
    """The loss, and what it would be if a softmax gave every element the same weight."""
    trace = anatomy.trace
    found = _softmax(anatomy, node) if node.op == "softmax" else _attention(anatomy, node)
    if found is None:
        raise NotReplayable("the weights were not kept")
    allowed = np.broadcast_to(found[1], found[0].shape)
    equal = (allowed / np.maximum(allowed.sum(-1, keepdims=True), 1)).astype(found[0].dtype)
    if node.op == "softmax":
        equal = np.moveaxis(equal, -1, node.attrs["axis"])
    else:
        equal = np.matmul(equal, operands(trace, node)[2])
    values = {Edge(node.index): equal}
    for index in sorted(reached(trace, node.index)):
        if index != node.index:
            outputs = forward(trace, trace.nodes[index], values)
            values |= {Edge(index, k): out for k, out in enumerate(outputs)}
    return trace.nodes[trace.root].value, values[Edge(trace.root)]


def _softmax(anatomy: Anatomy, node: TraceNode) -> tuple[Any, Any, Any] | None:
    axis = node.attrs["axis"]
    out, scores, g = (
        None if (array := array_of(kept)) is None else np.moveaxis(array, axis, -1)
        for kept in (
            anatomy.value(node.index),
            anatomy.value(node.inputs[0]),
            anatomy.sweep.grad(node.index),
        )
    )
    if out is None:
        return None
    return out, np.True_ if scores is None else scores > MASKED, g


def _attention(anatomy: Anatomy, node: TraceNode) -> tuple[Any, Any, Any] | None:
    try:
        args = operands(anatomy.trace, node)
    except NotReplayable:
        return None
    if any(array_of(a) is None for a in args):
        return None
    weights = TABLE["attention"].forward(*args, **node.attrs)[1]
    allowed = np.ones(weights.shape[-2:], bool)
    g = array_of(anatomy.sweep.grad(node.index))
    back = None if g is None else np.matmul(g, args[2].mT)
    return weights, np.tril(allowed) if node.attrs["causal"] else allowed, back
