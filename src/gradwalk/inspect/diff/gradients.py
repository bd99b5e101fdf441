"""The backward passes of two aligned traces in float64, and where the gradients begin to differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment
from gradwalk.inspect.diff.answer import FoundDifference
from gradwalk.inspect.diff.explain import side, uses_of
from gradwalk.inspect.diff.known_values import KnownValues, moves
from gradwalk.inspect.diff.numbers import between, doubles
from gradwalk.inspect.trace.replay import NotReplayable, kept_seeds, pull
from gradwalk.inspect.trace.trace import Edge, Sweep, Trace, TraceNode

ROUNDINGS = 64  # of a gradient: it is a sum of many terms
TIMES = 32  # A's own error
LOCAL = 1e-3  # a push that is further from the derivative than this is not the derivative
_UNKNOWN = (NotReplayable, TypeError, ValueError, LookupError, ArithmeticError)


@dataclass
class PreciseSweep:
    """One backward pass: its gradients as recorded, and in float64."""

    known: KnownValues
    sweep: Sweep
    right: dict[Edge, Any] = field(default_factory=dict)  # every push in float64, from the seed
    local: dict[Edge, Any] = field(default_factory=dict)  # one push, from recorded gradients
    unclear: set[Edge] = field(default_factory=set)  # an operation behind it cannot be computed
    largest: float = 0.0

    def __post_init__(self) -> None:
        try:
            self.right.update({e: doubles(g) for e, g in kept_seeds(self.sweep).items()})
        except NotReplayable:
            return
        self.largest = max(float(np.linalg.norm(g)) for g in self.right.values())
        for index in self.sweep.visits:
            self._visit(self.known.trace.nodes[index])

    def recorded(self, edge: Edge) -> Any:
        """The gradient that arrived; None if none did or it was not kept."""
        return doubles(self.sweep.grad(edge.node, edge.output))

    def _visit(self, node: TraceNode) -> None:
        places = [Edge(node.index, k) for k in range(len(node.metas))]
        given = [self.recorded(place) for place in places]
        precise = [self.right.get(place) for place in places]
        unclear = any(place in self.unclear for place in places)
        values = {e: self.known.value(e) for _, e in node.edges}
        try:
            local = self._pulled(node, given, values)
            right = self._pulled(node, precise, values)
        except _UNKNOWN:
            local = right = [None] * len(node.args)
            unclear = True
        for argument, one, other in zip(node.args, local, right):
            if not isinstance(argument, Edge):
                continue
            if unclear:
                self.unclear.add(argument)
            self._add(self.local, argument, one)
            self._add(self.right, argument, other)

    def _pulled(self, node: TraceNode, gs: list[Any], values: dict[Edge, Any]) -> list[Any]:
        if all(g is None for g in gs):
            return [None] * len(node.args)
        if any(value is None for value in values.values()):
            raise NotReplayable("an operand was not kept")
        whole = [np.zeros(m[0]) if g is None and "float" in m[1] else g
                 for g, m in zip(gs, node.metas)]  # fmt: skip
        return pull(self.known.trace, node, whole, values)

    def _add(self, sums: dict[Edge, Any], place: Edge, contribution: Any) -> None:
        if contribution is None:
            return
        contribution = np.asarray(contribution, np.float64)
        before = sums.get(place)
        sums[place] = contribution if before is None else before + contribution
        self.largest = max(self.largest, float(np.linalg.norm(contribution)))


class Gradients:
    """The gradients of B beside those of A."""

    def __init__(self, alignment: Alignment) -> None:
        self.alignment = alignment
        self.sweeps = [
            (PreciseSweep(alignment.a, one), PreciseSweep(alignment.b, other))
            for one, other in zip(alignment.a.trace.sweeps[-1:], alignment.b.trace.sweeps[-1:])
        ]
        self._members: dict[Any, list[Edge]] = {}
        for index in alignment.a.used:
            for output in range(len(alignment.a.trace.nodes[index].metas)):
                edge = Edge(index, output)
                self._members.setdefault(alignment.a.class_of(edge), []).append(edge)

    def accumulated(self, b: Edge) -> float | None:
        """How far the gradient that arrived at a value of B is from A's; None if unknown."""
        pair = self.alignment.pairs.get(b)
        if pair is None or not self.sweeps:
            return None
        one, other = self.sweeps[0]
        given = other.recorded(b)
        found = [
            between(given, one.recorded(a))
            for a in self._members[self.alignment.a.class_of(pair.a)]
            if given is not None and one.recorded(a) is not None
        ]
        return min(found, default=None)

    def findings(self, forward_differs: bool) -> list[FoundDifference]:
        """The first difference of the backward pass, next to the loss."""
        if not self.sweeps:
            return []
        for index in reversed(self.alignment.b.used):
            found = self._not_a_derivative(Edge(index))
            if found is None and not forward_differs:
                found = self._other_than_in_a(Edge(index))
            if found is not None:
                return [found]
        return []

    # -- B against its own forward ----------------------------------------------------------------

    def _not_a_derivative(self, b: Edge) -> FoundDifference | None:
        """That what arrived is not what the derivatives of B's operations push."""
        _, mine = self.sweeps[0]
        given, right = mine.recorded(b), mine.local.get(b)
        if given is None or right is None or b in mine.unclear or b in mine.sweep.seeds:
            return None
        distance = between(given, right)
        eps = self.alignment.b.coarsest
        allowed = max(LOCAL, ROUNDINGS * eps) + self._floor(mine, right, eps)
        if distance <= allowed:
            return None
        consumer = self._consumer(b)
        why = "B's backward pass does not push the derivative of its own forward pass here."
        fix = "check the backward rule and the hooks of this operation (gradwalk.audit)."
        return self._found(b, consumer, why, fix, distance)

    def _floor(self, sweep: PreciseSweep, right: Any, eps: float) -> float:
        """The noise of gradients that cancel, relative to this one."""
        size = float(np.linalg.norm(right))
        return 4 * eps * sweep.largest / size if size else np.inf

    def _consumer(self, b: Edge) -> TraceNode:
        """The operation behind which a gradient arrives: one that cannot be computed, or the first
        that computes."""
        trace = self.alignment.b.trace
        _, mine = self.sweeps[0]
        later = [trace.nodes[i] for i, _ in trace.consumers[b.node] if i in mine.sweep.pushed]
        opaque = [node for node in later if node.index in self.alignment.opaque]
        computing = [node for node in later if not moves(node)]
        return next(iter(opaque or computing or later), trace.nodes[b.node])

    # -- B against A ------------------------------------------------------------------------------

    def _other_than_in_a(self, b: Edge) -> FoundDifference | None:
        pair = self.alignment.pairs.get(b)
        if pair is None or not self.alignment.b.is_float(b) or self._is_made_of_the_same(b):
            return None
        one, other = self.sweeps[0]
        members = self._members[self.alignment.a.class_of(pair.a)]
        members = [a for a in members if one.recorded(a) is not None]
        given = other.recorded(b)
        if not members or (given is None and not self._should_learn(b, pair.a)):
            return None
        if given is None:
            return self._no_gradient(b, pair.a)
        if any(self._in_line(a, b, given) for a in members):
            return None
        distance = min(between(given, one.recorded(a)) for a in members)
        return self._tied(b, pair.a, distance) or self._found(
            b,
            self._consumer(b),
            "the gradients behind this operation agree with A's, and what it passes on does not.",
            "check its backward rule, and whether B detaches or scales a gradient here.",
            distance,
        )

    def _is_made_of_the_same(self, b: Edge) -> bool:
        """Whether an operand has the same numbers: its gradient, not this one, is the whole."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        operands = [pairs[e] for _, e in self.alignment.b.node(b).edges if e in pairs]
        return any(class_of(pair.a) == class_of(pairs[b].a) for pair in operands)

    def _in_line(self, a: Edge, b: Edge, given: Any) -> bool:
        """Whether B's gradient is about as near to float64 as A's."""
        one, _ = self.sweeps[0]
        recorded = one.recorded(a)
        right = one.right.get(a) if a not in one.unclear else None
        right = recorded if right is None or right.shape != recorded.shape else right
        eps = max(self.alignment.a.coarsest, self.alignment.b.coarsest)
        room = ROUNDINGS * eps + TIMES * between(recorded, right) + self._floor(one, right, eps)
        if a in one.unclear or b.node in self.alignment.opaque:
            room = max(room, LOCAL)
        return between(given, right) <= room

    def _should_learn(self, b: Edge, a: Edge) -> bool:
        """Whether a leaf of B is a parameter in A."""
        one, other = self.alignment.a.node(a), self.alignment.b.node(b)
        return one.is_leaf and other.is_leaf and one.needs_grad and a.node in self.alignment.a.used

    def _no_gradient(self, b: Edge, a: Edge) -> FoundDifference | None:
        one, _ = self.sweeps[0]
        if not np.any(one.recorded(a)):
            return None
        stop = self._where_it_stops(b)
        note = f" ({stop.note})" if stop.note else ""
        name = self.alignment.b.trace.name(b.node)
        why = f"no gradient reaches {name} in B: {stop.op or 'the leaf'}{note} passes none on."
        return self._found(b, stop, why, "let the gradient through, or freeze it in A too.", 1.0)

    def _where_it_stops(self, b: Edge) -> TraceNode:
        """The first operation on the way from a leaf that has no gradient behind it."""
        trace: Trace = self.alignment.b.trace
        _, mine = self.sweeps[0]
        at = trace.nodes[b.node]
        while True:
            later = [trace.nodes[i] for i, _ in trace.consumers[at.index]]
            silent = [node for node in later if node.index not in mine.sweep.grads]
            if not silent or at.note:
                return at
            at = silent[0]

    def _tied(self, b: Edge, a: Edge, distance: float) -> FoundDifference | None:
        """That one tensor of A is two in B, or two are one."""
        trace_a, trace_b = self.alignment.a.trace, self.alignment.b.trace
        if not trace_b.nodes[b.node].is_leaf or not trace_a.nodes[a.node].is_leaf:
            return None
        kind = self.alignment.a.class_of(a)
        in_a = [e for e in self._members[kind] if self.alignment.a.node(e).is_leaf]
        in_b = [
            e
            for e, pair in self.alignment.pairs.items()
            if self.alignment.b.node(e).is_leaf and self.alignment.a.class_of(pair.a) == kind
        ]
        if len(in_a) == len(in_b):
            return None
        names = " and ".join(trace_b.name(e.node) for e in in_b[:3])
        uses = " and ".join(uses_of(trace_a, in_a[0].node)[:3])
        if len(in_b) > len(in_a):
            why = f"A's {trace_a.name(in_a[0].node)} is tied ({uses} read it); B has {names}."
            fix = f"use one tensor for {names} in B."
        else:
            listed = " and ".join(trace_a.name(e.node) for e in in_a[:3])
            why = f"B reads {names} where A reads {listed}: their gradients are added in B."
            fix = "give B its own tensor for each, or tie them in A."
        consumer = self._consumer(max(in_b))
        found = self._found(b, consumer, why, fix, distance)
        found.kind = "tied"
        return found

    def _found(
        self, b: Edge, node: TraceNode, why: str, fix: str, distance: float
    ) -> FoundDifference:
        name = self.alignment.b.trace.name(b.node)
        place = side(self.alignment.b.trace, node.index)
        inside = f" in {place.module}" if place.module else ""
        what = f"The gradient of {name} differs, behind {place.op}{inside}."
        pair = self.alignment.pairs.get(Edge(node.index)) or self.alignment.pairs.get(b)
        beside = None if pair is None else side(self.alignment.a.trace, pair.a.node)
        return FoundDifference(
            "gradient", "backward", what, why, fix, beside, place, distance, self.accumulated(b)
        )
