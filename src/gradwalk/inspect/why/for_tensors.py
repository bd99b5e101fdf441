"""why for tensors: contributions are arrays, and for a chosen element numbers again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.inspect.memory.liveness import operations
from gradwalk.inspect.open.element import (
    ElementGraph,
    element_name,
    flat_of,
    index_of,
    place_in,
)
from gradwalk.inspect.open.open_op import backward_in_numbers
from gradwalk.inspect.open.scalar_forms import TooLarge
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Edge, Kept, Trace, TraceNode
from gradwalk.inspect.why import path_counts
from gradwalk.inspect.why.path_counts import Cone
from gradwalk.inspect.why.why import (
    EdgeShare,
    TermShare,
    Why,
    add_paths,
    answer_for,
    cosine,
    edge_share,
    seed_share,
    unexplained,
)

MOST_SWEEPS = 8  # a loss term costs one partial backward pass
MOST_OPENED = 50_000  # scalar operations between one element and the loss
_ROUNDING = {"float64": 1e-9}


def why_tensor(cone: Cone, gradient: Kept) -> Why:
    """Per edge, group and loss term, with norms and cosines."""
    start = cone.start
    notes: list[str] = []
    edges = _edges(cone, gradient, notes)
    gradient = _whole(gradient, edges)
    terms = _terms_by_sweep(cone, gradient, notes) if is_array(gradient) else []
    notes += _first_split(cone)
    tolerance = _ROUNDING.get(cone.trace.nodes[start.node].metas[start.output][1], 1e-3)
    notes += unexplained(gradient, [share.amount for share in edges], tolerance)
    return answer_for(cone, gradient, _norm(gradient), edges, terms, notes)


def why_element(cone: Cone, gradient: Kept, element: Any, top: int) -> Why:
    """The same for one element, exactly, with paths where its scalar graph is small enough."""
    trace, start = cone.trace, cone.start
    place = place_in(trace, start, element)
    flat = flat_of(trace, start, place)
    notes: list[str] = []
    whole_edges = _edges(cone, gradient, notes)
    gradient = _whole(gradient, whole_edges)
    if not is_array(gradient):
        raise replay.NotReplayable(
            f"the gradient of {trace.name(start.node)} was not kept. Fix: record with keep='all', "
            "or a larger budget."
        )
    own = float(np.asarray(gradient)[place])
    edges = [_at(share, place) for share in whole_edges]
    edges.sort(key=lambda share: -share.norm)
    kept = trace.nodes[start.node].values[start.output]
    terms = _terms_by_tangent(cone, place, notes)
    answer = answer_for(cone, own, abs(own), edges, terms, notes)
    answer.name, answer.index = element_name(trace, start, flat), place
    answer.value = float(np.asarray(kept)[place]) if is_array(kept) else None
    _add_paths(answer, cone, flat, top)
    return answer


def _at(share: EdgeShare, place: tuple[int, ...]) -> EdgeShare:
    if share.amount is None:
        return dataclasses.replace(share, norm=math.nan, cosine=None)
    amount = float(np.asarray(share.amount)[place])
    return dataclasses.replace(share, amount=amount, norm=abs(amount), cosine=None)


# -- by edge ---------------------------------------------------------------------------------------


def _edges(cone: Cone, gradient: Kept, notes: list[str]) -> list[EdgeShare]:
    start = cone.start
    uses = cone.uses[start.node]
    amounts: dict[tuple[int, int], Kept] = {use: _pushed(cone, *use) for use in uses}
    if not all(is_array(amount) for amount in amounts.values()):
        try:
            amounts.update(_pulled_down(cone, replay.kept_seeds(cone.sweep)))
        except replay.NotReplayable as error:
            notes.append(f"some contributions are known by their size only: {error}")
    shares = [
        edge_share(cone, *edge, amount if is_array(amount) else None, _norm(amount))
        for edge, amount in amounts.items()
    ]
    if start.node in cone.seeds:
        shares.append(seed_share(replay.kept_seeds(cone.sweep)[start]))
    whole = _whole(gradient, shares)
    for share in shares:
        share.cosine = cosine(share.amount, whole)
    return sorted(shares, key=lambda share: -share.norm)


def _first_split(cone: Cone) -> list[str]:
    """Follow single edges up to the first node with several contributions."""
    at = cone.start.node
    while len(cone.uses[at]) == 1 and at not in cone.seeds:
        at = cone.uses[at][0][0]
    if at == cone.start.node or len(cone.uses[at]) < 2:
        return []
    name = cone.trace.name(at)
    return [f"all of it comes through {name}; why({at}) splits it there"]


def _whole(gradient: Kept, edges: list[EdgeShare]) -> Kept:
    """The recorded gradient; else the sum of the contributions, if all are known."""
    if is_array(gradient) or not edges or any(share.amount is None for share in edges):
        return gradient
    return sum(np.asarray(share.amount) for share in edges)


def _pushed(cone: Cone, consumer: int, argument: int) -> Kept:
    """What an edge carried: as recorded, else pulled through the op again."""
    pushed = cone.sweep.pushed[consumer]
    if pushed and is_array(pushed[argument]):
        return pushed[argument]
    node = cone.trace.nodes[consumer]
    given = cone.sweep.grads.get(consumer, [])
    try:
        if given and all(g is None or is_array(g) for g in given):
            return _pull_to(cone, node, [argument], given)[argument]
    except replay.NotReplayable:
        pass
    return pushed[argument] if pushed else None


def _pulled_down(cone: Cone, seeds: dict[Edge, Any]) -> dict[tuple[int, int], Any]:
    """Compute from the trace alone what arrives at x along each of its edges."""
    trace = cone.trace
    arrived = dict(seeds)
    arrivals: dict[tuple[int, int], Any] = {}
    for index in reversed(cone.nodes):
        node = trace.nodes[index]
        own = [arrived.pop(Edge(index, o), None) for o in range(len(node.metas))]
        if all(g is None for g in own):
            continue
        wanted = [position for _, position in cone.inputs[index]]
        pulled = _pull_to(cone, node, wanted, replay.filled(node, own))
        for position in wanted:
            source, given = node.args[position], pulled[position]
            if given is None:
                continue
            if source == cone.start:
                arrivals[index, position] = given
            else:
                arrived[source] = arrived[source] + given if source in arrived else given
    return arrivals


def _norm(kept: Kept) -> float:
    if kept is None:
        return math.nan
    return kept.norm if isinstance(kept, Statistics) else float(
        np.linalg.norm(np.asarray(kept, np.float64))
    )  # fmt: skip


def _pull_to(cone: Cone, node: TraceNode, wanted: list[int], g: Any) -> list[Any]:
    """Pull through a node to some of its arguments; the others are constants."""
    values = replay.known_operands(cone.trace, node)
    args = tuple(a if i in wanted else values[i] for i, a in enumerate(node.args))
    return replay.pull(cone.trace, dataclasses.replace(node, args=args), g)


# -- by loss term ----------------------------------------------------------------------------------


def _terms(cone: Cone) -> list[tuple[Edge, int, float]]:
    """The terms of the loss; coefficients include the seed of the backward pass."""
    terms = path_counts.loss_terms(cone)
    if not terms:
        return []
    seed = float(np.asarray(replay.kept_seeds(cone.sweep)[Edge(cone.sweep.root)]).reshape(()))
    return [(edge, flat, seed * coefficient) for edge, flat, coefficient in terms]


def _term_share(
    cone: Cone, term: tuple[Edge, int, float], amount: Any, gradient: Kept = None
) -> TermShare:
    edge, flat, coefficient = term
    return TermShare(
        name=element_name(cone.trace, edge, flat),
        coefficient=coefficient,
        amount=amount,
        norm=_norm(amount),
        cosine=cosine(amount, gradient),
        node=edge.node,
        index=index_of(cone.trace, edge, flat) or None,
    )


def _terms_by_sweep(cone: Cone, gradient: Kept, notes: list[str]) -> list[TermShare]:
    """One partial backward pass per term."""
    try:
        parts = _terms(cone)
        if len(parts) > MOST_SWEEPS:
            notes.append(
                f"the loss is a sum of {len(parts)} terms; ask for one element "
                "(element=...) to see what each contributes"
            )
            return []
        shares = [_term_share(cone, part, _gradient_from(cone, *part), gradient) for part in parts]
    except replay.NotReplayable as error:
        notes.append(f"not split by loss term: {error}")
        return []
    return sorted(shares, key=lambda share: -share.norm)


def _gradient_from(cone: Cone, edge: Edge, flat: int, coefficient: float) -> Any:
    """coefficient × d (one element of a node) / d x."""
    start = cone.start
    shape, dtype = cone.trace.nodes[edge.node].metas[edge.output]
    hot = np.zeros(shape, dtype)
    hot.reshape(-1)[flat] = coefficient
    if edge == start:
        return hot
    zero = np.zeros(*cone.trace.nodes[start.node].metas[start.output])
    return sum(_pulled_down(cone, {edge: hot}).values(), zero)


def _terms_by_tangent(cone: Cone, place: tuple[int, ...], notes: list[str]) -> list[TermShare]:
    """All terms at once: how far each moves with the element, one pass forward."""
    try:
        parts = _terms(cone)
        moves = dict(_tangents(cone, place, {edge for edge, _, _ in parts})) if parts else {}
    except replay.NotReplayable as error:
        notes.append(f"not split by loss term: {error}")
        return []
    shares = []
    for edge, flat, coefficient in parts:
        slope = float(np.ravel(moves[edge])[flat]) if edge in moves else 0.0
        shares.append(_term_share(cone, (edge, flat, coefficient), coefficient * slope))
    return sorted(shares, key=lambda share: -share.norm)


def _tangents(cone: Cone, place: tuple[int, ...], wanted: set[Edge]) -> Iterator[tuple[Edge, Any]]:
    """d node / d element for the wanted nodes; others are freed after their last use."""
    trace, start = cone.trace, cone.start
    hot = np.zeros(*trace.nodes[start.node].metas[start.output])
    hot[place] = 1
    known: dict[Edge, Any] = {start: hot}
    if start in wanted:
        yield start, hot
    last_use = {source: index for index in cone.nodes for source, _ in cone.inputs[index]}
    for index in cone.nodes:
        node = trace.nodes[index]
        used = {position for _, position in cone.inputs[index]}
        moving = [
            known.get(a) if i in used and isinstance(a, Edge) else None
            for i, a in enumerate(node.args)
        ]
        if any(m is not None for m in moving):
            args = replay.typed(node, replay.known_operands(trace, node))
            for output, tangent in enumerate(replay.push(node, args, moving)):
                edge = Edge(index, output)
                if tangent is not None:
                    known[edge] = tangent
                    if edge in wanted:
                        yield edge, tangent
        for source, _ in cone.inputs[index]:
            if last_use[source] == index:
                for edge in [e for e in known if e.node == source]:
                    del known[edge]


# -- by path ---------------------------------------------------------------------------------------


def _add_paths(answer: Why, cone: Cone, flat: int, top: int) -> None:
    """Open everything between the element and the loss into numbers, and rank its paths."""
    trace, start = cone.trace, cone.start
    try:
        (root, seed), *others = replay.kept_seeds(cone.sweep).items()
        if others or np.size(seed) != 1:
            answer.notes.append("paths of numbers are found for a loss that is one number")
            return
        count = sum(_size_in_numbers(trace, trace.nodes[index]) for index in cone.nodes)
        if count > 2 * MOST_OPENED:
            raise TooLarge(f"between it and the loss lie some {count:,} operations on numbers")
        graph = ElementGraph(
            trace,
            root,
            0,
            lambda edge: edge == start or edge.node not in cone.uses or edge.node == start.node,
            MOST_OPENED,
        )
    except (TooLarge, replay.NotReplayable) as error:
        answer.notes.append(f"paths are those of tensors: {error}")
        return
    leaf = graph.leaves.get((start, flat))
    if leaf is None:
        answer.notes.append("no path of numbers leads from this element to the loss")
        answer.path_count, answer.dead_path_count = 0, 0
        return
    backward_in_numbers(graph.trace, float(np.asarray(seed).reshape(())), graph.root)
    inner = Cone.of(graph.trace, Edge(leaf), graph.trace.sweep)
    slopes = path_counts.local_derivatives(graph.trace, inner.nodes)
    add_paths(answer, inner, slopes, top)
    answer.notes += graph.notes


def _size_in_numbers(trace: Trace, node: TraceNode) -> int:
    """About how many operations on numbers a tensor operation is."""
    read = sum(math.prod(trace.shape_of(edge)) for _, edge in node.edges)
    return max(int(operations(trace, node)), read)
