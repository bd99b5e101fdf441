"""Align two traces by value: B is computed again in float64, each operation from A's numbers.

Whenever a result is a value of A, in whatever arrangement, A's own numbers replace it before the
next operation uses it. So an operation's error is its own, whatever came before it. Results without
a counterpart (an operation split or fused otherwise) are carried on in float64 until one has a
counterpart again. If none ever has, the two differ: the pair of operations is chosen after which
the most results agree again, B continues from A's numbers there, and the search goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.inspect.diff.known_values import KnownValues, moves
from gradwalk.inspect.diff.numbers import between, computed, is_rounded, laid_like, rearranged
from gradwalk.inspect.trace.replay import NotReplayable
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

EXACT = 1e-9  # mathematically equal computations in float64 are nearer than this
_ROOM = 256  # rounding errors that a recorded value may be away from its float64 value
_COARSEST = 0.03
AHEAD = 32  # operations to look at, after a difference, for results that agree again
TRIES = 40  # pairs of operations to try there
SLACK = 0.15  # of two pairs about as good, the earlier one
HOPELESS = 0.25  # less agreement than this is no alignment
MOST = 12  # differences to look for
CHOICES = 4  # counterparts with the same numbers to consider
LARGEST_REGION = 400  # operations of A between two aligned values


@dataclass
class Pair:
    """Two outputs that are the same value, or should be."""

    a: Edge
    b: Edge
    distance: float  # of B in float64 from A's numbers, to A's recorded value
    own: float = 0.0  # of B in float64 from A's numbers, to A in float64 from the same
    region_a: list[int] = field(default_factory=list)  # operations since the last aligned values
    region_b: list[int] = field(default_factory=list)
    forced: bool = False  # B had no counterpart, and the search decided for this one
    opaque: bool = False  # B's operation cannot be computed again: its recorded value counts
    limit: float = EXACT  # the largest own error in line

    @property
    def differs(self) -> bool:
        """Whether B computes something else than A."""
        return self.forced or not self.own <= self.limit


class Alignment:
    """The values of B with their counterparts in A."""

    def __init__(
        self,
        a: Trace,
        b: Trace,
        ends_a: list[int] | None = None,
        ends_b: list[int] | None = None,
    ) -> None:
        self.a, self.b = KnownValues(a, ends_a), KnownValues(b, ends_b)
        self.pairs: dict[Edge, Pair] = {}  # by B's output
        self.exact: dict[Edge, Any] = {}  # B's values in float64, A's numbers where they are known
        self.opaque: set[int] = set()
        self.forced: dict[Edge, Edge] = {}
        self._order_a = {index: i / len(self.a.used) for i, index in enumerate(self.a.used)}
        self._order_b = {index: i / len(self.b.used) for i, index in enumerate(self.b.used)}
        self.run()

    def run(self) -> None:
        """Align everything, deciding where nothing agrees."""
        self.compute(self.b.used)
        for _ in range(MOST):
            lost_a, lost_b = self.lost_a(), self.lost_b()
            if not lost_b or not lost_a:
                break
            score, pair = self._best_pair(lost_a, lost_b)
            if pair is None or (self.forced and score < HOPELESS):
                break
            b, a = pair
            self.forced[b] = a
            self.compute(index for index in self.b.used if index >= b.node)
            if score < HOPELESS:
                break

    # -- computing B from A's numbers -------------------------------------------------------------

    def compute(self, indices: Iterable[int]) -> None:
        """Compute these nodes of B, in order, and look for their counterparts."""
        for index in indices:
            node = self.b.trace.nodes[index]
            values = self._outputs(node)
            for output, value in enumerate(values):
                edge = Edge(index, output)
                self.pairs.pop(edge, None)
                self.exact[edge] = value
                if value is not None:
                    self._pair_up(edge, value)

    def _outputs(self, node: TraceNode) -> list[Any]:
        recorded = [self.b.value(Edge(node.index, k)) for k in range(len(node.metas))]
        if node.is_leaf:
            return recorded
        args = [self.exact.get(a) if isinstance(a, Edge) else a for a in node.args]
        try:
            outputs = computed(node, args)
        except NotReplayable:
            self.opaque.add(node.index)
            return recorded
        return outputs if len(outputs) == len(recorded) else recorded

    def _pair_up(self, edge: Edge, value: Any) -> None:
        pair = self._forced_pair(edge, value) if edge in self.forced else self._found(edge, value)
        if pair is None:
            return
        self.pairs[edge] = pair
        if value.dtype.kind == "f":
            self.exact[edge] = self._numbers_at(pair.a, value)

    def _numbers_at(self, a: Edge, pattern: Any) -> Any:
        """A's numbers in B's arrangement."""
        numbers = self.a.value(a)
        if numbers.shape == pattern.shape and not rearranged(numbers, pattern):
            return numbers
        if between(numbers, pattern) <= _COARSEST:
            return laid_like(numbers, pattern)
        return numbers.reshape(pattern.shape)

    def _forced_pair(self, edge: Edge, value: Any) -> Pair:
        a = self.forced[edge]
        pair = self._pair(a, edge, between(value, self.a.value(a)))
        pair.forced = True
        self._measure(pair, value)
        return pair

    def _found(self, edge: Edge, value: Any) -> Pair | None:
        """The counterpart of a value: the same numbers, and computed from the same alike."""
        node = self.b.node(edge)
        near = self.a.near(value, _COARSEST)
        near = [(d, a) for d, a in near if self._is_near(d, a, edge)]
        near.sort(key=lambda item: self._strangeness(item[1], edge, node))
        for distance, a in near[:CHOICES]:
            pair = self._pair(a, edge, distance)
            if node.is_leaf:
                return pair
            self._measure(pair, value)
            if not pair.differs:
                return pair
        return None

    def _pair(self, a: Edge, b: Edge, distance: float) -> Pair:
        region = [] if self.b.node(b).is_leaf else self._region_b(b)
        return Pair(a, b, distance, region_b=region, opaque=b.node in self.opaque)

    def _is_near(self, distance: float, a: Edge, b: Edge) -> bool:
        """Whether A's recorded value may be B's float64 one, as far as numbers tell."""
        eps, own = self.a.precision(a), self.b.precision(b)
        if self.b.node(b).is_leaf:
            # A parameter is the same, or rounded to another dtype; a table may be computed anew.
            room = 4 if self.b.node(b).needs_grad else _ROOM
            near = distance <= min(room * min(eps, own), _COARSEST)
            return near or is_rounded(self.a.value(a), self.b.value(b))
        eps = max(eps, own) if b.node in self.opaque else eps
        return distance <= min(max(_ROOM * eps, 1e-12), _COARSEST)

    def _strangeness(self, a: Edge, b: Edge, node: TraceNode) -> tuple[Any, ...]:
        """A sort key: the least strange counterpart first."""
        one = self.a.node(a)
        return (
            one.is_leaf != node.is_leaf,
            moves(one) != moves(node),
            one.op != node.op,
            one.metas[a.output][0] != node.metas[b.output][0],
            self._names(self.a.trace, a.node) != self._names(self.b.trace, b.node),
            abs(self._order_a[a.node] - self._order_b[b.node]),
        )

    def _names(self, trace: Trace, index: int) -> tuple[Any, ...]:
        groups = trace.group_path(index)
        return trace.names.get(index), groups[-1].name if groups else ""

    # -- regions ----------------------------------------------------------------------------------

    def _region_b(self, edge: Edge) -> list[int]:
        """The operations of B since the last aligned values, this one included."""

        def passes(operand: Edge) -> bool:
            return operand not in self.pairs and bool(self.b.node(operand).op)

        return sorted(leading_to(self.b.trace, [edge.node], passes))

    def inputs_of(self, region: list[int]) -> list[Edge]:
        """The outputs of B, made outside of a region, that it reads."""
        inside = set(region)
        reads = [e for index in region for _, e in self.b.trace.nodes[index].edges]
        return list(dict.fromkeys(e for e in reads if e.node not in inside or e in self.pairs))

    def _measure(self, pair: Pair, value: Any) -> None:
        """Compare with A's operations since the same values, in float64."""
        eps = self.a.precision(pair.a)
        inputs = self.inputs_of(pair.region_b)
        near = [self.pairs[e] for e in inputs if e in self.pairs]
        known = {self.a.class_of(p.a) for p in (self.pairs.values() if pair.forced else near)}
        target, pair.region_a, strangers = self._region_of_a(pair.a, known)
        alone = [self.b.precision(e) for e in inputs if e not in self.pairs]
        pair.limit = EXACT + 4 * max([0.0, *alone, *strangers])
        recorded = self.a.value(pair.a)
        pair.own = np.inf if target is None else between(value, target)
        if target is None or (strangers and pair.own > pair.limit):
            # A's region reads what B's does not: only A's recorded value can be compared with.
            pair.own, pair.limit = min(pair.own, between(value, recorded)), 16 * eps
        if pair.opaque and target is not None:
            pair.limit = max(pair.limit, 8 * between(recorded, target) + 64 * eps)

    def _region_of_a(self, end: Edge, known: set[Any]) -> tuple[Any, list[int], list[float]]:
        """A's operations from these values to one of its outputs, and the output in float64.

        Also the precisions of the leaves that they read besides these values.
        """

        def passes(edge: Edge) -> bool:
            return self.a.class_of(edge) not in known and bool(self.a.node(edge).op)

        if self.a.node(end).is_leaf or self.a.class_of(end) in known:
            return self.a.value(end), [], []
        region = sorted(leading_to(self.a.trace, [end.node], passes))
        if len(region) > LARGEST_REGION:
            return None, [end.node], []
        results: dict[int, list[Any]] = {}
        strangers: list[float] = []
        for index in region:
            node = self.a.trace.nodes[index]
            args: list[Any] = []
            for x in node.args:
                inside = isinstance(x, Edge) and x.node in results and passes(x)
                if not inside and isinstance(x, Edge) and self.a.class_of(x) not in known:
                    strangers.append(self.a.precision(x))
                recorded = self.a.value(x) if isinstance(x, Edge) else x
                args.append(results[x.node][x.output] if inside else recorded)
            try:
                results[index] = computed(node, args)
            except NotReplayable:
                results[index] = [self.a.value(Edge(index, k)) for k in range(len(node.metas))]
                strangers.append(max(map(self.a.precision, map(Edge, [index]))))
        outputs = results[end.node]
        return (outputs[end.output] if end.output < len(outputs) else None), region, strangers

    # -- where nothing agrees any more ------------------------------------------------------------

    def lost_b(self) -> list[int]:
        """B's nodes without a counterpart that reach an end without meeting an aligned value."""
        return _lost(self.b, {edge.node for edge in self.pairs})

    def lost_a(self) -> list[int]:
        """The same in A."""
        met = {self.a.class_of(pair.a) for pair in self.pairs.values()}
        known = {
            index
            for index in self.a.used
            if any(
                self.a.class_of(Edge(index, k)) in met
                for k in range(len(self.a.trace.nodes[index].metas))
            )
        }
        return _lost(self.a, known)

    def _best_pair(
        self, lost_a: list[int], lost_b: list[int]
    ) -> tuple[float, tuple[Edge, Edge] | None]:
        """B's and A's output that, taken for the same, make the most of what follows agree."""
        tried = [
            (self._agreement(b, a, lost_b), (b, a))
            for b, a in self._candidates(lost_a, lost_b)[:TRIES]
        ]
        best = max((score for score, _ in tried), default=0.0)
        return best, next((pair for score, pair in tried if score >= best - SLACK), None)

    def _candidates(self, lost_a: list[int], lost_b: list[int]) -> list[tuple[Edge, Edge]]:
        """Pairs of lost outputs to try, early ones first: the same op, or from the same values."""
        early_a, early_b = (
            [i for i in lost if side.is_float(Edge(i)) and side.value(Edge(i)) is not None]
            for side, lost in ((self.a, lost_a), (self.b, lost_b))
        )
        found = []
        starts_a = [self._starts_a(index) for index in early_a[:AHEAD]]
        for i, b in enumerate(early_b[:AHEAD]):
            starts_b = self._starts_b(b)
            for j, a in enumerate(early_a[:AHEAD]):
                one, other = self.a.trace.nodes[a], self.b.trace.nodes[b]
                if _count(one) != _count(other) or moves(one) or moves(other):
                    continue
                if one.op == other.op or starts_a[j] == starts_b:
                    found.append((i + j, abs(i - j), Edge(b), Edge(a)))
        ends = [(b, a) for b in self.b.ends for a in self.a.ends if b in lost_b and a in lost_a]
        found += [(10**6, 0, Edge(b), Edge(a)) for b, a in ends if self._fit(b, a)]
        return [(b, a) for _, _, b, a in sorted(found)]

    def _starts_a(self, index: int) -> set[Any]:
        """The values, not leaves, that A's operations since the last aligned ones begin with."""
        known = {self.a.class_of(pair.a) for pair in self.pairs.values()}
        region = leading_to(
            self.a.trace, [index], lambda e: self.a.class_of(e) not in known and e.node != index
        )
        reads = [e for i in region for _, e in self.a.trace.nodes[i].edges]
        return {self.a.class_of(e) for e in reads if self._is_start(self.a, e, region)}

    def _starts_b(self, index: int) -> set[Any]:
        """The same of B, as values of A."""
        region = set(self._region_b(Edge(index)))
        reads = [e for i in region for _, e in self.b.trace.nodes[i].edges]
        starts = [e for e in reads if e in self.pairs and self._is_start(self.b, e, region)]
        return {self.a.class_of(self.pairs[e].a) for e in starts}

    def _is_start(self, side: KnownValues, edge: Edge, region: set[int]) -> bool:
        if edge.node in region and edge not in self.pairs:
            return False
        return side.is_float(edge) and not _only_leaves(side, edge)

    def _fit(self, b: int, a: int) -> bool:
        same = _count(self.a.trace.nodes[a]) == _count(self.b.trace.nodes[b])
        return same and self.a.value(Edge(a)) is not None

    def _agreement(self, b: Edge, a: Edge, lost_b: list[int]) -> float:
        """The share of B's next operations that are explained if these two are the same."""
        before = dict(self.pairs), dict(self.exact), dict(self.forced)
        self.forced[b] = a
        lost = set(lost_b)
        after = [i for i in _following(self.b, b.node) if i in lost and i != b.node][:AHEAD]
        try:
            self.compute([b.node, *after])
            agreed = {i for i in after if Edge(i) in self.pairs}
        finally:
            self.pairs, self.exact, self.forced = before
        judged = self._judged(after, agreed)
        return sum(judged) / len(judged) if judged else 0.0

    def _judged(self, after: list[int], agreed: set[int]) -> list[bool]:
        """Whether each operation has a counterpart, or leads only to operations that have."""
        explained: dict[int, bool] = {}
        for index in reversed(after):
            later = [explained[i] for i, _ in self.b.trace.consumers[index] if i in explained]
            explained[index] = index in agreed or (bool(later) and all(later))
        return list(explained.values())


def _only_leaves(side: KnownValues, edge: Edge) -> bool:
    """Whether a value is a leaf, moved at most."""
    node = side.node(edge)
    return node.is_leaf or (moves(node) and all(_only_leaves(side, e) for _, e in node.edges))


def _count(node: TraceNode) -> int:
    return int(np.prod(node.shape, dtype=np.int64))


def _lost(side: KnownValues, known: set[int]) -> list[int]:
    """The operations that reach an end without meeting a known node."""
    ends = [index for index in side.ends if index not in known]
    found = leading_to(side.trace, ends, lambda edge: edge.node not in known) if ends else set()
    return sorted(index for index in found if side.trace.nodes[index].op)


def _following(side: KnownValues, start: int) -> list[int]:
    """The used nodes computed from one of them, in order, itself first."""
    reached = {start}
    for index in side.used:
        if index > start and any(i in reached for i in side.trace.nodes[index].inputs):
            reached.add(index)
    return sorted(reached)
