"""What the grads of Values say about the walk that left them there.

A recording of Values is a walk of our own, and right. What `backward()` did is known from the
grads alone: each must be the sum, over the consumers, of their grads times the local derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradwalk.graph.order import inputs_first
from gradwalk.inspect.trace.trace import Trace
from gradwalk.inspect.why.path_counts import local_derivatives

MANY = 6  # uses: of more, not every choice of those that were lost is tried,
TOO_MANY = 200  # and of more than these none


@dataclass(frozen=True, slots=True)
class _Part:
    """What one use should have added."""

    consumer: int
    local: float
    amount: float


def lost_by_values(trace: Trace) -> dict[int, str]:
    """The nodes whose grad lacks something, nearest to the loss first, and what happened to it."""
    held = _held(trace)
    if held.get(trace.root) != 1:  # nobody called backward(), or more than once
        return {}
    found: dict[int, str] = {}
    slopes = local_derivatives(trace, [i for i in held if not trace.nodes[i].is_leaf], trace.sweep)
    parts: dict[int, list[_Part]] = {trace.root: []}
    for index in sorted(held, reverse=True):
        own = parts.get(index, [])
        lost = None if index == trace.root else _lost(trace, held[index], own, parts)
        if lost is not None:
            found[index] = lost
        for position, edge in trace.nodes[index].edges:
            slope = slopes[index][position]
            if slope is not None:
                amount = held[index] * slope
                parts.setdefault(edge.node, []).append(_Part(index, slope, amount))
    return found


def _held(trace: Trace) -> dict[int, float]:
    """The grads of the Values behind the last loss, by node."""
    known = trace._index
    root = next((v for v in trace._alive if known.get((id(v), 0)) == trace.root), None)
    if root is None or not hasattr(root, "_grad"):
        return {}
    return {known[id(v), 0]: v._grad for v in inputs_first([root]) if (id(v), 0) in known}


def _lost(
    trace: Trace, held: float, own: Sequence[_Part], parts: dict[int, list[_Part]]
) -> str | None:
    total = sum(part.amount for part in own)
    if not own or not np.isfinite(total) or _same(held, total):
        return None
    for some in _some(own):
        if _same(held, total - sum(part.amount for part in some)):
            names = _names(trace, some)
            return (
                f"overwritten instead of accumulated: {len(own)} contributions arrive, and that "
                f"of {names} is lost. What arrives must be added (+=), not assigned (=)."
            )
    for part in own:
        for some in _some(parts.get(part.consumer, [])):
            if _same(held, total - part.local * sum(late.amount for late in some)):
                return (
                    f"wrong order: {trace.name(part.consumer)} was visited before "
                    f"{_names(trace, some)} had added to its gradient, and what arrived later was "
                    "not handed on. Visit in reverse topological order."
                )
    return None


def _same(one: float, other: float) -> bool:
    return bool(np.isclose(one, other, 1e-9, 1e-12))


def _some(parts: Sequence[_Part]) -> Iterator[tuple[_Part, ...]]:
    """Some of the parts, not all: all but one, or one alone, and what lies between."""
    count = len(parts)
    if count > TOO_MANY:
        return
    sizes = [count - 1, 1, *(range(2, count - 1) if count <= MANY else ())]
    for size in dict.fromkeys(size for size in sizes if 0 < size < count):
        yield from itertools.combinations(parts, size)


def _names(trace: Trace, parts: Sequence[_Part]) -> str:
    names = list(dict.fromkeys(trace.name(part.consumer) for part in parts))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return " and ".join(names[:3]) + more
