"""What a recorded node handed to its inputs, against central differences.

No rule is trusted: a node's output is computed again with its operands nudged. What is known of a
wrong contribution becomes evidence. Several mistakes may explain one number, so all wrong
contributions of an op are judged together: the mistake that explains most of them is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.mistakes.diagnosis import diagnose, explanations
from gradwalk.inspect.mistakes.evidence import Evidence, differs
from gradwalk.inspect.trace.replay import NotReplayable, forward, is_array, op_of, operands
from gradwalk.inspect.trace.trace import Trace, TraceNode

EPS = 1e-6
ATOL, RTOL = 1e-4, 2e-3  # values are often float32; ATOL is for a gradient of 1
LARGEST = 400  # elements: of larger operands a random direction is tried, and not each element
FEW = 3  # numbers: fewer are always in some proportion
ALSO = 3  # mistakes that explain the same numbers equally well and are named

Right = set[tuple[str, int]]  # op and input: some contribution there was right, and not 0


@dataclass(frozen=True, slots=True)
class WrongPush:
    """What a node handed to one of its inputs, and what differences say it should have."""

    node: TraceNode
    position: int
    given: Any
    right: Any  # None if it has too many elements to look at each
    atol: float


class NodeAlone:
    """One node of a trace, computed again in float64 from operands that are nudged."""

    def __init__(self, trace: Trace, node: TraceNode, grads: list[Any] | None = None) -> None:
        op = op_of(node)
        if op is None:
            raise NotReplayable(f"the op table has no '{node.op}'")
        self.trace, self.node, self.op = trace, node, op
        grads = trace.sweep.grads.get(node.index, []) if grads is None else grads
        if any(g is not None and not is_array(g) for g in grads):
            raise NotReplayable("only statistics were kept")
        self.grads: list[Any] = [g if g is None else np.asarray(g, np.float64) for g in grads]
        largest = [float(np.max(np.abs(g), initial=0.0)) for g in self.grads if g is not None]
        self.atol = ATOL * max(largest, default=0.0)
        self.args = [
            a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
            for a in operands(trace, node)
        ]

    def outputs(self, position: int, operand: Any) -> list[Any]:
        """The outputs with one of the operands replaced."""
        args = [operand if i == position else a for i, a in enumerate(self.args)]
        if self.trace.scalar:
            args = [float(a) for a in args]
        attrs = self.node.attrs
        if np.dtype(attrs.get("dtype", bool)).kind == "f":  # half would round the nudge away
            attrs = {**attrs, "dtype": np.dtype(np.float64)}
        metas = tuple((s, dtype.replace("float32", "float64")) for s, dtype in self.node.metas)
        alone = TraceNode(0, self.node.op, tuple(args), attrs, metas=metas)
        return [np.asarray(out, np.float64) for out in forward(self.trace, alone)]

    def slopes(self, position: int, by: Any, grads: Sequence[Any]) -> tuple[float, float, float]:
        """Slopes of g · output along a direction, ahead and behind of where the operand is.

        The third number is how much of them may be the rounding of the output.
        """
        x = np.asarray(self.args[position], np.float64)
        here, after, before = (
            self.outputs(position, x + shift) for shift in (0.0, EPS * by, -EPS * by)
        )
        ahead = behind = noise = 0.0
        for g, now, up, down in zip(grads, here, after, before):
            if g is not None:
                ahead += float(np.sum(g * (up - now))) / EPS
                behind += float(np.sum(g * (now - down))) / EPS
                noise += 4 * float(np.sum(np.abs(g) * np.spacing(np.abs(now)))) / EPS
        return ahead, behind, noise

    def direction_agrees(self, position: int, given: Any) -> bool:
        """A quick look at all elements at once: along a random direction the slopes must agree."""
        x = np.asarray(self.args[position], np.float64)
        if given.shape != x.shape or not np.isfinite(given).all():
            return not np.isfinite(given).all()  # find_nan is about those
        by = np.random.default_rng(self.node.index).uniform(0.5, 1.5, x.shape)
        by *= np.where(np.random.default_rng(position).random(x.shape) < 0.5, -1, 1)
        by *= np.maximum(np.abs(x), 1.0)  # a nudge in proportion is not lost in a large number
        ahead, behind, noise = self.slopes(position, by, self.grads)
        if not np.isfinite(ahead + behind + noise):
            return False  # look at each element
        scale = float(np.sum(np.abs(given * by)))
        slack = self.atol + noise + RTOL * max(scale, abs(ahead), abs(behind))
        low, high = min(ahead, behind) - slack, max(ahead, behind) + slack  # they differ at a kink
        return bool(low <= float(np.sum(given * by)) <= high)

    def contribution(self, position: int, grads: Sequence[Any] | None = None) -> tuple[Any, Any]:
        """The right contribution, element by element, and where it is unknown.

        It is unknown where the slopes on both sides differ, where one does not exist, and where
        the output is so large that a nudge is lost in its last digits.
        """
        x = np.asarray(self.args[position], np.float64)
        right, unknown = np.zeros(x.shape), np.zeros(x.shape, bool)
        for place in np.ndindex(x.shape):
            by = np.zeros(x.shape)
            by[place] = step = max(abs(float(x[place])), 1.0)
            ahead, behind, noise = (
                s / step for s in self.slopes(position, by, self.grads if grads is None else grads)
            )
            slack = self.atol + RTOL * max(abs(ahead), abs(behind))
            right[place] = (ahead + behind) / 2
            unknown[place] = not (abs(ahead - behind) <= slack and noise <= slack)
        return np.where(unknown, 0.0, right), unknown

    def jacobian(self, position: int) -> Any:
        """d output / d operand by central differences, a row per output element."""
        x = np.asarray(self.args[position], np.float64)
        columns = []
        for place in np.ndindex(x.shape):
            by = np.zeros(x.shape)
            by[place] = EPS
            after, before = (self.outputs(position, x + s)[0] for s in (by, -by))
            columns.append(np.ravel(after - before) / (2 * EPS))
        return np.stack(columns, axis=1)


def with_line(trace: Trace, index: int) -> str:
    """The name of a node and the line that made it."""
    line = trace.nodes[index].line
    return trace.name(index) if line is None else f"{trace.name(index)} ({line})"


def wrong_pushes(trace: Trace, node: TraceNode, right_ones: Right) -> Iterator[WrongPush]:
    """The contributions of one node that are wrong; right ones are noted in `right_ones`."""
    alone = NodeAlone(trace, node)
    for position, contribution in enumerate(trace.sweep.pushed[node.index]):
        if contribution is None or not is_array(contribution):
            continue
        given = np.asarray(contribution, np.float64)
        if alone.direction_agrees(position, given):
            if np.any(np.abs(given) > alone.atol):
                right_ones.add((node.op, position))
        elif given.size > LARGEST:
            yield WrongPush(node, position, given, None, alone.atol)
        else:
            right, unknown = alone.contribution(position)
            given = np.where(unknown, 0.0, given)
            if differs(given, right, alone.atol, RTOL).any():
                yield WrongPush(node, position, given, right, alone.atol)


# -- how they are wrong ----------------------------------------------------------------------------


def named(trace: Trace, wrong: Sequence[WrongPush], right_ones: Right) -> Iterator[str]:
    """For each wrong contribution, the mistakes behind it as a sentence or several."""
    told = [_explained(trace, push, wrong, right_ones) for push in wrong]
    votes = Counter((push.node.op, key) for push, texts in zip(wrong, told) for key in texts)
    for push, texts in zip(wrong, told):
        if not texts:
            yield _in_numbers(push)
            continue
        most = max(votes[push.node.op, key] for key in texts)
        likely = dict.fromkeys(t for key, t in texts.items() if votes[push.node.op, key] == most)
        yield " Or ".join(list(likely)[:ALSO])


def _explained(
    trace: Trace, push: WrongPush, wrong: Sequence[WrongPush], right_ones: Right
) -> dict[str, str]:
    if push.right is None:
        return {}
    told = explanations(_evidence(trace, push, right_ones))
    together = _together(push, wrong)
    if together is not None:
        told.setdefault("everywhere", together)
    return told


def _evidence(trace: Trace, push: WrongPush, right_ones: Right) -> Evidence:
    node, position = push.node, push.position
    alone = NodeAlone(trace, node)
    op, grads = alone.op, alone.grads
    both = len(node.args) == 2 and None not in (*map(op.rule, (0, 1)), *node.args)
    single = len(grads) == 1 and grads[0] is not None
    like_output = single and grads[0].shape == np.shape(push.given)
    plain = [x for x in node.attrs.values() if isinstance(x, (int, float))]
    return Evidence(
        push.given,
        push.right,
        atol=push.atol,
        rtol=RTOL,
        op=node.op,
        argument=position,
        operands=(*alone.args, *plain) if op.elementwise else (),
        output=np.asarray(node.value, np.float64) if is_array(node.value) else None,
        g=grads[0] if single else None,
        others={1 - position: alone.contribution(1 - position)[0]} if both else {},
        jacobian=None if op.elementwise or not like_output else alone.jacobian(position),
        unsummed=_first_of_broadcast(alone, push) if op.elementwise else None,
        right_for=_right_for(trace, push, grads),
        right_elsewhere=(node.op, position) in right_ones,
    )


def _together(push: WrongPush, wrong: Sequence[WrongPush]) -> str | None:
    """What is wrong with all contributions of an op along one input, if each is a number."""
    alike = [
        other
        for other in wrong
        if (other.node.op, other.position) == (push.node.op, push.position)
        and other.right is not None
        and np.size(other.right) == 1
    ]
    if len(alike) < FEW or np.size(push.given) > 1:
        return None
    given = [other.given.item() for other in alike]
    right = [other.right.item() for other in alike]
    return diagnose(given, right, atol=min(other.atol for other in alike), rtol=RTOL)


def _right_for(trace: Trace, push: WrongPush, grads: list[Any]) -> str:
    """Another call of the op for which this contribution would be right, "" if there is none."""
    node = push.node
    for other in trace.nodes:
        alike = other.op == node.op and other.metas == node.metas and other.index != node.index
        if alike and len(other.args) == len(node.args):
            try:
                if NodeAlone(trace, other, grads).direction_agrees(push.position, push.given):
                    return with_line(trace, other.index)
            except (NotReplayable, ValueError, TypeError, IndexError):
                continue
    return ""


def _first_of_broadcast(alone: NodeAlone, push: WrongPush) -> tuple[str, Any] | None:
    """Axes an operand was broadcast over; its contribution if only their index 0 arrives."""
    shape, lead = alone.node.shape, len(alone.node.shape) - push.given.ndim
    if push.given.shape == shape or lead < 0:
        return None
    first = tuple(
        slice(None) if lead <= k and push.given.shape[k - lead] == n else slice(0, 1)
        for k, n in enumerate(shape)
    )
    only = np.zeros(shape)
    only[first] = alone.grads[0][first]
    axes = ", ".join(str(k) for k, part in enumerate(first) if part == slice(0, 1))
    return axes, alone.contribution(push.position, [only, *alone.grads[1:]])[0]


def _in_numbers(push: WrongPush) -> str:
    if push.right is None:
        return "what it pushes does not agree with differences along a random direction."
    told = f"backward gives {_few(push.given)}, differences give {_few(push.right)}"
    if np.size(push.right) == 1 and push.right.item():
        return f"{told}, a factor of {push.given.item() / push.right.item():.4g}."
    return f"{told}."


def _few(array: Any) -> str:
    shown = ", ".join(f"{x:.4g}" for x in np.ravel(array)[:3])
    return f"[{shown}, ...]" if np.size(array) > 3 else f"[{shown}]" if np.ndim(array) else shown
