"""What a recorded node handed to its inputs, against central differences.

No rule is trusted: a node's output is computed again with its operands nudged. What is known of a
wrong contribution becomes evidence. Several mistakes may explain one number, so all wrong
contributions of an op are judged together: the mistake that explains most of them is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.inspect.mistakes.diagnosis import Evidence, diagnose, differs, explanations
from gradwalk.inspect.mistakes.differences import nudges
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

    alone: NodeAlone
    position: int
    given: Any
    right: Any = None  # None if it has too many elements to look at each


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

    @cached_property
    def now(self) -> list[Any]:
        """The outputs as they are."""
        return self.outputs(-1, None)

    def noise(self, grads: Sequence[Any]) -> float:
        """How much of a change of g · output may be the rounding of the output."""
        sizes = [g if g is None else np.abs(g) for g in grads]
        return 4 * _dot(sizes, [np.spacing(np.abs(out)) for out in self.now])

    def direction_agrees(self, position: int, given: Any) -> bool:
        """A quick look at all elements at once: along a random direction the slopes must agree."""
        x = np.asarray(self.args[position], np.float64)
        if given.shape != x.shape or not np.isfinite(given).all():
            return not np.isfinite(given).all()  # find_nan is about those
        by = np.random.default_rng(self.node.index).uniform(0.5, 1.5, x.shape)
        by *= np.where(np.random.default_rng(position).random(x.shape) < 0.5, -1, 1)
        by *= np.maximum(np.abs(x), 1.0)  # a nudge in proportion is not lost in a large number

        def along(t: Any) -> list[Any]:
            return self.outputs(position, x + t[0] * by)

        ((_, *sides),) = nudges(along, self.now, np.zeros(1), np.array([EPS]))
        ahead, behind = (_dot(self.grads, side) for side in sides)
        noise = self.noise(self.grads) / EPS
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
        grads = self.grads if grads is None else grads
        x = np.asarray(self.args[position], np.float64)
        right, unknown = np.zeros(x.shape), np.zeros(x.shape, bool)
        steps = EPS * np.maximum(np.abs(x), 1.0)
        noise = self.noise(grads)
        for place, *sides in nudges(lambda at: self.outputs(position, at), self.now, x, steps):
            ahead, behind = (_dot(grads, side) for side in sides)
            slack = self.atol + RTOL * max(abs(ahead), abs(behind))
            right[place] = (ahead + behind) / 2
            unknown[place] = not (abs(ahead - behind) <= slack and noise / steps[place] <= slack)
        return np.where(unknown, 0.0, right), unknown

    def jacobian(self, position: int) -> Any:
        """d output / d operand by central differences, a row per output element."""
        x = np.asarray(self.args[position], np.float64)
        sides = nudges(lambda at: self.outputs(position, at), self.now, x, np.full(x.shape, EPS))
        return np.stack([np.ravel(a[0] + b[0]) / 2 for _, a, b in sides], axis=1)


def _dot(grads: Sequence[Any], outputs: Sequence[Any]) -> float:
    return sum(float(np.sum(g * out)) for g, out in zip(grads, outputs) if g is not None)


def with_line(trace: Trace, index: int) -> str:
    """The name of a node and the line that made it."""
    line = trace.nodes[index].line
    return trace.name(index) if line is None else f"{trace.name(index)} ({line})"


def wrong_pushes(trace: Trace, node: TraceNode, right_ones: Right) -> Iterator[WrongPush]:
    """The contributions of one node that are wrong; right ones are noted in `right_ones`."""
    alone = NodeAlone(trace, node)
    for position, contribution in enumerate(trace.sweep.pushed[node.index]):
        if not is_array(contribution):
            continue
        given = np.asarray(contribution, np.float64)
        if alone.direction_agrees(position, given):
            if np.any(np.abs(given) > alone.atol):
                right_ones.add((node.op, position))
        elif given.size > LARGEST:
            yield WrongPush(alone, position, given)
        else:
            right, unknown = alone.contribution(position)
            given = np.where(unknown, 0.0, given)
            if differs(given, right, alone.atol, RTOL).any():
                yield WrongPush(alone, position, given, right)


# -- how they are wrong ----------------------------------------------------------------------------


def named(wrong: Sequence[WrongPush], right_ones: Right) -> Iterator[str]:
    """For each wrong contribution, the mistakes behind it as a sentence or several."""
    told = [
        {} if push.right is None else explanations(_evidence(push, right_ones)) for push in wrong
    ]
    for push, texts in zip(wrong, told):
        together = _together(push, wrong)
        if together is not None:
            texts.setdefault("everywhere", together)
    votes = Counter((push.alone.node.op, key) for push, texts in zip(wrong, told) for key in texts)
    for push, texts in zip(wrong, told):
        most = max((votes[push.alone.node.op, key] for key in texts), default=0)
        likely = dict.fromkeys(
            t for key, t in texts.items() if votes[push.alone.node.op, key] == most
        )
        yield " Or ".join(list(likely)[:ALSO]) or _in_numbers(push)


def _evidence(push: WrongPush, right_ones: Right) -> Evidence:
    alone, position, node = push.alone, push.position, push.alone.node
    op, grads = alone.op, alone.grads
    both = len(node.args) == 2 and None not in (*map(op.rule, (0, 1)), *node.args)
    single = len(grads) == 1 and grads[0] is not None
    like_output = single and grads[0].shape == np.shape(push.given)
    plain = [x for x in node.attrs.values() if isinstance(x, (int, float))]
    return Evidence(
        push.given,
        push.right,
        atol=alone.atol,
        rtol=RTOL,
        op=node.op,
        argument=position,
        operands=(*alone.args, *plain) if op.elementwise else (),
        output=np.asarray(node.value, np.float64) if is_array(node.value) else None,
        g=grads[0] if single else None,
        others={1 - position: alone.contribution(1 - position)[0]} if both else {},
        jacobian=None if op.elementwise or not like_output else alone.jacobian(position),
        unsummed=_first_of_broadcast(push) if op.elementwise else None,
        right_for=_right_for(push),
        right_elsewhere=(node.op, position) in right_ones,
    )


def _together(push: WrongPush, wrong: Sequence[WrongPush]) -> str | None:
    """What is wrong with all contributions of an op along one input, if each is a number."""
    alike = [
        other
        for other in wrong
        if (other.alone.node.op, other.position) == (push.alone.node.op, push.position)
        and other.right is not None
        and other.right.size == 1
    ]
    if len(alike) < FEW or push.given.size > 1:
        return None
    given, right = [one.given.item() for one in alike], [one.right.item() for one in alike]
    return diagnose(given, right, atol=min(one.alone.atol for one in alike), rtol=RTOL)


def _right_for(push: WrongPush) -> str:
    """Another call of the op for which this contribution would be right, "" if there is none."""
    trace, node = push.alone.trace, push.alone.node
    for other in trace.nodes:
        alike = other.op == node.op and other.metas == node.metas and other.index != node.index
        if alike and len(other.args) == len(node.args):
            with suppress(NotReplayable, ValueError, TypeError, IndexError):
                as_other = NodeAlone(trace, other, push.alone.grads)
                if as_other.direction_agrees(push.position, push.given):
                    return with_line(trace, other.index)
    return ""


def _first_of_broadcast(push: WrongPush) -> tuple[str, Any] | None:
    """Axes an operand was broadcast over; its contribution if only their index 0 arrives."""
    shape, grads = push.alone.node.shape, push.alone.grads
    lead = len(shape) - push.given.ndim
    if push.given.shape == shape or lead < 0:
        return None
    axes = [k for k, n in enumerate(shape) if k < lead or push.given.shape[k - lead] != n]
    first = tuple(slice(0, 1) if k in axes else slice(None) for k in range(len(shape)))
    only = np.zeros(shape)
    only[first] = grads[0][first]
    right = push.alone.contribution(push.position, [only, *grads[1:]])[0]
    return ", ".join(map(str, axes)), right


def _in_numbers(push: WrongPush) -> str:
    if push.right is None:
        return "its contribution does not agree with differences along a random direction."
    told = f"backward gives {_few(push.given)}, differences give {_few(push.right)}"
    if push.right.size == 1 and push.right.item():
        return f"{told}, a factor of {push.given.item() / push.right.item():.4g}."
    return f"{told}."


def _few(array: Any) -> str:
    shown = ", ".join(f"{x:.4g}" for x in np.ravel(array)[:3])
    return f"[{shown}, ...]" if np.size(array) > 3 else f"[{shown}]" if np.ndim(array) else shown
