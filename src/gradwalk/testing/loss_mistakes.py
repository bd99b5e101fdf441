"""Losses that are computed from the wrong thing, as their numbers and shapes show."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Trace


class LossMistake(NamedTuple):
    """The operation to change, and why."""

    node: int
    why: str
    fix: str


def loss_mistake(trace: Trace) -> LossMistake | None:
    """What is wrong with a loss that does not do what a loss should; None if nothing is seen."""
    given = _probabilities(trace)
    if given is not None:
        return LossMistake(
            given,
            "cross entropy takes logits and applies softmax itself; here it gets probabilities, so "
            "its loss cannot reach 0 and its gradients are small.",
            "return the logits, without the softmax; apply softmax where you predict.",
        )
    for node in trace:
        shapes = [trace.shape_of(edge) for _, edge in node.edges]
        if len(shapes) == 2 and sorted(shapes, key=len) == [node.shape[:1], (*node.shape[:1], 1)]:
            return LossMistake(
                node.index,
                f"{shapes[0]} against {shapes[1]} broadcasts to {node.shape}: every row is "
                "compared with the target of every other.",
                "equal shapes: output.squeeze(1), or target[:, None].",
            )
    return None


def _probabilities(trace: Trace) -> int | None:
    """The result that cross entropy is given, if it is positive and sums to 1."""
    for node in trace:
        if node.op not in ("log_softmax", "cross_entropy") or not node.edges:
            continue
        edge = node.edges[0][1]
        values = trace.nodes[edge.node].values[edge.output]
        if not is_array(values) or values.ndim < 2 or values.min(initial=0) < 0:
            continue
        axes = [axis for axis, length in enumerate(values.shape) if length > 1]
        if any(np.allclose(values.sum(axis), 1, atol=1e-2) for axis in axes):
            return edge.node
    return None
