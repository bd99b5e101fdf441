"""What is different where A and B differ: settings, weights, arrangements, extra operations."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment, Pair
from gradwalk.inspect.diff.answer import FoundDifference, Side
from gradwalk.inspect.diff.inner_values import InnerValue, inner_values
from gradwalk.inspect.diff.known_values import KnownValues, moves
from gradwalk.inspect.diff.numbers import apart, between, rearranged
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.routes import group_name, leading_to, with_arrows
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode

SAME = "make these operations the same; what comes before them agrees."


def side(trace: Trace, index: int) -> Side:
    """One operation of a trace as part of an answer."""
    node = trace.nodes[index]
    return Side(index, trace.name(index), node.op or "leaf", group_name(trace, index), node.line)


def explained(alignment: Alignment, pair: Pair) -> FoundDifference:
    """The finding of a pair that differs."""
    return RegionDifference(alignment, pair).finding()


class RegionDifference:
    """Why the operations of two regions that begin with the same values end with others."""

    def __init__(self, alignment: Alignment, pair: Pair) -> None:
        self.alignment, self.pair = alignment, pair
        self.a, self.b = alignment.a.trace, alignment.b.trace
        self.ops_a = _arithmetic(self.a, pair.region_a or [pair.a.node])
        self.ops_b = _arithmetic(self.b, pair.region_b)

    def finding(self) -> FoundDifference:
        """The most telling of several explanations."""
        for told in (
            self._swapped,
            self._weights,
            self._arrangement,
            self._mask,
            self._indices,
            self._unread,
            self._left_out,
            self._sequence,
            self._data,
        ):
            found = told()
            if found is not None:
                return found
        return self._inside()

    def _found(
        self, kind: str, one: TraceNode | None, other: TraceNode | None, why: str, fix: str
    ) -> FoundDifference:
        a = None if one is None else side(self.a, one.index)
        b = None if other is None else side(self.b, other.index)
        what = {
            "extra": "B has an operation that A has not: {b}.",
            "missing": "A has an operation that B has not: {a}.",
            "weight": "B reads another weight in {b}.",
            "tied": "B reads another weight in {b}.",
            "input": "B reads other data in {b}.",
            "arrangement": "B reads an operand in another arrangement in {b}.",
        }.get(kind, "B computes something else in {b}.")
        what = what.format(a=_placed(a) if a else "", b=_placed(b) if b else "")
        why += self._factor()
        accumulated = self._accumulated()
        return FoundDifference(kind, "forward", what, why, fix, a, b, self.pair.own, accumulated)

    def _accumulated(self) -> float | None:
        one, other = self.alignment.a.value(self.pair.a), self.alignment.b.value(self.pair.b)
        if one is None or other is None or one.size != other.size:
            return None
        return between(other, one)

    def _factor(self) -> str:
        """That B's result is a multiple of A's, if it is."""
        one, other = self.alignment.a.value(self.pair.a), self.alignment.b.value(self.pair.b)
        if one is None or other is None or one.shape != other.shape:
            return ""
        if not np.isfinite(one).all() or not np.isfinite(other).all():
            return ""
        factor = float(np.vdot(one, other) / (np.vdot(one, one) or 1.0))
        whole = any(abs(f - round(f)) < 1e-5 * f and f > 1.5 for f in (factor, 1 / (factor or 1)))
        if (one.size == 1 and not whole) or abs(factor - 1) < 1e-3 or not factor:
            return ""
        return f" The result is {short(factor)} × A's." if apart(other / factor, one) < 1e-5 else ""

    # -- weights and other operands ----------------------------------------------------------------

    def _reads(self, ops: list[TraceNode], trace: Trace) -> Iterator[tuple[TraceNode, Edge, Edge]]:
        """The leaves that operations read, moved at most: operation, operand, leaf."""
        for node in ops:
            for _, edge in node.edges:
                leaf = leaf_of(trace, edge)
                if leaf is not None and "float" in trace.nodes[leaf.node].metas[0][1]:
                    yield node, edge, leaf

    def _weights(self) -> FoundDifference | None:
        """That B reads another weight than A."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        in_a = list(self._reads(self.ops_a, self.a))
        classes = {class_of(leaf) for _, _, leaf in in_a}
        read = {class_of(pairs[leaf].a) for _, _, leaf in self._reads(self.ops_b, self.b)
                if leaf in pairs}  # fmt: skip
        unread = [(node, leaf) for node, _, leaf in in_a if class_of(leaf) not in read]
        for other, _, leaf in self._reads(self.ops_b, self.b):
            known = pairs.get(leaf)
            if known is not None and class_of(known.a) in classes:
                continue
            fits = [(n, x) for n, x in unread if self._could_be_the_same(x, leaf)]
            if fits:
                return self._another(fits[0][0], other, fits[0][1], leaf, known)
        return None

    def _swapped(self) -> FoundDifference | None:
        """That A's operation on the same numbers reads another weight."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        for other, edge, leaf in self._reads(self.ops_b, self.b):
            read = [pairs.get(e) for _, e in other.edges if leaf_of(self.b, e) is None]
            if not read or None in read or leaf not in pairs:
                continue
            wanted = {class_of(pair.a) for pair in read if pair is not None}
            twins = [
                (node, x)
                for node in (self.a.nodes[i] for i in self.alignment.a.used)
                if node.op == other.op and wanted <= {class_of(e) for _, e in node.edges}
                for position, e in node.edges
                if position == other.args.index(edge) and (x := leaf_of(self.a, e)) is not None
            ]
            kind = class_of(pairs[leaf].a)
            if twins and all(class_of(x) != kind for _, x in twins):
                return self._another(twins[0][0], other, twins[0][1], leaf, pairs[leaf])
        return None

    def _could_be_the_same(self, x: Edge, y: Edge) -> bool:
        """Whether two leaves are parameters, one of them at least, of the same size."""
        one, other = self.a.nodes[x.node], self.b.nodes[y.node]
        named = x.node in self.a.names or y.node in self.b.names
        parameters = one.needs_grad or other.needs_grad or named
        return parameters and sorted(one.shape) == sorted(other.shape)

    def _another(
        self, one: TraceNode, other: TraceNode, x: Edge, y: Edge, known: Pair | None
    ) -> FoundDifference:
        name_a, name_b = self.a.name(x.node), self.b.name(y.node)
        if known is not None and self.a.nodes[known.a.node].is_leaf:
            holds = self.a.name(known.a.node)
            named = name_b if name_b == holds else f"{name_b}, which is {holds} in A"
            why = f"A reads {name_a} here, and B reads {named}."
            fix = "call the layers in the same order, or load the right weight."
            return self._found("weight", one, other, why, fix)
        distance = between(self.alignment.b.value(y), self.alignment.a.value(x))
        far = f" ({short(distance)} of its norm away)" if np.isfinite(distance) else ""
        why = f"A reads {name_a} here; {name_b}, which B reads, has other numbers{far}."
        uses = uses_of(self.a, x.node)
        if len(uses) > 1:
            why += f" In A, {name_a} is tied: {' and '.join(uses[:3])} read it."
            return self._found("tied", one, other, why, f"tie {name_b} to B's {name_a}.")
        return self._found("weight", one, other, why, f"load {name_a} of A into {name_b}.")

    def _arrangement(self) -> FoundDifference | None:
        """That B reads a weight of A transposed, or otherwise rearranged."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        for other, edge, leaf in self._reads(self.ops_b, self.b):
            if leaf not in pairs or edge not in self.alignment.exact:
                continue
            given, kind = self.alignment.exact[edge], class_of(pairs[leaf].a)
            used = [
                (node, x, self.alignment.a.value(x))
                for node, x, source in self._reads(self.ops_a, self.a)
                if class_of(source) == kind
            ]
            right = [u for u in used if u[2] is not None and u[2].shape == given.shape]
            if right and all(rearranged(given, value) for _, _, value in right):
                one, x, value = right[0]
                return self._arranged(one, other, x, edge, value, given)
        return None

    def _arranged(
        self, one: TraceNode, other: TraceNode, x: Edge, y: Edge, right: Any, given: Any
    ) -> FoundDifference:
        turned = right.ndim >= 2 and right.swapaxes(-1, -2).shape == given.shape
        turned = turned and apart(given, right.swapaxes(-1, -2)) < 1e-6
        name_a, name_b = (self.a.name((leaf_of(self.a, x) or x).node),
                          self.b.name((leaf_of(self.b, y) or y).node))  # fmt: skip
        how = "transposed" if turned else "rearranged"
        why = f"B reads {name_b} {how}: its numbers are those of {name_a} in A."
        fix = f"transpose {name_b} where it is loaded or used."
        return self._found("arrangement", one, other, why, fix if turned else SAME)

    def _mask(self) -> FoundDifference | None:
        """That B sets elements to 0 at random, and A does not."""
        for other, _, leaf in self._reads(self.ops_b, self.b):
            value = self.alignment.b.value(leaf)
            if leaf in self.alignment.pairs or value is None or value.size < 8:
                continue
            found = np.unique(value)
            if len(found) == 2 and found[0] == 0:
                share = float((value == 0).mean())
                why = f"B sets {share:.0%} of the elements to 0 and A does not: dropout is on."
                first = next((n for n in self.ops_b if n.line == other.line), other)
                return self._found("extra", None, first, why, "call eval() on B, or on none.")
        return None

    # -- the operations ----------------------------------------------------------------------------

    def _indices(self) -> FoundDifference | None:
        """That B reads the same table at other places."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        for other, _, leaf in self._reads(self.ops_b, self.b):
            if leaf not in pairs:
                continue
            kind, picks = class_of(pairs[leaf].a), self._whole_numbers(self.alignment.b, other)
            for index in self.alignment.a.used if picks else ():
                one = self.a.nodes[index]
                sources = [leaf_of(self.a, e) for _, e in one.edges]
                if one.op != other.op or all(e is None or class_of(e) != kind for e in sources):
                    continue
                right = self._whole_numbers(self.alignment.a, one)
                if [x.shape for x in right] == [x.shape for x in picks]:
                    name = self.b.name(leaf.node)
                    why = f"B reads {name} at other places than A: {_first(picks[0], right[0])}."
                    return self._found("input", one, other, why, "compare the indices.")
        return None

    def _data(self) -> FoundDifference | None:
        """That both read data here, and not the same: two batches, two ranks."""
        in_a = list(self._reads(self.ops_a, self.a))
        for other, _, y in self._reads(self.ops_b, self.b):
            constant = not self.b.shape_of(y)
            if y in self.alignment.pairs or self.b.nodes[y.node].needs_grad or constant:
                continue
            for one, _, x in in_a:
                same = self.a.shape_of(x) == self.b.shape_of(y) and one.op == other.op
                if same and not self.a.nodes[x.node].needs_grad:
                    far = between(self.alignment.b.value(y), self.alignment.a.value(x))
                    why = f"the data that A and B read here are {short(far)} of their norm apart."
                    return self._found("input", one, other, why, "give both the same data.")
        return None

    def _whole_numbers(self, known: KnownValues, node: TraceNode) -> list[Any]:
        values = [known.value(e) for _, e in node.edges]
        return [x for x in values if x is not None and x.dtype.kind in "iu"]

    def _unread(self) -> FoundDifference | None:
        """That B leaves out a parameter that A reads."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        read = {class_of(pairs[leaf].a) for _, _, leaf in self._reads(self.ops_b, self.b)
                if leaf in pairs}  # fmt: skip
        anywhere = {class_of(pair.a) for pair in pairs.values()}
        for one, _, leaf in self._reads(self.ops_a, self.a):
            if class_of(leaf) in read | anywhere or leaf.node not in self.a.names:
                continue
            if np.any(self.alignment.a.value(leaf)):
                name = self.a.name(leaf.node)
                why = f"A reads {name} here, and B does not."
                fix = f"use the counterpart of {name} in B."
                return self._found("weight", one, self.ops_b[0], why, fix)
        return None

    def _left_out(self) -> FoundDifference | None:
        """That the first operation of one region is missing in the other."""
        class_of, pairs = self.alignment.a.class_of, self.alignment.pairs
        reads_a = [{class_of(e) for _, e in n.edges} for n in self.ops_a]
        reads_b = [{class_of(pairs[e].a) for _, e in n.edges if e in pairs} for n in self.ops_b]
        if not (reads_a[0] & reads_b[0]) or self.ops_a[0].op == self.ops_b[0].op:
            return None
        one, other = self.ops_a[0], self.ops_b[0]
        if any(n.op == other.op and one.index in n.inputs for n in self.ops_a[1:]):
            why = f"A has {one.op} here, and B goes on to {other.op} without it."
            return self._found("missing", one, other, why, f"compute {one.op} in B too.")
        if any(n.op == one.op and other.index in n.inputs for n in self.ops_b[1:]):
            why = f"B has {other.op} here, and A goes on to {one.op} without it."
            return self._found("extra", one, other, why, f"take {other.op} out of B.")
        return None

    def _sequence(self) -> FoundDifference | None:
        """Compare two regions of the same kind of operations, one by one."""
        named_a, named_b = [n.op for n in self.ops_a], [n.op for n in self.ops_b]
        if named_a == named_b or len(named_a) == len(named_b) == 1:
            for one, other in zip(self.ops_a, self.ops_b):
                settings = _settings(one, other)
                if settings:
                    why = f"{'; '.join(settings)}."
                    return self._found("operation", one, other, why, "give both the same setting.")
            return self._moved() if named_a == named_b else None
        matcher = SequenceMatcher(None, named_a, named_b, autojunk=False)
        changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
        if len(changes) != 1:
            return None
        tag, i1, i2, j1, j2 = changes[0]
        only_a, only_b = self.ops_a[i1:i2], self.ops_b[j1:j2]
        if tag == "insert":
            what = chain(only_b)
            then = self.ops_a[i1].op if i1 < len(self.ops_a) else "the next result"
            why = f"B has {what} here, and A goes on to {then} without it."
            return self._found("extra", None, only_b[0], why, f"take {what} out of B.")
        if tag == "delete":
            after = self.ops_b[min(j1, len(self.ops_b) - 1)]
            why = f"A has {chain(only_a)} here, and B goes on to {after.op} without it."
            return self._found("missing", only_a[0], after, why, f"add {chain(only_a)} to B.")
        return None

    def _moved(self) -> FoundDifference | None:
        """That two equal operations read the same numbers at other places."""
        for one, other in zip(self.ops_a, self.ops_b):
            for x, y in zip(one.args, other.args):
                if not isinstance(x, Edge) or not isinstance(y, Edge):
                    continue
                right, given = self.alignment.a.value(x), self.alignment.exact.get(y)
                if right is None or given is None or right.shape != given.shape:
                    continue
                if rearranged(given, right):
                    return self._arranged(one, other, x, y, right, given)
        return None

    def _inside(self) -> FoundDifference:
        """The first operation of B whose result is not among those inside A's operations."""
        inside = inner_values(self.alignment, self.pair)
        one = self.a.nodes[self.pair.a.node]
        other, matched = self._first_stranger(inside)
        twin = self._twin(other, inside)
        if twin is not None:
            settings = [f"a constant of {other.op} is {short(x)} in A and {short(y)} in B"
                        for x, y in zip(twin.numbers, _numbers(other)) if x != y]  # fmt: skip
            within = f", inside {one.op}" if twin.inside else ""
            why = f"{'; '.join(settings)}{within}."
            return self._found("operation", one, other, why, "give both the same constant.")
        computed_a, computed_b = _without_equal_end(self.ops_a, self.ops_b)
        why = f"A computes {chain(computed_a)}, B {chain(computed_b)}, from the same numbers."
        if matched:
            why += f" They agree up to {matched}."
        # Not the aligned result that both go on to, but what A computes itself.
        return self._found("operation", computed_a[-1] if computed_a else one, other, why, SAME)

    def _first_stranger(self, inside: list[InnerValue]) -> tuple[TraceNode, str]:
        """The first operation of B that leads to no result inside A's, and the last that is one."""
        matched = ""
        leads: set[int] = set()
        for node in reversed(self.ops_b):
            value = self.alignment.exact.get(Edge(node.index))
            same = [
                v.op
                for v in inside
                if value is not None and v.value.size == value.size and _same(value, v.value)
            ]
            if node.index == self.pair.b.node:
                continue
            if same or node.index in leads:
                matched = matched or (same[0] if same else "")
                leads |= leading_to(self.b, [node.index], lambda e: bool(self.b.nodes[e.node].op))
        strangers = [node for node in self.ops_b if node.index not in leads]
        return (strangers or self.ops_b[-1:])[0], matched

    def _twin(self, other: TraceNode, inside: list[InnerValue]) -> InnerValue | None:
        """The operation inside A's that differs from one of B in a constant only."""
        given = [self.alignment.exact.get(e) for _, e in other.edges]
        for inner in inside:
            if inner.op != other.op or inner.numbers == tuple(_numbers(other)):
                continue
            pairs = zip(inner.operands, given, strict=False)
            if len(inner.operands) == len(given) and all(
                y is not None and x.size == y.size and _same(y, x) for x, y in pairs
            ):
                return inner
        return None


def _first(one: Any, other: Any) -> str:
    """The first pair of numbers that differ."""
    at = np.flatnonzero(one.ravel() != other.ravel())
    if not len(at):
        return "in another order"
    return f"{one.ravel()[at[0]]} instead of {other.ravel()[at[0]]} first"


def _same(one: Any, other: Any) -> bool:
    return between(one, other) < 1e-8


def _placed(place: Side) -> str:
    return f"{place.op} in {place.module}" if place.module else place.op


def _arithmetic(trace: Trace, region: list[int]) -> list[TraceNode]:
    """The operations of a region that compute with floats; all of them if none does."""
    nodes = [trace.nodes[index] for index in region]
    return [n for n in nodes if not moves(n) and "float" in n.metas[0][1]] or nodes


def chain(nodes: list[TraceNode]) -> str:
    """The names of operations, joined by arrows."""
    return with_arrows([node.op for node in nodes])


def _numbers(node: TraceNode) -> list[float]:
    return [float(a) for a in node.args if isinstance(a, int | float)]


def _without_equal_end(
    one: list[TraceNode], other: list[TraceNode]
) -> tuple[list[TraceNode], list[TraceNode]]:
    """Two chains of operations without those that both end with."""
    while len(one) > 1 and len(other) > 1 and one[-1].op == other[-1].op:
        one, other = one[:-1], other[:-1]
    return one, other


def _settings(one: TraceNode, other: TraceNode) -> list[str]:
    """The settings and constants in which two operations of one kind differ."""
    names = dict.fromkeys((*one.attrs, *other.attrs))
    if one.op != other.op:  # layer_norm and standardize_affine both have an eps
        names = {name: None for name in one.attrs if name in other.attrs}
    found = [
        f"{name} is {_plain(one.attrs.get(name))} in A and {_plain(other.attrs.get(name))} in B"
        for name in names
        if str(one.attrs.get(name)) != str(other.attrs.get(name))
    ]
    if one.op != other.op:
        return found
    return found + [
        f"a constant of {one.op} is {short(x)} in A and {short(y)} in B"
        for x, y in zip(_numbers(one), _numbers(other))
        if x != y
    ]


def _plain(value: Any) -> str:
    return "not given" if value is None else str(value)


def leaf_of(trace: Trace, edge: Edge) -> Edge | None:
    """The leaf whose numbers an operand has, moved at most."""
    while not trace.nodes[edge.node].is_leaf:
        node = trace.nodes[edge.node]
        if not moves(node) or len(node.edges) != 1:
            return None
        edge = node.edges[0][1]
    return edge


def uses_of(trace: Trace, leaf: int) -> list[str]:
    """The operations that read a leaf, through operations that only move it."""
    found: list[str] = []
    waiting = [leaf]
    while waiting:
        for index, _ in trace.consumers[waiting.pop(0)]:
            node = trace.nodes[index]
            if moves(node):
                waiting.append(index)
            else:
                found.append(_placed(side(trace, index)))
    return found
