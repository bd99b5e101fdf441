"""diff: where two computations that should be equal begin to differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment, Pair
from gradwalk.inspect.diff.answer import (
    AlignedOperation,
    FoundDifference,
    MappedWeight,
    TraceDifference,
)
from gradwalk.inspect.diff.explain import explained, side
from gradwalk.inspect.diff.known_values import moves
from gradwalk.inspect.diff.numbers import between, precision_name, rearranged
from gradwalk.inspect.diff.rounding_errors import RoundingErrors
from gradwalk.inspect.trace.file import load_trace
from gradwalk.inspect.trace.trace import Edge, Trace


def diff(a: Any, b: Any, *, names: tuple[str, str] = ("A", "B")) -> TraceDifference:
    """Compare two computations that should be equal, operation by operation.

    `a` and `b` are traces, or paths of trace files; `a` is taken for right. Operations are aligned
    by their values, so that names, order, and fused or split operations may differ.

    >>> import gradwalk as gw
    >>> x = gw.randn(4, 8, requires_grad=True)
    >>> one = gw.record(gw.nn.functional.gelu(x).sum())
    >>> other = gw.record(gw.nn.functional.gelu(x, approximate="tanh").sum())
    >>> print(gw.diff(one, other).first.why)
    A computes gelu, B gelu_tanh, from the same numbers.
    """
    a, b = (each if isinstance(each, Trace) else load_trace(each) for each in (a, b))
    alignment = Alignment(a, b)
    rounding = RoundingErrors(alignment.a), RoundingErrors(alignment.b)
    findings = [explained(alignment, p) for p in _in_order(alignment) if p.differs]
    coarse = _precision(alignment, *rounding)
    findings = sorted([*findings, *coarse], key=lambda f: f.b.node if f.b else -1)
    operations = _operations(alignment, rounding[1], findings)
    total = [i for i in alignment.b.used if b.nodes[i].op]
    paired = {edge.node for edge in alignment.pairs}
    return TraceDifference(
        findings,
        operations,
        _weights(alignment),
        [],
        names,
        sum(i in paired for i in total),
        len(total),
        a,
        b,
    )


def _in_order(alignment: Alignment) -> list[Pair]:
    """The aligned operations in B's order."""
    pairs = [p for e, p in sorted(alignment.pairs.items()) if alignment.b.node(e).op]
    return pairs


def _operations(
    alignment: Alignment, rounding: RoundingErrors, findings: list[FoundDifference]
) -> list[AlignedOperation]:
    rows = []
    verdicts = {f.b.node: "precision" if f.kind == "precision" else "differs"
                for f in findings if f.b is not None}  # fmt: skip
    for pair in _in_order(alignment):
        node = alignment.b.node(pair.b)
        if moves(node) and node.index not in verdicts:
            continue
        one, other = alignment.a.value(pair.a), alignment.b.value(pair.b)
        accumulated = None if one is None or other is None else between(other, one)
        own = np.nanmax([pair.own, rounding.of(node.index)])
        region = [verdicts[i] for i in pair.region_b if i in verdicts]
        rows.append(
            AlignedOperation(
                side(alignment.a.trace, pair.a.node),
                side(alignment.b.trace, node.index),
                float(own),
                accumulated,
                None,
                region[0] if region else "",
            )
        )
    return rows


# -- precision -----------------------------------------------------------------------------------


def _precision(
    alignment: Alignment, of_a: RoundingErrors, of_b: RoundingErrors
) -> list[FoundDifference]:
    """The first operation that rounds more coarsely in one of the two."""
    for pair in _in_order(alignment):
        if pair.opaque or not alignment.b.is_float(pair.b):
            continue
        eps_a, eps_b = alignment.a.precision(pair.a), alignment.b.precision(pair.b)
        for fine, region, rounding, mine in (
            (eps_a, pair.region_b, of_b, alignment.b),
            (eps_b, pair.region_a, of_a, alignment.a),
        ):
            for index in region:
                if fine and rounding.is_out_of_line(index, fine):
                    own = rounding.of(index)
                    return [_rounded(alignment, pair, index, mine is alignment.b, own, fine)]
    return []


def _rounded(
    alignment: Alignment, pair: Pair, index: int, in_b: bool, own: float, fine: float
) -> FoundDifference:
    mine = alignment.b if in_b else alignment.a
    eps = mine.precision(Edge(index))
    name, other = precision_name(eps), precision_name(fine)
    who, whom = ("B", "A") if in_b else ("A", "B")
    a = side(alignment.a.trace, pair.a.node if in_b else index)
    b = side(alignment.b.trace, index if in_b else pair.b.node)
    place = b if in_b else a
    within = f" in {place.module}" if place.module else ""
    if name == other:
        why = f"{who}'s result is further from float64 than {name} explains."
        fix = f"compute {place.op} in a way that loses fewer digits."
    else:
        why = f"{who} has {name} from here on, and {whom} {other}."
        fix = f"cast {who} to {other} here, or leave {place.op} out of autocast."
    what = f"The first operation that rounds otherwise is {place.op}{within}."
    values = alignment.a.value(pair.a), alignment.b.value(pair.b)
    accumulated = None if values[0] is None or values[1] is None else between(values[1], values[0])
    return FoundDifference("precision", "forward", what, why, fix, a, b, own, accumulated)


# -- weights -------------------------------------------------------------------------------------


def _weights(alignment: Alignment) -> list[MappedWeight]:
    """The parameters of B with their counterparts in A."""
    a, b = alignment.a.trace, alignment.b.trace
    mapped = []
    met: set[int] = set()
    for index in alignment.b.used:
        node = b.nodes[index]
        if not node.is_leaf or not (node.needs_grad or index in b.names):
            continue
        pair = alignment.pairs.get(Edge(index))
        if pair is None:
            mapped.append(MappedWeight(None, b.name(index), "missing"))
            continue
        met.add(pair.a.node)
        one, other = alignment.a.value(pair.a), alignment.b.value(pair.b)
        how = "same" if pair.distance == 0 else "rounded"
        if rearranged(other, one):
            how = "transposed" if other.shape == one.T.shape else "rearranged"
        mapped.append(MappedWeight(a.name(pair.a.node), b.name(index), how, pair.distance))
    for index in alignment.a.used:
        node = a.nodes[index]
        if node.is_leaf and index in a.names and index not in met:
            known = {alignment.a.class_of(p.a) for p in alignment.pairs.values()}
            if alignment.a.class_of(Edge(index)) not in known:
                mapped.append(MappedWeight(a.name(index), None, "missing"))
    return mapped
