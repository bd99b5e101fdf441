"""What a backward pass lost around the rules: a contribution overwritten, a node visited early.

Every rule may be right and a gradient still wrong. The gradient of a node must be the sum of what
its consumers hand it. A recorded pass has both, and the order of the visits. A recording of Values
is a walk of our own, and right; what `backward()` did is known from the `.grad`s it left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.diagnosis import MANY, split
from gradwalk.inspect.mistakes.evidence import differs
from gradwalk.inspect.mistakes.pushes import ATOL, RTOL, with_line
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Sweep, Trace
from gradwalk.inspect.why.path_counts import Locals, local_derivatives


class Contribution(NamedTuple):
    """What one consumer hands to a node."""

    consumer: int
    argument: int
    amount: Any


def lost_in(trace: Trace, nodes: Iterable[int]) -> dict[int, str]:
    """The nodes that went on with other than what they received, nearest to the loss first."""
    return dict(_lost(trace, trace.sweep, sorted(nodes, reverse=True), None))


def lost_by_values(trace: Trace) -> dict[int, str]:
    """The nodes whose `.grad` is not what arrived, nearest to the loss first."""
    grads = _grads_of_values(trace)
    if grads.get(trace.root) != 1:  # backward() was not called, or more than once
        return {}
    slopes: Locals = {}
    for index in grads:
        g, pushed = trace.sweep.grad(index), trace.sweep.pushed.get(index)
        if pushed and g and np.isfinite(g):
            slopes[index] = tuple(None if amount is None else amount / g for amount in pushed)
        elif not trace.nodes[index].is_leaf:  # nothing can be told from 0 / 0
            slopes |= local_derivatives(trace, [index], trace.sweep)
    sweep = Sweep(trace.sweep.seeds, grads={index: [g] for index, g in grads.items()})
    for index, local in slopes.items():
        sweep.pushed[index] = tuple(None if s is None else grads[index] * s for s in local)
    return dict(_lost(trace, sweep, sorted(grads, reverse=True), slopes))


def _grads_of_values(trace: Trace) -> dict[int, float]:
    """The grads of the Values behind the last loss, by node."""
    known = trace._index
    root = next((v for v in trace._alive if known.get((id(v), 0)) == trace.root), None)
    if root is None or not hasattr(root, "_grad"):
        return {}
    return {known[id(v), 0]: v._grad for v in inputs_first([root]) if (id(v), 0) in known}


def _lost(
    trace: Trace, sweep: Sweep, nodes: Iterable[int], slopes: Locals | None
) -> Iterator[tuple[int, str]]:
    """Nodes and what happened there. `slopes`: of Values, whose order of visits is unknown."""
    when = {node: at for at, node in enumerate(sweep.visits)}
    seeded = {edge.node for edge in sweep.seeds}
    for index in nodes:
        grads = sweep.grads.get(index)
        if grads is None or index in seeded:
            continue
        for output, held in enumerate(grads):
            parts = sorted(_parts(trace, sweep, index, output), key=lambda p: when.get(p[0], 0))
            if held is None or not parts or not all(map(is_array, (held, *(p[2] for p in parts)))):
                continue
            if _is(held, parts, slopes is not None):
                continue
            late = [p.consumer for p in parts if index in when and when[p.consumer] > when[index]]
            if late:
                text: str | None = _too_early("it", with_line(trace, late[0]), "was lost")
            else:
                text = _explained(trace, sweep, held, parts, slopes)
            if text is not None:
                yield index, text
            break


def _parts(trace: Trace, sweep: Sweep, index: int, output: int = 0) -> Iterator[Contribution]:
    for consumer, argument in reversed(trace.consumers[index]):  # in the order of the visits
        pushed = sweep.pushed.get(consumer, ())
        amount = pushed[argument] if argument < len(pushed) else None
        if amount is not None and trace.nodes[consumer].args[argument].output == output:
            yield Contribution(consumer, argument, amount)


def _is(held: Any, parts: Sequence[Contribution], exact: bool) -> bool:
    """Whether a gradient is the sum of these parts; a sum that is not finite says nothing."""
    amounts = [np.asarray(part.amount, np.float64) for part in parts]
    with np.errstate(all="ignore"):
        total = np.asarray(sum(amounts))
        largest = max((float(np.max(np.abs(a), initial=0.0)) for a in amounts), default=0.0)
    if not np.isfinite(total).all():
        return True
    atol, rtol = (1e-12, 1e-9) if exact else (ATOL * largest, RTOL)
    return not differs(held, total, atol, rtol).any()


def _explained(
    trace: Trace, sweep: Sweep, held: Any, parts: Sequence[Contribution], slopes: Locals | None
) -> str | None:
    received = _received(trace, held, parts)
    for kept, gone in split(parts):
        if _is(held, kept, slopes is not None):
            return (
                f"overwritten instead of accumulated: {received}: that of {_names(trace, gone)} "
                f"is lost. {with_line(trace, kept[0].consumer)} assigns (=) where it must add (+=)."
            )
    if slopes is None:
        if len(parts) == 1:
            return "its gradient is not what was pushed to it: a hook has replaced it."
        return f"overwritten instead of accumulated: {received} (= instead of +=)."
    for part in parts:
        before = list(_parts(trace, sweep, part.consumer))
        slope = slopes[part.consumer][part.argument]
        for _, late in split(before):
            missed = Contribution(
                part.consumer, part.argument, -slope * sum(p.amount for p in late)
            )
            if _is(held, [*parts, missed], True):
                early = with_line(trace, part.consumer)
                return _too_early(early, _names(trace, late), "was not handed on")
    return None  # it may have been there before


def _too_early(early: str, late: str, fate: str) -> str:
    return (
        f"wrong order: {early} was visited before {late} had added to its gradient, and what "
        f"arrived later {fate}. Visit a node after all of its consumers: in reverse topological "
        "order."
    )


def _received(trace: Trace, held: Any, parts: Sequence[Contribution]) -> str:
    source = _names(trace, parts)
    if len(parts) > MANY or np.size(held) != 1:
        return f"it receives {len(parts)} contributions from {source}, and is not their sum"
    amounts = [float(np.ravel(part.amount)[0]) for part in parts]
    total = " + ".join(f"{a:.6g}" for a in amounts).replace("+ -", "- ")
    if len(amounts) > 1:
        total += f" = {sum(amounts):.6g}"
    return f"it receives {total} from {source}, but its gradient is {float(np.ravel(held)[0]):.6g}"


def _names(trace: Trace, parts: Sequence[Contribution]) -> str:
    names = list(dict.fromkeys(trace.name(part.consumer) for part in parts))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return " and ".join(names[:3]) + more
