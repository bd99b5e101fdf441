"""Losses that are computed from the wrong thing, as their numbers and shapes show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradwalk.inspect.silent.step_parts import WHOLE, Head, StepParts
from gradwalk.inspect.trace.trace import Edge, Trace

_LOGITS = frozenset(("binary_cross_entropy_logits", "binary_cross_entropy_with_logits"))
_CROSS_ENTROPY = frozenset(("log_softmax", "cross_entropy"))
_NEAR = 1e-2  # how far from 1 a sum of probabilities may be, in half precision
_FIX_LOGITS = "return the logits, without the softmax; apply softmax where you predict."


class LossMistake(NamedTuple):
    """The operation to change, and why."""

    kind: str
    node: int
    why: str
    fix: str


def loss_mistake(trace: Trace) -> LossMistake | None:
    """What is wrong with a loss that does not do what a loss should; None if nothing is seen."""
    return next(loss_mistakes(trace), None)


def loss_mistakes(trace: Trace) -> Iterator[LossMistake]:
    """All that is wrong with the losses of a step, the surest first."""
    parts = StepParts(trace)
    yield from _probabilities(parts)
    for head in parts.heads:
        yield from _not_log_probabilities(parts, head)
        yield from _twice_sigmoid(parts, head)
        yield from _targets_below_zero(parts, head)
    yield from _broadcast(parts)


def _probabilities(parts: StepParts) -> Iterator[LossMistake]:
    """Cross entropy whose operand is positive and sums to 1."""
    for index in sorted(parts.leading):
        node = parts.trace.nodes[index]
        if node.op not in _CROSS_ENTROPY or not node.edges:
            continue
        edge = node.edges[0][1]
        made = _made_by(parts, edge, ("softmax", "safe_softmax", "log_softmax"))
        values = parts.values(edge)
        if made is None or values is None or values.ndim < 2:
            continue
        if made.op == "log_softmax":  # harmless: log_softmax of log_softmax is the same
            continue
        if _sums_to_one(values):
            yield LossMistake(
                "probabilities",
                edge.node if parts.trace.nodes[edge.node].op == made.op else made.index,
                "cross entropy takes logits and applies softmax itself; here it gets "
                "probabilities, so its loss cannot reach 0 and its gradients are small.",
                _FIX_LOGITS,
            )


def _not_log_probabilities(parts: StepParts, head: Head) -> Iterator[LossMistake]:
    """nll_loss of what are no log-probabilities over the classes."""
    if not _is_nll(parts, head):
        return
    values = parts.values(head.prediction)
    if values is None or values.ndim < 2 or not np.isfinite(values).any():
        return
    with np.errstate(all="ignore"):
        chances = np.exp(values.astype(np.float64))
    axis = 1 if head.node.op == "nll_loss" else values.ndim - 1
    if np.allclose(chances.sum(axis), 1, atol=_NEAR):
        return
    others = [a for a, n in enumerate(values.shape) if a != axis and n > 1]
    made = _made_by(parts, head.prediction, ("log_softmax", "softmax", "safe_softmax"))
    at = head.node.index if made is None else made.index
    if made is not None and any(np.allclose(chances.sum(a), 1, atol=_NEAR) for a in others):
        yield LossMistake(
            "softmax axis",
            at,
            f"{made.op} normalises over dim={made.attrs.get('axis')}, but the loss reads "
            f"log-probabilities of classes along dim={axis}: the chances of a row do not sum to 1.",
            f"{made.op}(..., dim={axis}).",
        )
    elif _sums_to_one(values, (axis,)):
        yield LossMistake(
            "probabilities",
            at,
            "nll_loss takes log-probabilities; here it gets probabilities, so its loss is between "
            "-1 and 0 and its gradients do not grow where the model is wrong.",
            "log_softmax instead of softmax, or cross_entropy of the logits.",
        )
    elif made is None:
        yield LossMistake(
            "logits",
            at,
            "nll_loss takes log-probabilities; here it gets numbers whose exponentials do not sum "
            "to 1, so the loss can fall without bound while nothing is learned.",
            "log_softmax(..., dim=1) before it, or cross_entropy of the logits.",
        )


def _is_nll(parts: StepParts, head: Head) -> bool:
    """Whether a loss picks the entry of the target's class and negates it."""
    if head.node.op == "nll_loss":
        return True
    if head.node.op != "getitem" or len(parts.shape(head.prediction)) != 2:
        return False
    at = head.node.index
    while True:
        used = [c for c, _ in parts.trace.consumers[at] if c in parts.leading]
        if len(used) != 1:
            return False
        at = used[0]
        op = parts.trace.nodes[at].op
        if op == "neg":
            return True
        if op not in ("reshape", "squeeze"):
            return False


def _twice_sigmoid(parts: StepParts, head: Head) -> Iterator[LossMistake]:
    if head.node.op not in _LOGITS:
        return
    made = _made_by(parts, head.prediction, ("sigmoid", "softmax", "safe_softmax"))
    if made is not None:
        yield LossMistake(
            "probabilities",
            made.index,
            f"binary cross entropy with logits applies a sigmoid itself; here it gets the result "
            f"of a {made.op}, so no chance below 0.5 or above 0.73 can be predicted.",
            f"pass the logits, without the {made.op}; apply it where you predict.",
        )


def _targets_below_zero(parts: StepParts, head: Head) -> Iterator[LossMistake]:
    """Cross entropy with targets that are no probabilities: logits of a teacher, say."""
    if head.node.op not in ("mul", "cross_entropy", "kl_div"):
        return
    made = parts.trace.nodes[parts.source(head.prediction, WHOLE).node]
    targets = parts.values(head.target)
    if targets is None or targets.dtype.kind != "f" or targets.ndim < 2:
        return
    if head.node.op == "mul" and made.op != "log_softmax":
        return
    if targets.shape == parts.shape(head.prediction) and targets.min(initial=0.0) < 0:
        yield LossMistake(
            "targets",
            head.target.node,
            "the targets of a cross entropy are probabilities; here some are negative, so the loss "
            "has no lower bound.",
            "softmax of the targets, if they are logits.",
        )


def _broadcast(parts: StepParts) -> Iterator[LossMistake]:
    """A prediction (N,) against a target (N, 1), or the reverse, which make (N, N)."""
    seen: set[Any] = set()
    for head in parts.heads:
        edges = (_unexpanded(parts, head.prediction), _unexpanded(parts, head.target))
        one, other = (parts.shape(edge) for edge in edges)
        line = head.node.line
        if not _blows_up(one, other) or (line in seen and line is not None):
            continue
        seen.add(line)
        made = np.broadcast_shapes(one, other)
        yield LossMistake(
            "broadcast",
            head.node.index,
            f"a prediction of shape {one} against a target of shape {other} broadcasts to {made}: "
            "every row is compared with the target of every other.",
            "equal shapes: output.squeeze(-1), or target.unsqueeze(-1).",
        )


def _blows_up(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes of N numbers each broadcast to N x N, or to more than either has."""
    try:
        made = np.broadcast_shapes(one, other)
    except ValueError:
        return False
    sizes = int(np.prod(one)), int(np.prod(other))
    return len(one) != len(other) and int(np.prod(made)) > max(sizes) and sizes[0] == sizes[1]


def _unexpanded(parts: StepParts, edge: Edge) -> Edge:
    """What was broadcast before the loss; PyTorch expands its operands first."""
    while (node := parts.trace.nodes[edge.node]).op == "expand":
        edge = node.edges[0][1]
    return edge


def _made_by(parts: StepParts, edge: Edge, ops: tuple[str, ...]) -> Any:
    """The operation among `ops` that made a result, looked for through moves."""
    node = parts.trace.nodes[parts.source(edge).node]
    return node if node.op in ops else None


def _sums_to_one(values: Any, axes: tuple[int, ...] | None = None) -> bool:
    if values.min(initial=0) < 0:
        return False
    chosen = range(values.ndim) if axes is None else axes
    return any(
        values.shape[axis] > 1 and np.allclose(values.sum(axis), 1, atol=_NEAR) for axis in chosen
    )
