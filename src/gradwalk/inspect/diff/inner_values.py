"""The results inside A's operations where it differs from B: composites opened, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment, Pair
from gradwalk.inspect.diff.numbers import doubles
from gradwalk.inspect.open.expansions import expansions_of
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.replay import computing, leaf_tensor, op_of
from gradwalk.inspect.trace.trace import Edge, TraceNode

DEEPEST = 3  # composites inside composites


@dataclass(frozen=True, slots=True)
class InnerValue:
    """A result of A, or of an operation inside one of A's."""

    op: str
    value: Any
    numbers: tuple[float, ...]  # constants among the operands
    operands: tuple[Any, ...]  # the others
    inside: bool


def inner_values(alignment: Alignment, pair: Pair) -> list[InnerValue]:
    """The results of A's region, and those inside its composites, in order."""
    found: list[InnerValue] = []
    for index in pair.region_a:
        node = alignment.a.trace.nodes[index]
        args = [alignment.a.value(x) if isinstance(x, Edge) else x for x in node.args]
        if all(x is not None for x in args):
            _opened(node, args, found, 0)
        value = alignment.a.value(Edge(index))
        if value is not None:
            _add(found, node, args, value, inside=False)
    return found


def _opened(node: TraceNode, args: list[Any], found: list[InnerValue], depth: int) -> None:
    """Add the results inside a composite."""
    op = op_of(node)
    forms = [] if op is None or depth >= DEEPEST else expansions_of(op)
    if not forms:
        return
    recorder = Recorder(keep="values")
    try:
        with computing(recorder), np.errstate(all="ignore"):
            tensors = [leaf_tensor(doubles(x)) if isinstance(x, np.ndarray) else x for x in args]
            forms[0](*tensors, **node.attrs)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return  # a file may have attributes that do not fit
    inner = recorder.trace
    for inside in inner:
        if not inside.op:
            continue
        operands = [
            inner.nodes[x.node].values[x.output] if isinstance(x, Edge) else x for x in inside.args
        ]
        _opened(inside, operands, found, depth + 1)
        value = doubles(inside.value)
        if value is not None:
            _add(found, inside, operands, value, inside=True)


def _add(
    found: list[InnerValue], node: TraceNode, args: list[Any], value: Any, inside: bool
) -> None:
    numbers = tuple(float(x) for x in args if isinstance(x, int | float))
    arrays = tuple(doubles(x) for x in args if isinstance(x, np.ndarray))
    found.append(InnerValue(node.op, value, numbers, arrays, inside))
