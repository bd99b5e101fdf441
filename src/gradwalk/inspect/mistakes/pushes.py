"""What a node pushed, against central differences: which pushes are wrong, and how.

No rule is trusted: a node's output is computed again with its operands nudged. What is wrong is
then told from the numbers. Several mistakes may explain one number, so all wrong pushes of an op
are looked at together: the mistake that explains most of them is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.mistakes.diagnosis import (
    HANDED_ON,
    TERM_MISSING,
    TIMES_OUTPUT,
    diagnose,
    differs,
    low_rank_beside,
)
from gradwalk.inspect.trace.replay import NotReplayable, forward, is_array, op_of, pull
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

EPS = 1e-6
ATOL, RTOL = 1e-4, 2e-3  # values are often float32; ATOL is for a gradient of 1
LARGEST = 400  # elements: of larger operands a random direction is tried, and not each element
FEW = 3  # numbers: fewer are always in some proportion
ALSO = 3  # mistakes that explain the same numbers equally well and are named


@dataclass(frozen=True, slots=True)
class WrongPush:
    """What a node handed to one of its inputs, and what differences say it should have."""

    node: TraceNode
    position: int
    given: Any
    right: Any  # None if it has too many elements to look at each
    atol: float

    def equals(self, other: Any) -> bool:
        """Whether something else is what was pushed."""
        same_shape = np.shape(other) == np.shape(self.given)
        return same_shape and not differs(self.given, other, self.atol, RTOL).any()


Right = set[tuple[str, int]]  # op and input: some push along there was right, and not 0


# -- which are wrong -------------------------------------------------------------------------------


def wrong_pushes(trace: Trace, node: TraceNode, right_ones: Right) -> list[WrongPush]:
    """The pushes of one node that are wrong; those that are right are noted in `right_ones`."""
    pushed = trace.sweep.pushed[node.index]
    grads = _grads(trace, node)
    if any(g is not None and not is_array(g) for g in grads):
        raise NotReplayable("only statistics were kept")
    found = []
    atol = ATOL * max(
        (float(np.max(np.abs(g), initial=0.0)) for g in grads if g is not None), default=0.0
    )
    for position, contribution in enumerate(pushed):
        if contribution is None or not is_array(contribution):
            continue
        if _direction_agrees(trace, node, position, contribution, grads, atol):
            if np.any(np.abs(contribution) > atol):
                right_ones.add((node.op, position))
            continue
        if np.size(contribution) > LARGEST:
            found.append(WrongPush(node, position, contribution, None, atol))
            continue
        right, unknown = _nudged(trace, node, position, grads, atol)
        given = np.where(unknown, 0.0, np.asarray(contribution, np.float64))
        if differs(given, right, atol, RTOL).any():
            found.append(WrongPush(node, position, given, right, atol))
    return found


def _grads(trace: Trace, node: TraceNode) -> list[Any]:
    return list(trace.sweep.grads.get(node.index, []))


def _operand(trace: Trace, node: TraceNode, position: int) -> Any:
    value = node.args[position]
    value = trace.nodes[value.node].values[value.output] if isinstance(value, Edge) else value
    if not is_array(value):
        raise NotReplayable("an operand was not kept")
    return np.array(value, np.float64)


def _outputs(trace: Trace, node: TraceNode, position: int, operand: Any) -> list[Any]:
    """The node computed again in float64, with one of its operands replaced."""
    args = []
    for i, argument in enumerate(node.args):
        value = operand if i == position else argument
        if isinstance(value, Edge):
            value = trace.nodes[value.node].values[value.output]
            if not is_array(value):
                raise NotReplayable("an operand was not kept")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value = value.astype(np.float64)
        args.append(float(value) if trace.scalar else value)
    op = op_of(node)
    if op is None:
        raise NotReplayable(f"the op table has no '{node.op}'")
    attrs = node.attrs
    if np.dtype(attrs.get("dtype", bool)).kind == "f":  # a cast to half would round the nudge away
        attrs = {**attrs, "dtype": np.dtype(np.float64)}
    alone = TraceNode(0, node.op, tuple(args), attrs, metas=_wide(node))
    return [np.asarray(out, np.float64) for out in forward(trace, alone)]


def _wide(node: TraceNode) -> tuple[Any, ...]:
    return tuple((shape, dtype.replace("float32", "float64")) for shape, dtype in node.metas)


def _moved(
    trace: Trace, node: TraceNode, position: int, x: Any, by: Any, grads: list[Any]
) -> tuple[float, float, float]:
    """Slopes of g · output along a direction, ahead and behind of where the operand is.

    And how much of them may be the rounding of the output. A direction is in proportion to the
    operand, so that a nudge of a large number is not lost in it.
    """
    here, after, before = (
        _outputs(trace, node, position, x + shift) for shift in (0.0, EPS * by, -EPS * by)
    )
    ahead = behind = noise = 0.0
    for g, now, up, down in zip(grads, here, after, before):
        if g is not None:
            weight = np.asarray(g, np.float64)
            ahead += float(np.sum(weight * (up - now))) / EPS
            behind += float(np.sum(weight * (now - down))) / EPS
            noise += 4 * float(np.sum(np.abs(weight) * np.spacing(np.abs(now)))) / EPS
    return ahead, behind, noise


def _direction_agrees(
    trace: Trace,
    node: TraceNode,
    position: int,
    contribution: Any,
    grads: list[Any],
    atol: float,
) -> bool:
    """A quick look at all elements at once: along a random direction the slopes must agree."""
    x = _operand(trace, node, position)
    given = np.asarray(contribution, np.float64)
    if given.shape != x.shape or not np.isfinite(given).all():
        return not np.isfinite(given).all()  # find_nan is about those
    by = np.random.default_rng(node.index).uniform(0.5, 1.5, x.shape)
    by *= np.where(np.random.default_rng(position).random(x.shape) < 0.5, -1, 1)
    by *= np.maximum(np.abs(x), 1.0)
    with np.errstate(all="ignore"):
        ahead, behind, noise = _moved(trace, node, position, x, by, grads)
    if not np.isfinite(ahead + behind + noise):
        return False  # look at each element
    scale = float(np.sum(np.abs(given * by)))
    slack = atol + noise + RTOL * max(scale, abs(ahead), abs(behind))
    low, high = min(ahead, behind) - slack, max(ahead, behind) + slack  # they differ at a kink
    return bool(low <= float(np.sum(given * by)) <= high)


def _nudged(
    trace: Trace, node: TraceNode, position: int, grads: list[Any], atol: float
) -> tuple[Any, Any]:
    """The right contribution, element by element, and where it cannot be told.

    That is where the slopes on both sides differ, where one does not exist, and where the output
    is so large that a nudge is lost in its last digits.
    """
    x = _operand(trace, node, position)
    right, unknown = np.zeros(x.shape), np.zeros(x.shape, bool)
    with np.errstate(all="ignore"):
        for place in np.ndindex(x.shape):
            by = np.zeros(x.shape)
            by[place] = step = max(abs(x[place]), 1.0)
            ahead, behind, noise = (s / step for s in _moved(trace, node, position, x, by, grads))
            slack = atol + RTOL * max(abs(ahead), abs(behind))
            right[place] = (ahead + behind) / 2
            unknown[place] = not (abs(ahead - behind) <= slack and noise <= slack)
    return np.where(unknown, 0.0, right), unknown


# -- how they are wrong ----------------------------------------------------------------------------


def named(trace: Trace, wrong: Sequence[WrongPush], right_ones: Right) -> Iterator[str]:
    """For each wrong push what is wrong with it."""
    with np.errstate(all="ignore"):
        told = [_explanations(trace, push, wrong, right_ones) for push in wrong]
    votes = Counter((push.node.op, key) for push, texts in zip(wrong, told) for key in texts)
    for push, texts in zip(wrong, told):
        if not texts:
            yield _in_numbers(push)
            continue
        most = max(votes[push.node.op, key] for key in texts)
        first, *others = [t for key, t in texts.items() if votes[push.node.op, key] == most]
        yield " Or ".join([first, *others[: ALSO - 1]])


def _in_numbers(push: WrongPush) -> str:
    if push.right is None:
        return "what it pushes does not agree with differences along a random direction."
    said = f"backward gives {_few(push.given)}, differences give {_few(push.right)}"
    if np.size(push.right) == 1 and float(np.ravel(push.right)[0]):
        times = float(np.ravel(push.given)[0]) / float(np.ravel(push.right)[0])
        return f"{said}, a factor of {times:.4g}."
    return f"{said}."


def _explanations(
    trace: Trace, push: WrongPush, wrong: Sequence[WrongPush], right_ones: Right
) -> dict[str, str]:
    """Every mistake that explains a push, the likeliest first: a word for it, and the sentence."""
    if push.right is None:
        return {}
    by_numbers = diagnose(push.given, push.right, atol=push.atol, rtol=RTOL)
    sure = by_numbers is not None and by_numbers.startswith(_SURE)
    stale = ("stale", _stale(trace, push))
    # A rule that is wrong is so at every call: one that was right speaks for another call's value.
    seen_right = (push.node.op, push.position) in right_ones
    term = _without_a_term(trace, push)
    found = [
        stale if seen_right else ("", None),
        ("unsummed", _unsummed(trace, push)),
        (by_numbers or "", by_numbers if sure else None),
        ("swapped", _swapped(trace, push)),
        ("everywhere", _everywhere(push, wrong)),
        ("term", term),
        (by_numbers or "", by_numbers),
        *(_as_if(trace, push) if term is None else ()),
        stale,
    ]
    return {key: text for key, text in found if text}


_SURE = ("wrong sign", "a constant factor", "missing:", "transposed", "not finite")


def _everywhere(push: WrongPush, wrong: Sequence[WrongPush]) -> str | None:
    """What is wrong with all pushes of an op along one input: numbers of many Values together."""
    alike = [
        other
        for other in wrong
        if (other.node.op, other.position) == (push.node.op, push.position)
        and other.right is not None
        and np.size(other.right) == 1
    ]
    if len(alike) < FEW or np.size(push.given) > 1:
        return None
    given, right = ([float(np.ravel(a)[0]) for a in part] for part in _columns(alike))
    return diagnose(given, right, atol=min(p.atol for p in alike), rtol=RTOL)


def _columns(pushes: Sequence[WrongPush]) -> tuple[list[Any], list[Any]]:
    return [push.given for push in pushes], [push.right for push in pushes]


def _swapped(trace: Trace, push: WrongPush) -> str | None:
    """Whether it is what the other of two operands should have received."""
    node, other, op = push.node, 1 - push.position, op_of(push.node)
    if len(node.args) != 2 or node.args[other] is None or op is None or op.rule(other) is None:
        return None
    its, _ = _nudged(trace, node, other, _grads(trace, node), push.atol)
    if not push.equals(its):
        return None
    return f"swapped: it receives the gradient of input {other}."


def _as_if(trace: Trace, push: WrongPush) -> Iterator[tuple[str, str | None]]:
    """Whether the local derivative is taken to be 1, or the output itself."""
    grads, outputs = _grads(trace, push.node), push.node.values
    if len(grads) == 1 and np.shape(grads[0]) == np.shape(push.given):
        g = np.asarray(grads[0], np.float64)
        yield "handed on", HANDED_ON if push.equals(g) else None
        if is_array(outputs[0]):
            yield "output", TIMES_OUTPUT if push.equals(g * np.asarray(outputs[0])) else None


def _without_a_term(trace: Trace, push: WrongPush) -> str | None:
    """Whether an op that is not elementwise is pulled through as if it were: softmax, a norm.

    If so, what was pushed is a·g for some a, element by element. Then the Jacobian is diag(a) and
    what passes through sums: in each row that is summed over, a matrix of less than full rank.
    """
    node, op = push.node, op_of(push.node)
    grads = _grads(trace, node)
    if op is None or op.elementwise or len(grads) != 1 or not is_array(grads[0]):
        return None
    g, given = np.ravel(np.asarray(grads[0], np.float64)), np.ravel(push.given)
    if np.shape(grads[0]) != np.shape(push.given) or not np.any(given):
        return None
    known = np.abs(g) > 1e-9 * np.abs(g).max(initial=0.0)
    if np.any(np.abs(given[~known]) > push.atol):
        return None
    with np.errstate(all="ignore"):
        diagonal = np.where(known, given / g, np.nan)
    jacobian = _jacobian(trace, node, push.position)
    return TERM_MISSING if low_rank_beside(diagonal, jacobian, RTOL) else None


def _jacobian(trace: Trace, node: TraceNode, position: int) -> Any:
    """d output / d operand by central differences, a row per output element."""
    x = _operand(trace, node, position)
    columns = []
    with np.errstate(all="ignore"):
        for place in np.ndindex(x.shape):
            by = np.zeros(x.shape)
            by[place] = EPS
            after, before = (_outputs(trace, node, position, x + s)[0] for s in (by, -by))
            columns.append(np.ravel(after - before) / (2 * EPS))
    return np.stack(columns, axis=1)


def _few(array: Any) -> str:
    shown = ", ".join(f"{x:.4g}" for x in np.ravel(array)[:3])
    return f"[{shown}, ...]" if np.size(array) > 3 else f"[{shown}]" if np.ndim(array) else shown


def _stale(trace: Trace, push: WrongPush) -> str | None:
    """Whether it is what the rule gives for the operands of another call of the op."""
    node, position = push.node, push.position
    g = trace.sweep.grad(node.index)
    for other in trace.nodes:
        alike = other.op == node.op and other.metas == node.metas and other.index != node.index
        if alike and len(other.args) == len(node.args):
            try:
                found = pull(trace, other, g)[position]
            except (NotReplayable, ValueError, TypeError, IndexError):
                continue
            if found is not None and push.equals(np.asarray(found)):
                return f"a stale value: computed with what {trace.name(other.index)} had saved."
    return None


def _unsummed(trace: Trace, push: WrongPush) -> str | None:
    """Whether only the first of the places an operand was broadcast to has handed back its part."""
    node, position, given = push.node, push.position, push.given
    grads, op = _grads(trace, node), op_of(push.node)
    lead = len(node.shape) - np.ndim(given)
    if op is None or not op.elementwise or np.shape(given) == node.shape or lead < 0:
        return None
    first = tuple(
        slice(None) if lead <= k and np.shape(given)[k - lead] == n else slice(0, 1)
        for k, n in enumerate(node.shape)
    )
    only = [np.zeros(node.shape)]
    only[0][first] = np.asarray(grads[0])[first]
    right, _ = _nudged(trace, node, position, [*only, *grads[1:]], push.atol)
    if not push.equals(right):
        return None
    axes = ", ".join(str(k) for k, part in enumerate(first) if part == slice(0, 1))
    return (
        f"not summed over a broadcast axis: only index 0 of axis {axes} reaches the input. What is "
        "broadcast forward is summed backward."
    )
