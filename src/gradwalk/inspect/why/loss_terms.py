"""The terms of a loss that is a sum, with their coefficients."""

from __future__ import annotations

import math

import numpy as np

from gradwalk.inspect.trace.replay import NotReplayable, is_array
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.inspect.why.path_counts import Cone

_PASSED_THROUGH = ("alias", "clone", "reshape", "squeeze", "cast")


def loss_terms(cone: Cone) -> list[tuple[Edge, int, float]]:
    """A loss that is a sum as (output, element, coefficient) of its terms that depend on x.

    It looks through sums and differences of single numbers, through products and quotients of a sum
    with constants, and through a sum or mean over all elements. A node with a label is a term of
    its own. The result is empty for a loss that is no sum.
    """
    trace, root = cone.trace, cone.sweep.root
    if len(cone.sweep.seeds) != 1 or root not in cone.seeds or _size(trace, Edge(root)) != 1:
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
                size = _size(trace, edge)
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
        if _size(cone.trace, Edge(index)) != 1 or (node.label and index != cone.sweep.root):
            continue
        linear = len(cone.inputs[index]) == 1
        if node.op in ("add", "sub", "sum", "mean"):
            sums.add(index)
        elif node.op in _PASSED_THROUGH or (node.op in ("neg", "mul", "div") and linear):
            source, position = cone.inputs[index][0]
            if source in sums and not (node.op == "div" and position == 1):
                sums.add(index)
    return sums


def _size(trace: Trace, edge: Edge) -> int:
    return math.prod(trace.nodes[edge.node].metas[edge.output][0])


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
