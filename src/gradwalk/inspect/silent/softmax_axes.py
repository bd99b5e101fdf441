"""Weights of a sum that were normalised over another axis than the one that is summed.

Attention is softmax(scores) @ values: the product sums over the axis of the keys, so the weights
must sum to 1 along it. A softmax over the queries gives a result of the same shape.

Not every such sum is a mistake. Points may be assigned to clusters, softmax over the outputs of a
layer, and then summed for each cluster (NetVLAD, capsules, a Dice loss). So the origin of the axes
counts: it is a mistake if the scores are a product of data with data, or if the weights of what a
layer offers (experts) are normalised over positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.inspect.silent.loss_mistakes import LossMistake
from gradwalk.inspect.silent.step_parts import StepParts
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

_SOFTMAX = frozenset(("softmax", "safe_softmax"))
_LAYERS = frozenset(("linear", "addmm", "add", "matmul"))
_SAME = frozenset(("clone", "cast", "dropout", "alias"))
_SCALES = _SAME | {"div", "mul", "add", "sub", "where", "masked_fill", "neg"}  # of scores
LARGEST = 1 << 22  # elements of a softmax to follow


def softmax_axes(trace: Trace) -> Iterator[LossMistake]:
    """Every softmax of one number, and every one whose weights are summed over another axis.

    A table of transition probabilities is a parameter, and may be normalised over what it leads to.
    """
    parts = StepParts(trace)
    for node in trace:
        if node.op not in _SOFTMAX or not node.needs_grad or not parts.has_data(Edge(node.index)):
            continue
        axis = int(node.attrs["axis"]) % len(node.shape)
        if node.shape[axis] == 1:
            yield from _of_one(parts, node, axis)
            continue
        of_layer = _axes_of_layers(parts, node)
        if of_layer is None or axis in of_layer or np.prod(node.shape) > LARGEST:
            continue
        for user, summed in _sums(parts, node):
            # Of a product of data with data no axis is a layer's own.
            if summed and axis not in summed and (not of_layer or summed <= of_layer):
                yield _mistake(trace, node, user, axis, min(summed))


def _of_one(parts: StepParts, node: TraceNode, axis: int) -> Iterator[LossMistake]:
    """A softmax over the one output of a layer, which is always 1."""
    source = parts.trace.nodes[parts.source(node.edges[0][1]).node]
    if source.op in _LAYERS and axis == len(node.shape) - 1 and max(node.shape) > 1:
        yield LossMistake(
            "softmax axis",
            node.index,
            f"its operand of shape {node.shape} has one number along dim={axis}, and a softmax of "
            "one number is always 1: no gradient flows.",
            "a sigmoid for one output, one output per class, or a softmax over the axis of the "
            "items that are weighted.",
        )


def _axes_of_layers(parts: StepParts, node: TraceNode) -> set[int] | None:
    """The axes of a softmax that are the outputs of a layer, not data; None if it is not known."""
    trace, axes = parts.trace, list(range(len(node.shape)))  # where each axis is in the operand
    edge = node.edges[0][1]
    while True:
        made = trace.nodes[edge.node]
        if made.op == "permute":
            axes = [made.attrs["axes"][a] for a in axes]
        elif made.op == "reshape":
            before = trace.shape_of(made.edges[0][1])
            kept = 0  # last axes that stay
            while kept < min(len(before), len(made.shape)) and (
                before[-1 - kept] == made.shape[-1 - kept]
            ):
                kept += 1
            lost, shift = len(made.shape) - kept, len(before) - len(made.shape)
            axes = [-1 if a < lost else a + shift for a in axes]
        elif made.op not in _SCALES:
            break
        edges = [e for _, e in made.edges if parts.has_data(e)]
        same = [e for e in edges if trace.shape_of(e) == made.shape and not parts.is_data(e)]
        if not edges or (made.op in _SCALES and not same):
            return None
        edge = (same or edges)[0]
    own = _own_axis(parts, made)
    return None if own is None else {k for k, a in enumerate(axes) if own and a == own[0]}


def _own_axis(parts: StepParts, made: TraceNode) -> list[int] | None:
    """The axis of a result that its weight brings: none of a product of data; None: not known."""
    last = len(made.shape) - 1
    with_data = [parts.has_data(e) for _, e in made.edges]
    if made.op in ("linear", "addmm"):
        return [last]
    if made.op.startswith("conv") and made.op != "conv_weight":
        return [1]
    if made.op != "matmul" or len(with_data) != 2 or not any(with_data):
        return None
    return [] if all(with_data) else [last] if with_data[0] else [last - 1]


def _sums(parts: StepParts, node: TraceNode) -> Iterator[tuple[int, set[int]]]:
    """The operations that sum what a softmax weights, and the axes of it that each sums over.

    The number of each weight is moved as the weights are, and read where they are summed.
    """
    trace = parts.trace
    waiting = [(node.index, np.arange(np.prod(node.shape)).reshape(node.shape))]
    while waiting:
        index, places = waiting.pop()
        for consumer, position in trace.consumers[index]:
            other = trace.nodes[consumer]
            if other.op == "matmul" and places.ndim >= 2:
                yield consumer, _varying(places, [-1 if position == 0 else -2], node.shape)
            elif other.op == "einsum":
                given, result = other.attrs["equation"].replace(" ", "").split("->")
                letters = given.split(",")[position]
                if "." not in given:
                    summed = [k for k, letter in enumerate(letters) if letter not in result]
                    yield consumer, _varying(places, summed, node.shape)
            elif other.op == "permute":
                waiting.append((consumer, np.transpose(places, other.attrs["axes"])))
            elif other.op == "reshape":
                waiting.append((consumer, places.reshape(other.shape)))
            elif other.op == "expand":
                waiting.append((consumer, np.broadcast_to(places, other.shape)))
            elif other.op in _SAME or _is_dropout(trace, other, index):
                waiting.append((consumer, places))
            elif other.op == "mul" and _weights(parts, other, index):
                whole = np.broadcast_to(places, other.shape)
                for user, _ in trace.consumers[consumer]:
                    if trace.nodes[user].op == "sum":
                        axes = trace.nodes[user].attrs.get("axis")
                        summed = list(range(whole.ndim) if axes is None else np.atleast_1d(axes))
                        yield user, _varying(whole, summed, node.shape)


def _varying(places: Any, summed: list[int], shape: tuple[int, ...]) -> set[int]:
    """The axes of the softmax that change along some axes of what it became."""
    first = tuple(
        slice(None) if k in {a % places.ndim for a in summed} else 0 for k in range(places.ndim)
    )
    where = np.unravel_index(np.ravel(places[first]), shape)
    return {k for k, index in enumerate(where) if index.size and (index != index[0]).any()}


def _weights(parts: StepParts, node: TraceNode, operand: int) -> bool:
    """Whether a product weights what the model computed from data."""
    others = [edge for _, edge in node.edges if edge.node != operand]
    return len(others) == 1 and parts.has_data(others[0]) and not parts.is_data(others[0])


def _is_dropout(trace: Trace, node: TraceNode, operand: int) -> bool:
    """A product with a mask of the same shape that needs no gradient, or a dropout."""
    others = [edge for _, edge in node.edges if edge.node != operand]
    same = all(trace.shape_of(edge) == node.shape for edge in others)
    return (
        node.op == "mul"
        and same
        and len(others) == 1
        and not trace.nodes[others[0].node].needs_grad
    )


def _mistake(trace: Trace, node: TraceNode, product: int, axis: int, summed: int) -> LossMistake:
    where = trace.nodes[product].line
    line = "" if where is None else f" ({where})"
    return LossMistake(
        "softmax axis",
        node.index,
        f"it normalises over dim={axis}, but what uses its weights sums over "
        f"dim={summed}{line}: what is summed has weights that do not add up to 1.",
        "softmax over the axis that is summed (the keys, the experts): "
        f"dim={summed - len(node.shape)}.",
    )
