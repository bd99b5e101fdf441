"""Weights of a sum that were normalised over another axis than the one that is summed.

Attention is softmax(scores) @ values: the product sums over the axis of the keys, so the weights
must sum to 1 along it. A softmax over the queries gives a result of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwalk.inspect.silent.loss_mistakes import LossMistake
from gradwalk.inspect.silent.step_parts import StepParts
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

_SOFTMAX = frozenset(("softmax", "safe_softmax"))
_LAYERS = frozenset(("linear", "addmm", "add", "matmul"))


def softmax_axes(trace: Trace) -> Iterator[LossMistake]:
    """Every softmax of one number, and every one that a product sums over another axis.

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
        for product, position, axes in _products(trace, node):
            summed = axes[-1 if position == 0 else -2]
            if summed not in (axis, -1) and node.shape[summed] > 1:
                yield _mistake(trace, node, product, axis, summed)


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


def _products(trace: Trace, node: TraceNode) -> Iterator[tuple[int, int, list[int]]]:
    """The matrix products that read a softmax, and its axis behind each axis of their operand."""
    waiting = [(node.index, list(range(len(node.shape))))]
    while waiting:
        index, axes = waiting.pop()
        shape = trace.nodes[index].shape
        for consumer, position in trace.consumers[index]:
            other = trace.nodes[consumer]
            if other.op == "matmul" and len(shape) >= 2:
                yield consumer, position, axes
            elif other.op == "permute":
                waiting.append((consumer, [axes[a] for a in other.attrs["axes"]]))
            elif other.op in ("reshape", "expand") and other.shape[-2:] == shape[-2:]:
                lead = len(other.shape) - 2
                waiting.append((consumer, [-1] * lead + axes[-2:]))
            elif other.op in ("clone", "cast") or _is_dropout(trace, other, index):
                waiting.append((consumer, axes))


def _is_dropout(trace: Trace, node: TraceNode, operand: int) -> bool:
    """A product with a mask of the same shape that needs no gradient, or a dropout."""
    if node.op == "dropout":
        return True
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
        f"it normalises over dim={axis}, but the product that uses its weights sums over "
        f"dim={summed}{line}: what is summed has weights that do not add up to 1.",
        f"softmax over the axis that is summed, the keys: dim={summed - len(node.shape)}.",
    )
