"""What a backward pass lost around the rules: a contribution overwritten, a node visited early.

Every rule may be right and a gradient still wrong. The gradient of a node must be the sum of what
its consumers hand it. A recorded pass has both, and the order of the visits. A recording of Values
is a walk of our own, and right; what `backward()` did is known from the `.grad`s it left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.diagnosis import differs, say
from gradwalk.inspect.mistakes.wrong_contributions import ATOL, RTOL, with_line
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Edge, Sweep, Trace
from gradwalk.inspect.why.path_counts import Locals, local_derivatives

MANY = 6  # parts: of more, not every choice of them is tried,
TOO_MANY = 200  # and of more than these none


class Contribution(NamedTuple):
    """What one consumer hands to a node."""

    consumer: int
    argument: int
    amount: Any


Parts = Sequence[Contribution]


def contributions_to(trace: Trace, edge: Edge, sweep: Sweep | None = None) -> list[Contribution]:
    """What each consumer hands to an output of a node, the last one first.

    Empty if something was not kept.
    """
    sweep = sweep or trace.sweep
    parts = []
    for consumer, argument in reversed(trace.consumers[edge.node]):
        pushed = sweep.pushed.get(consumer, ())
        amount = pushed[argument] if argument < len(pushed) else None
        if amount is not None and trace.nodes[consumer].args[argument].output == edge.output:
            parts.append(Contribution(consumer, argument, amount))
    return parts if all(is_array(part.amount) for part in parts) else []


def overwritten(trace: Trace, held: Any, parts: Parts, exact: bool = False) -> str | None:
    """Say which contributions a gradient lacks, None if it is no sum of some of them."""
    for kept, gone in _split(parts):
        if _is_sum(held, kept, exact):
            lost = _names([with_line(trace, part.consumer) for part in gone])
            received, first = _received(trace, held, parts), with_line(trace, kept[0].consumer)
            return say("overwritten", received=received, lost=lost, kept=first)
    return None


def lost_in(trace: Trace, nodes: Iterable[int]) -> dict[int, str]:
    """The nodes that went on with other than what they received, nearest to the loss first."""
    lost: dict[int, str] = {}
    for index, held, parts in _unlike_what_arrived(trace, trace.sweep, nodes):
        lost.setdefault(index, _in_a_recorded_pass(trace, index, held, parts))
    return lost


def lost_by_values(trace: Trace) -> dict[int, str]:
    """The nodes whose `.grad` is not what arrived, nearest to the loss first."""
    known = trace._index
    root = next((v for v in trace._alive if known.get((id(v), 0)) == trace.root), None)
    if getattr(root, "_grad", None) != 1:  # backward() was not called, or more than once
        return {}
    grads = {known[id(v), 0]: v._grad for v in inputs_first([root]) if (id(v), 0) in known}
    slopes: Locals = {}
    for index in grads:  # what was pushed counts: an op made by hand may have a name of the table
        g, pushed = trace.sweep.grad(index), trace.sweep.pushed.get(index)
        if pushed and g and np.isfinite(g):
            slopes[index] = tuple(None if amount is None else amount / g for amount in pushed)
        elif not trace.nodes[index].is_leaf:  # nothing can be told from 0 / 0
            slopes |= local_derivatives(trace, [index], trace.sweep)
    sweep = Sweep(trace.sweep.seeds, grads={index: [g] for index, g in grads.items()})
    for index, local in slopes.items():
        sweep.pushed[index] = tuple(None if s is None else grads[index] * s for s in local)
    lost: dict[int, str] = {}
    for index, held, parts in _unlike_what_arrived(trace, sweep, grads, exact=True):
        text = overwritten(trace, held, parts, exact=True)
        text = text or _not_passed_on(trace, sweep, held, parts, slopes)
        if text is not None:
            lost[index] = text
    return lost


def _unlike_what_arrived(
    trace: Trace, sweep: Sweep, nodes: Iterable[int], exact: bool = False
) -> Iterator[tuple[int, Any, Parts]]:
    """Nodes whose gradient is not the sum of what arrived: the gradient, and what arrived."""
    seeded = {edge.node for edge in sweep.seeds}
    for index in sorted(set(nodes) - seeded, reverse=True):
        for output, held in enumerate(sweep.grads.get(index, ())):
            parts = contributions_to(trace, Edge(index, output), sweep)
            if is_array(held) and parts and not _is_sum(held, parts, exact):
                yield index, held, parts


def _in_a_recorded_pass(trace: Trace, index: int, held: Any, parts: Parts) -> str:
    """What happened at a node, told from the order of the visits."""
    when = {node: at for at, node in enumerate(trace.sweep.visits)}
    parts = sorted(parts, key=lambda part: when.get(part.consumer, 0))
    late = [part for part in parts if when.get(part.consumer, 0) > when.get(index, len(when))]
    if index not in when:  # a leaf: if it lacks the last arrivals, it was delivered before them
        cuts = [k for k in range(1, len(parts)) if parts[k - 1].consumer != parts[k].consumer]
        if not any(_is_sum(held, parts[k:]) for k in cuts):
            late = next((list(parts[k:]) for k in cuts if _is_sum(held, parts[:k])), [])
    if late:
        return say("order", early="it", late=with_line(trace, late[0].consumer), fate="was lost")
    if len(parts) == 1:
        return say("hook")
    somehow = say("overwritten_somehow", received=_received(trace, held, parts))
    return overwritten(trace, held, parts) or somehow


def _not_passed_on(
    trace: Trace, sweep: Sweep, held: float, parts: Parts, slopes: Locals
) -> str | None:
    """Whether a consumer was visited too early; None if not: `held` may have been there before."""
    for part in parts:
        slope = slopes[part.consumer][part.argument]
        for _, late in _split(contributions_to(trace, Edge(part.consumer), sweep)):
            missed = part._replace(amount=-slope * sum(p.amount for p in late))
            if _is_sum(held, [*parts, missed], exact=True):
                names = _names([trace.name(p.consumer) for p in late])
                early = with_line(trace, part.consumer)
                return say("order", early=early, late=names, fate="was not passed on")
    return None


def _split(parts: Parts) -> Iterator[tuple[list[Contribution], list[Contribution]]]:
    """Some of the parts and the others: one alone, all but one, then what lies between."""
    count = len(parts)
    sizes = [1, count - 1, *(range(2, count - 1) if count <= MANY else ())]
    for size in dict.fromkeys(size for size in sizes if 0 < size < count <= TOO_MANY):
        for some in itertools.combinations(range(count), size):
            yield [parts[i] for i in some], [parts[i] for i in range(count) if i not in some]


def _is_sum(held: Any, parts: Parts, exact: bool = False) -> bool:
    """Whether a gradient is the sum of these parts; a sum that is not finite says nothing."""
    amounts = [np.asarray(part.amount, np.float64) for part in parts]
    with np.errstate(all="ignore"):
        total = np.asarray(sum(amounts))
        largest = max(float(np.max(np.abs(a), initial=0.0)) for a in amounts)
    if not np.isfinite(total).all():
        return True
    atol, rtol = (1e-12, 1e-9) if exact else (ATOL * largest, RTOL)
    return not differs(held, total, atol, rtol).any()


def _received(trace: Trace, held: Any, parts: Parts) -> str:
    source = _names([trace.name(part.consumer) for part in parts])
    if len(parts) > MANY or np.size(held) != 1:
        return f"it receives {len(parts)} contributions from {source}, and is not their sum"
    amounts = [np.asarray(part.amount).item() for part in parts]
    total = " + ".join(f"{a:.6g}" for a in amounts).replace("+ -", "- ")
    if len(amounts) > 1:
        total += f" = {sum(amounts):.6g}"
    return f"it receives {total} from {source}, but its gradient is {np.asarray(held).item():.6g}"


def _names(names: Iterable[str]) -> str:
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - 3} more" if len(different) > 3 else ""
    return " and ".join(different[:3]) + more
