"""diff: where two computations that should be equal begin to differ."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment, Pair
from gradwalk.inspect.diff.answer import (
    AlignedOperation,
    FoundDifference,
    MappedWeight,
    TraceDifference,
)
from gradwalk.inspect.diff.compiled_region import notes_of
from gradwalk.inspect.diff.explain import chain, explained, side
from gradwalk.inspect.diff.gradients import Gradients
from gradwalk.inspect.diff.known_values import moves
from gradwalk.inspect.diff.live_run import recorded
from gradwalk.inspect.diff.numbers import between, fits_bfloat16, precision_name, rearranged
from gradwalk.inspect.diff.rounding_errors import IN_LINE, RoundingErrors
from gradwalk.inspect.trace.file import load_trace
from gradwalk.inspect.trace.live import is_tensor
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.trace import Edge, Trace


def diff(
    a: Any,
    b: Any,
    *,
    inputs: Any = None,
    loss: Callable[..., Any] | None = None,
    names: tuple[str, str] | None = None,
) -> TraceDifference:
    """Compare two computations that should be equal, operation by operation.

    `a` and `b` are traces or paths of trace files; or models and functions, which are called with
    `inputs` (converted for a model of the other engine) and recorded, backward pass included. `a`
    is taken for right. `loss` makes one number of what they return; without it, gradients start
    from the same random numbers in both. Operations are aligned by their values, so that names,
    order, and fused or split operations may differ.

    >>> import gradwalk as gw
    >>> x = gw.randn(4, 8, requires_grad=True)
    >>> one = gw.record(gw.nn.functional.gelu(x).sum())
    >>> other = gw.record(gw.nn.functional.gelu(x, approximate="tanh").sum())
    >>> print(gw.diff(one, other).first.why)
    A computes gelu, B gelu_tanh, from the same numbers.
    """
    if names is None:
        names = _named(a, "A"), _named(b, "B")
    a, b = (_trace_of(each, inputs, loss) for each in (a, b))
    return compared(a, b, names)


def _named(given: Any, otherwise: str) -> str:
    if isinstance(given, str | os.PathLike):
        return os.path.basename(os.fspath(given))
    return otherwise


def _trace_of(given: Any, inputs: Any, loss: Callable[..., Any] | None) -> Trace:
    if isinstance(given, Trace):
        return given
    if isinstance(given, str | os.PathLike):
        return load_trace(given)
    if callable(given):
        return recorded(given, inputs, loss)
    if is_tensor(given):
        return as_trace(given)
    raise TypeError(
        f"diff compares traces, trace files, models and functions, not {type(given).__name__}. "
        "Fix: gw.diff(trace_a, trace_b), or gw.diff(model_a, model_b, inputs=x)."
    )


def compared(a: Trace, b: Trace, names: tuple[str, str]) -> TraceDifference:
    """Compare two traces."""
    alignment = Alignment(a, b)
    rounding = RoundingErrors(alignment.a), RoundingErrors(alignment.b)
    findings = [explained(alignment, p) for p in _in_order(alignment) if p.differs]
    coarse = _precision(alignment, *rounding)
    findings = sorted([*findings, *coarse], key=lambda f: f.b.node if f.b else -1)
    if not any(f.kind != "precision" for f in findings):
        findings += _not_compared(alignment)
    gradients = Gradients(alignment)
    findings += gradients.findings(any(f.kind != "precision" for f in findings))
    operations = _operations(alignment, rounding[1], gradients, findings)
    total = [i for i in alignment.b.used if b.nodes[i].op]
    paired = {edge.node for edge in alignment.pairs}
    return TraceDifference(
        findings,
        operations,
        _weights(alignment),
        [
            n
            for p in _in_order(alignment)
            if p.opaque and not p.differs
            for n in notes_of(alignment, p)
        ],
        names,
        sum(i in paired for i in total),
        len(total),
        a,
        b,
        {
            e.node: (p.a.node, _accumulated(alignment, p))
            for e, p in alignment.pairs.items()
            if e.output == 0
        },
    )


def _accumulated(alignment: Alignment, pair: Pair) -> float | None:
    """How far the recorded results are apart."""
    one, other = alignment.a.value(pair.a), alignment.b.value(pair.b)
    return None if one is None or other is None else between(other, one)


def _not_compared(alignment: Alignment) -> list[FoundDifference]:
    """That the ends of the two have nothing to do with one another, or are not known."""
    lost_a, lost_b = alignment.lost_a(), alignment.lost_b()
    if not lost_b and not lost_a:
        return []
    a, b = alignment.a.trace, alignment.b.trace
    if lost_b and not lost_a:
        return [_goes_on(alignment, lost_b)]
    one = side(a, lost_a[0]) if lost_a else None
    other = side(b, lost_b[0]) if lost_b else None
    forgotten = sum(len(nodes) for trace in (a, b) for nodes in trace.reduced.values())
    sizes = [alignment.a.node(Edge(i)).shape for i in alignment.a.ends]
    if forgotten or any(alignment.a.value(Edge(i)) is None for i in alignment.a.ends):
        why = f"{forgotten} arrays were not kept, so the numbers cannot be compared."
        fix = 'record with keep="all", or with a larger budget.'
    else:
        shapes = [alignment.b.node(Edge(i)).shape for i in alignment.b.ends]
        why = f"A ends with shape {sizes[-1]}, B with {shapes[-1]}, and no value of one is the end."
        fix = "compare computations that end with the same value, such as the loss."
    what = "From here on, nothing could be compared."
    return [FoundDifference("unknown", "forward", what, why, fix, one, other)]


def _goes_on(alignment: Alignment, lost_b: list[int]) -> FoundDifference:
    """That all of A is in B, which makes something else of it."""
    nodes = [alignment.b.trace.nodes[index] for index in lost_b]
    ops = chain([node for node in nodes if not moves(node)] or nodes)
    why = f"every result of A is in B, and B goes on with {ops}."
    a, b = (side(alignment.a.trace, alignment.a.ends[-1]), side(alignment.b.trace, lost_b[0]))
    what = f"B has an operation that A has not: {b.op}{f' in {b.module}' if b.module else ''}."
    return FoundDifference("extra", "forward", what, why, f"take {ops} out of B.", a, b)


def _in_order(alignment: Alignment) -> list[Pair]:
    """The aligned operations in B's order."""
    pairs = [p for e, p in sorted(alignment.pairs.items()) if alignment.b.node(e).op]
    return pairs


def _operations(
    alignment: Alignment,
    rounding: RoundingErrors,
    gradients: Gradients,
    findings: list[FoundDifference],
) -> list[AlignedOperation]:
    rows = []
    verdicts: dict[int, str] = {}
    for one in findings:
        if one.b is not None:
            word = one.kind if one.kind in ("precision", "gradient") else "differs"
            verdicts.setdefault(one.b.node, word)
    for pair in _in_order(alignment):
        node = alignment.b.node(pair.b)
        if moves(node) and node.index not in verdicts:
            continue
        own = np.nanmax([pair.own, rounding.of(node.index)])
        region = [verdicts[i] for i in pair.region_b if i in verdicts]
        rows.append(
            AlignedOperation(
                side(alignment.a.trace, pair.a.node),
                side(alignment.b.trace, node.index),
                float(own),
                _accumulated(alignment, pair),
                gradients.accumulated(pair.b),
                region[0] if region else "",
            )
        )
    return rows


# -- precision -----------------------------------------------------------------------------------


def _precision(
    alignment: Alignment, of_a: RoundingErrors, of_b: RoundingErrors
) -> list[FoundDifference]:
    """The first value that is rounded more coarsely in one of the two."""
    for edge, pair in sorted(alignment.pairs.items()):
        if pair.opaque or not alignment.b.is_float(edge):
            continue
        eps_a, eps_b = alignment.a.precision(pair.a), alignment.b.precision(pair.b)
        if alignment.b.node(edge).is_leaf:
            if pair.distance > IN_LINE**2 * max(min(eps_a, eps_b), 1e-9):
                return [_rounded_leaf(alignment, pair)]
            continue
        for fine, region, rounding, mine in (
            (eps_a, pair.region_b, of_b, alignment.b),
            (eps_b, pair.region_a, of_a, alignment.a),
        ):
            for index in region:
                if fine and rounding.is_out_of_line(index, fine):
                    own = rounding.of(index)
                    return [_rounded(alignment, pair, index, mine is alignment.b, own, fine)]
    return []


def _rounded_leaf(alignment: Alignment, pair: Pair) -> FoundDifference:
    a, b = alignment.a.trace, alignment.b.trace
    reader = next((i for i, _ in b.consumers[pair.b.node]), pair.b.node)
    in_b = fits_bfloat16(alignment.b.value(pair.b))
    who, other = ("B", "A") if in_b else ("A", "B")
    name = (b if in_b else a).name((pair.b if in_b else pair.a).node)
    place = side(b, reader)
    within = f" in {place.module}" if place.module else ""
    return FoundDifference(
        "precision",
        "forward",
        f"The first operation with rounded numbers is {place.op}{within}.",
        f"{who}'s {name} is {other}'s, rounded to fewer digits.",
        f"make {name} in the dtype that {other} has, or convert it there before it is used.",
        side(a, pair.a.node),
        place,
        pair.distance,
        pair.distance,
    )


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
        fix = f"cast {who} to {other} here, or leave it out of autocast."
    what = f"The first operation that rounds otherwise is {place.op}{within}."
    apart = _accumulated(alignment, pair)
    return FoundDifference("precision", "forward", what, why, fix, a, b, own, apart)


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
