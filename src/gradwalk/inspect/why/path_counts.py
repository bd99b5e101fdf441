"""Count, sum and rank the paths of a scalar graph without listing them.

A path from x to the loss contributes the product of its local derivatives. There may be 2⁶⁰ paths,
but each question needs only one number, or the k largest paths, at each node: multiplying by a
common factor keeps the order of magnitudes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.trace.replay import NotReplayable, is_array, op_of, pull_numbers
from gradwalk.inspect.trace.trace import Edge, Sweep, Trace, TraceNode

Locals = dict[int, tuple[Any, ...]]  # node -> d node / d argument, None where there is none
AGREE = 1e-9  # relative: beyond it a node did not push what the op table says


# -- local derivatives -----------------------------------------------------------------------------


def local_derivatives(trace: Trace, nodes: Iterable[int], sweep: Sweep | None = None) -> Locals:
    """d node / d argument of every given node of a scalar trace, as numbers.

    They come from the op table. Where a node pushed something else in `sweep` (a hand-written
    `_backward`), that counts.
    """
    derivatives: Locals = {}
    with np.errstate(all="ignore"):
        for index in nodes:
            node = trace.nodes[index]
            op, slopes = op_of(node), None
            if op is not None:
                args = [trace.nodes[a.node].value if isinstance(a, Edge) else a for a in node.args]
                slopes = tuple(pull_numbers(op, node, 1.0, args, node.value))
            derivatives[index] = (
                _as_pushed(node, slopes, sweep) if sweep is not None else slopes or ()
            )
    return derivatives


def _as_pushed(node: TraceNode, slopes: tuple[Any, ...] | None, sweep: Sweep) -> tuple[Any, ...]:
    pushed, g = sweep.pushed.get(node.index), sweep.grad(node.index)
    if not pushed or not is_array(g):
        return slopes or (None,) * len(node.args)
    if slopes is not None and all(_agree(s, g, p) for s, p in zip(slopes, pushed)):
        return slopes
    if not g or not math.isfinite(g):
        return slopes or pushed  # 0 / 0 tells nothing
    return tuple(None if p is None else p / g for p in pushed)


def _agree(slope: float | None, g: float, pushed: float | None) -> bool:
    if slope is None or pushed is None:
        return slope is None and pushed is None
    made = slope * g
    return abs(made - pushed) <= AGREE * abs(pushed) or not math.isfinite(made)


# -- what lies between -----------------------------------------------------------------------------


def carries(trace: Trace, sweep: Sweep, node: int, argument: int) -> bool:
    """Whether a gradient goes along this edge in this backward pass."""
    pushed = sweep.pushed.get(node)
    if pushed is None:
        return False
    if pushed:
        return pushed[argument] is not None
    edge = trace.nodes[node].args[argument]  # its pushes were not recorded
    return isinstance(edge, Edge) and trace.nodes[edge.node].needs_grad


@dataclass(slots=True)
class Cone:
    """Everything between a node and the loss, with the edges that carry gradients."""

    trace: Trace
    sweep: Sweep
    start: Edge
    nodes: list[int]  # without the start; inputs come before consumers
    inputs: dict[int, list[tuple[int, int]]]  # node -> (input in the cone, argument) pairs
    uses: dict[int, list[tuple[int, int]]]  # node -> (consumer in the cone, argument) pairs
    seeds: dict[int, Any]  # roots and seeds

    @classmethod
    def of(cls, trace: Trace, start: Edge, sweep: Sweep) -> Cone:
        """The nodes on some path from `start` to where the backward pass began."""
        cone = cls(trace, sweep, start, [], {}, {start.node: []}, {})
        for node in trace.nodes[start.node + 1 :]:
            if node.index not in sweep.pushed:
                continue
            sources = [
                (edge.node, position)
                for position, edge in node.edges
                if edge.node in cone.uses
                and (edge.node != start.node or edge == start)
                and carries(trace, sweep, node.index, position)
            ]
            if sources:
                cone.nodes.append(node.index)
                cone.inputs[node.index] = sources
                cone.uses[node.index] = []
                for source, position in sources:
                    cone.uses[source].append((node.index, position))
        for edge, seed in sweep.seeds.items():
            if edge.node in cone.uses and (edge.node != start.node or edge == start):
                cone.seeds.setdefault(edge.node, seed)
        return cone

    @property
    def from_the_loss(self) -> list[int]:
        """The nodes in the order of a backward pass, then the start."""
        return [*reversed(self.nodes), self.start.node]


# -- counting and summing --------------------------------------------------------------------------


def sum_over_paths(cone: Cone, seeds: dict[int, Any], factor: Callable[[int, int], Any]) -> Any:
    """Σ over all paths of seed × Π factor(node, argument): one number per node at a time."""
    sums = dict(seeds)
    for node in reversed(cone.nodes):
        total = sums.pop(node, 0)
        for source, position in cone.inputs[node]:
            sums[source] = sums.get(source, 0) + total * factor(node, position)
    return sums.get(cone.start.node, 0)


def count_paths(cone: Cone, slopes: Locals | None = None) -> int:
    """How many paths there are, exactly; with `slopes` only those without a factor 0."""
    counts: int = sum_over_paths(
        cone,
        dict.fromkeys(cone.seeds, 1),
        lambda node, position: slopes is None or slopes[node][position] != 0,
    )
    return counts


def sum_of_magnitudes(cone: Cone, slopes: Locals) -> float:
    """Σ over all paths of |product of factors|: what the gradient would be if nothing cancelled."""
    seeds = {node: abs(float(seed)) for node, seed in cone.seeds.items()}
    return float(sum_over_paths(cone, seeds, lambda node, at: abs(slopes[node][at])))


def tangents(cone: Cone, slopes: Locals) -> dict[int, float]:
    """d node / d start for every node of the cone: one pass forward."""
    moves = {cone.start.node: 1.0}
    for node in cone.nodes:
        moves[node] = sum(
            slopes[node][position] * moves[source] for source, position in cone.inputs[node]
        )
    return moves


# -- the largest paths -----------------------------------------------------------------------------


@dataclass
class PathShare:
    """The contribution of one path: the product of its local derivatives."""

    amount: float
    nodes: list[int]  # from x to the loss
    names: list[str]
    arguments: list[int]  # through which argument each next node is entered
    factors: list[float]  # d next / d this
    seed: float = 1.0  # what the backward pass began with


def best_paths(cone: Cone, slopes: Locals, top: int) -> list[PathShare]:
    """The `top` paths of largest magnitude, found without listing the others.

    Each node keeps its `top` best paths from the loss. An extension depends on a path's product
    alone, so a dropped path can never overtake. Products are mantissa and power of two, because
    thousands of factors leave the range of floats.
    """
    ways: dict[int, list[_Way]] = {}
    start = cone.start.node
    for node in cone.from_the_loss:
        offered: list[_Way] = []
        if node in cone.seeds:
            offered.append((*math.frexp(float(cone.seeds[node])), -1, 0, 0))
        for consumer, position in cone.uses[node]:
            slope = slopes[consumer][position]
            for rank, way in enumerate(ways[consumer]):
                mantissa, power = math.frexp(way[0] * slope)
                offered.append((mantissa, power + way[1], consumer, position, rank))
        ways[node] = heapq.nlargest(top, offered, key=_magnitude) if len(offered) > 1 else offered
    return [_followed(cone, ways, slopes, rank) for rank in range(len(ways[start][:top]))]


# The product (mantissa, power of two), and the consumer, argument and rank it came from.
_Way = tuple[float, int, int, int, int]


def _magnitude(way: _Way) -> tuple[float, float]:
    mantissa = abs(way[0])
    if not mantissa:
        return -math.inf, 0.0
    if mantissa < 1:
        return way[1], mantissa
    return math.inf, mantissa if mantissa == mantissa else math.inf  # NaN first: it must be seen


def _product(mantissa: float, power: int) -> float:
    try:
        return math.ldexp(mantissa, power)
    except OverflowError:
        return math.copysign(math.inf, mantissa)


def _followed(cone: Cone, ways: dict[int, list[_Way]], slopes: Locals, rank: int) -> PathShare:
    start = cone.start.node
    mantissa, power, consumer, position, next_rank = ways[start][rank]
    path = PathShare(_product(mantissa, power), [start], [], [], [])
    while consumer >= 0:
        path.nodes.append(consumer)
        path.arguments.append(position)
        path.factors.append(slopes[consumer][position])
        mantissa, power, consumer, position, next_rank = ways[consumer][next_rank]
    path.seed = _product(mantissa, power)
    path.names = [cone.trace.name(node) for node in path.nodes]
    return path


# -- the terms of a loss that is a sum -------------------------------------------------------------

_PASSED_THROUGH = ("alias", "clone", "reshape", "squeeze", "cast")


def loss_terms(cone: Cone) -> list[tuple[Edge, int, float]]:
    """A loss that is a sum as (output, element, coefficient) of its terms that depend on x.

    It looks through sums and differences of single numbers, through products and quotients of a sum
    with constants, and through a sum or mean over all elements. A node with a label is a term of
    its own. The result is empty for a loss that is no sum.
    """
    trace, root = cone.trace, cone.sweep.root
    only_root = len(cone.sweep.seeds) == 1 and root in cone.seeds
    if not only_root or math.prod(trace.nodes[root].shape) != 1:
        return []
    sums = _sums(cone)
    coefficients = {Edge(root): 1.0}
    terms: list[tuple[Edge, int, float]] = []
    for index in cone.from_the_loss:
        node = trace.nodes[index]
        for output in range(len(node.metas)):
            coefficient = coefficients.pop(Edge(index, output), None)
            if coefficient is None:
                continue
            if index not in sums:
                terms.append((Edge(index, output), 0, coefficient))
                continue
            for _, position in cone.inputs[index]:
                edge = node.args[position]
                size = math.prod(trace.shape_of(edge))
                if size > 1:  # of a sum or a mean
                    each = coefficient / size if node.op == "mean" else coefficient
                    terms += [(edge, i, each) for i in range(size)]
                else:
                    passed = coefficient * _scale(trace, node, position)
                    coefficients[edge] = coefficients.get(edge, 0.0) + passed
    return terms if len(terms) > 1 else []


def _sums(cone: Cone) -> set[int]:
    """The nodes that are a sum, or a multiple of one, and not a named part of something else."""
    sums: set[int] = set()
    for index in cone.nodes:
        node = cone.trace.nodes[index]
        if math.prod(node.shape) != 1 or (node.label and index != cone.sweep.root):
            continue
        linear = len(cone.inputs[index]) == 1
        if node.op in ("add", "sub", "sum", "mean"):
            sums.add(index)
        elif node.op in _PASSED_THROUGH or (node.op in ("neg", "mul", "div") and linear):
            source, position = cone.inputs[index][0]
            if source in sums and not (node.op == "div" and position == 1):
                sums.add(index)
    return sums


def _scale(trace: Trace, node: TraceNode, position: int) -> float:
    if node.op == "neg" or (node.op == "sub" and position == 1):
        return -1.0
    if node.op not in ("mul", "div"):
        return 1.0
    other = node.args[1 - position]
    value = trace.nodes[other.node].values[other.output] if isinstance(other, Edge) else other
    if not is_array(value):
        raise NotReplayable(f"a factor of {trace.name(node.index)} was not kept")
    factor = float(np.asarray(value).reshape(()))
    if node.op == "mul":
        return factor
    return 1 / factor if factor else math.nan
