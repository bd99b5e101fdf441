"""One element of a tensor as a graph of numbers, with the gradients the tensors have.

`element` opens one level: an element of a matrix product becomes a dot product of elements of the
two matrices. `ElementGraph` goes on until it meets what it was told to stop at, so that a small
network becomes the scalar graph a textbook would draw.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradwalk.inspect.open.expansions import OF_ELEMENTS, expansions_of
from gradwalk.inspect.open.open_op import (
    Opened,
    backward_in_numbers,
    largest,
    opened_by,
    trace_and_node,
)
from gradwalk.inspect.open.scalar_forms import Form, Maker, Operation, TooLarge, form_of, linearised
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.ops.core.dtypes import dtype_named

MOST_NODES = 200_000  # of a scalar subgraph


@dataclass
class ElementInput:
    """An element of an operand, and what it receives from the opened element."""

    name: str
    node: int  # the operand's, in the trace of tensors
    output: int
    index: tuple[int, ...]
    value: float
    contribution: float | None  # None without a backward pass
    leaf: int  # its node in the trace of numbers


@dataclass
class Element(Report):
    """One element of a tensor node as a scalar graph."""

    name: str
    node: int
    output: int
    index: tuple[int, ...]
    op: str
    value: float  # in the tensor
    gradient: float | None  # what the element received
    inputs: list[ElementInput]
    largest_difference: float  # of contributions from the tensor's own, relative to the largest
    notes: list[str]
    trace: Trace = field(repr=False)  # of numbers; its leaves are elements of the operands

    def __str__(self) -> str:
        count = sum(1 for n in self.trace if n.op)
        lines = [f"{self.name} = {short(self.value)}, an element of {self.op}"]
        lines.append(f"  made of {len(self.inputs)} element(s) by {count} operation(s) on numbers")
        if self.gradient is not None:
            lines.append(f"  gradient {short(self.gradient)}; what its inputs receive from it:")
        for one in self.inputs[:12]:
            given = "" if one.contribution is None else f"  {short(one.contribution):>10}"
            lines.append(f"  {one.name:<32} {short(one.value):>10}{given}"[:80])
        if len(self.inputs) > 12:
            lines.append(f"  … and {len(self.inputs) - 12} more")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def element(trace: Any, node: Any = None, index: Any = (), *, output: int | None = None) -> Element:
    """One element of a tensor node, opened into operations on numbers.

    >>> import gradwalk as gw
    >>> x = gw.tensor([[1.0, 2.0]], requires_grad=True)
    >>> w = gw.tensor([[3.0], [4.0]], requires_grad=True)
    >>> x.label, w.label = "x", "w"
    >>> with gw.record() as trace:
    ...     y = x @ w
    ...     y.sum().backward()
    >>> opened = gw.element(trace, y, (0, 0))
    >>> [n.op for n in opened.trace if n.op], opened.value
    (['mul', 'mul', 'add'], 11.0)
    >>> [(i.name, i.contribution) for i in opened.inputs]
    [('x[0, 0]', 3.0), ('w[0, 0]', 1.0), ('x[0, 1]', 4.0), ('w[1, 0]', 2.0)]
    """
    what = node if isinstance(trace, Trace) else trace
    trace, number = trace_and_node(trace, node)
    made = trace.nodes[number]
    if trace.scalar:
        raise ValueError("this trace is of Values, whose nodes are single numbers already")
    if output is None:
        output = 0 if made.is_leaf else trace.output(what)
    edge = Edge(number, output)
    place = place_in(trace, edge, index)
    flat = flat_of(trace, edge, place)
    if made.is_leaf:
        raise ValueError(f"{trace.name(number)} is a leaf: nothing recorded made it")
    operand_edges = {argument for _, argument in made.edges}
    gradient = _gradient_at(trace, edge, flat)
    with np.errstate(all="ignore"):
        graph = ElementGraph(trace, edge, flat, lambda e: e in operand_edges)
        if gradient is not None:
            backward_in_numbers(graph.trace, gradient, graph.root)
        inputs = [
            ElementInput(
                graph.trace.nodes[leaf].label,
                *source,
                index_of(trace, source, at),
                graph.trace.nodes[leaf].values[0],
                None if gradient is None else graph.trace.sweep.grad(leaf),
                leaf,
            )
            for (source, at), leaf in graph.leaves.items()
        ]
        difference = _compared(trace, edge, flat, gradient, inputs)
    name = element_name(trace, edge, flat)
    if not graph.trace.nodes[graph.root].is_leaf:
        graph.trace.nodes[graph.root].label = name
    return Element(
        name=name,
        node=number,
        output=output,
        index=place,
        op=made.op,
        value=_value_at(trace, edge, flat),
        gradient=gradient,
        inputs=inputs,
        largest_difference=difference,
        notes=graph.notes,
        trace=graph.trace,
    )


# -- places ----------------------------------------------------------------------------------------


def place_in(trace: Trace, edge: Edge, index: Any) -> tuple[int, ...]:
    """An index as a tuple of non-negative numbers, checked against the tensor's shape."""
    shape = trace.shape_of(edge)
    try:
        given = tuple(map(operator.index, index if isinstance(index, (tuple, list)) else (index,)))
    except TypeError:
        raise IndexError(f"an element is named by whole numbers, not by {index!r}") from None
    if len(given) != len(shape) or any(not -n <= i < n for i, n in zip(given, shape)):
        raise IndexError(
            f"{trace.name(edge.node)} has shape {shape}: {given} is not one of its elements"
        )
    return tuple(i % n for i, n in zip(given, shape))


def flat_of(trace: Trace, edge: Edge, place: tuple[int, ...]) -> int:
    """The flat index of a place."""
    shape = trace.shape_of(edge)
    return int(np.ravel_multi_index(place, shape)) if shape else 0


def index_of(trace: Trace, edge: Edge, flat: int) -> tuple[int, ...]:
    """The inverse of `flat_of`."""
    shape = trace.shape_of(edge)
    return tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()


def element_name(trace: Trace, edge: Edge, flat: int) -> str:
    """`W1[0, 3]`; of a tensor with one number its name."""
    place = index_of(trace, edge, flat)
    name = trace.name(edge.node) + (f".{edge.output}" if edge.output else "")
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def _value_at(trace: Trace, edge: Edge, flat: int) -> Any:
    kept = np.asarray(replay.operand(trace, edge))
    value = kept.reshape(-1)[flat]
    return bool(value) if kept.dtype == bool else float(value)


def _gradient_at(trace: Trace, edge: Edge, flat: int) -> float | None:
    g = trace.sweeps[-1].grad(edge.node, edge.output) if trace.sweeps else None
    return float(np.asarray(g).reshape(-1)[flat]) if replay.is_array(g) else None


def _compared(
    trace: Trace, edge: Edge, flat: int, gradient: float | None, inputs: list[ElementInput]
) -> float:
    """The deviation of the opened element's contributions from the op's own rule."""
    if not gradient or not math.isfinite(gradient):
        return 0.0
    node = trace.nodes[edge.node]
    pulled = replay.pull(trace, node, replay.one_hot(node, edge.output, flat, gradient))
    expected: dict[Edge, Any] = {}
    for argument, given in zip(node.args, pulled):
        if given is not None:
            expected[argument] = expected.get(argument, 0) + np.asarray(given, np.float64)
    size = max([abs(gradient), *(largest(e) for e in expected.values())])
    for one in inputs:
        source = Edge(one.node, one.output)
        if source in expected:
            expected[source] = np.array(expected[source])
            # In the operand's dtype: float32 cannot receive anything finer.
            dtype = dtype_named(trace.nodes[one.node].metas[one.output][1])
            expected[source][one.index] -= np.asarray(one.contribution, dtype)
    return max((largest(e) for e in expected.values()), default=0.0) / size


# -- opening on demand -----------------------------------------------------------------------------


class _Spot(NamedTuple):
    """An element of an output of a node of a space (0 is the trace, others the insides of ops)."""

    space: int
    edge: Edge
    flat: int


@dataclass
class _Space:
    trace: Trace
    outside: dict[int, tuple[int, Edge]]  # leaf here -> the operand it stands for, where


class ElementGraph:
    """The graph of numbers behind one element, down to elements of the tensors at which to `stop`.

    `leaves` says which leaf of `trace` is which element.
    """

    def __init__(
        self,
        trace: Trace,
        edge: Edge,
        flat: int,
        stop: Callable[[Edge], bool],
        limit: int = MOST_NODES,
    ) -> None:
        self.leaves: dict[tuple[Edge, int], int] = {}
        self.notes: list[str] = []
        self.stop = stop
        self._target = _Spot(0, edge, flat)
        self._spaces = [_Space(trace, {})]
        self._maker = Maker()
        self._made: dict[_Spot, int] = {}
        self._operations: dict[tuple[int, int], Operation] = {}
        self._insides: dict[tuple[int, int], tuple[int, Opened] | None] = {}
        self.trace = self._maker.trace
        self._open_all(limit)
        self.root = self._made[self._target]

    def _open_all(self, limit: int) -> None:
        stack: list[tuple[_Spot, Form | None]] = [(self._target, None)]
        while stack:
            spot, recipe = stack.pop()
            if spot in self._made:
                continue
            if recipe is not None:  # its parts are there by now
                nodes = [
                    self._made[part] if isinstance(part, _Spot) else self._maker.number(part)
                    for part in recipe.parts
                ]
                self._made[spot] = recipe.build(self._maker, nodes)
                continue
            recipe = self._recipe(spot)
            stack.append((spot, recipe))
            inner = [part for part in recipe.parts if isinstance(part, _Spot)]
            stack += [(part, None) for part in reversed(inner) if part not in self._made]
            if len(self.trace) + len(stack) > limit:
                raise TooLarge(
                    f"the scalar graph has more than {limit:,} operations, too many to open"
                )

    def _recipe(self, spot: _Spot) -> Form:
        """The form of the number at a spot, with spots as parts."""
        space = self._spaces[spot.space]
        node = space.trace.nodes[spot.edge.node]
        outside = space.outside.get(node.index)
        if outside is not None:  # a leaf of an inside is an operand outside
            return Form([_Spot(*outside, spot.flat)])
        stops = spot.space == 0 and spot != self._target and self.stop(spot.edge)
        if stops or node.is_leaf or not node.needs_grad:
            return Form([], lambda maker, nodes: self._leaf(spot))
        operation, place = self._operation(spot), (spot.edge.output, spot.flat)
        form = form_of(operation, *place)
        if form is None:
            inside = self._inside(spot)
            if inside is not None:
                number, opened = inside
                return Form([_Spot(number, opened.outputs[spot.edge.output], spot.flat)])
            form = linearised(operation, *place)
        if form.note and form.note not in self.notes:
            self.notes.append(form.note)
        parts = [_Spot(spot.space, *p) if isinstance(p, tuple) else p for p in form.parts]
        return Form(parts, form.build)

    def _inside(self, spot: _Spot) -> tuple[int, Opened] | None:
        """A composite, opened as a space of its own; None if that is not possible."""
        key = spot.space, spot.edge.node
        if key not in self._insides:
            self._insides[key] = self._open(spot)
        return self._insides[key]

    def _open(self, spot: _Spot) -> tuple[int, Opened] | None:
        space = self._spaces[spot.space]
        try:
            op = self._operation(spot).op
            forms = expansions_of(op)
            if op.name in OF_ELEMENTS:
                forms = [OF_ELEMENTS[op.name], *forms]
            opened = opened_by(space.trace, spot.edge.node, forms)
        except ValueError:
            return None
        if not opened.equal:
            return None  # a linearisation beats wrong gradients
        outside = {
            leaf: (spot.space, argument)
            for leaf, argument in zip(opened.inputs, space.trace.nodes[spot.edge.node].args)
            if leaf is not None and isinstance(argument, Edge)
        }
        self._spaces.append(_Space(opened.trace, outside))
        return len(self._spaces) - 1, opened

    def _operation(self, spot: _Spot) -> Operation:
        key = spot.space, spot.edge.node
        if key not in self._operations:
            space = self._spaces[spot.space]
            node = space.trace.nodes[spot.edge.node]
            op = replay.op_of(node)
            if op is None:
                raise replay.NotReplayable(
                    f"the op table has no '{node.op}', so its elements cannot be opened"
                )
            if any(a is None for a in node.args):
                replay.known_operands(space.trace, node)  # which says what is missing
            self._operations[key] = Operation(space.trace, node, op)
        return self._operations[key]

    def _leaf(self, spot: _Spot) -> int:
        """A leaf of the scalar graph; outside of composites it has the element's name."""
        trace, named = self._spaces[spot.space].trace, spot.space == 0
        value = _value_at(trace, spot.edge, spot.flat)
        if not named and not isinstance(value, bool):
            return self._maker.number(value)
        needs = trace.nodes[spot.edge.node].needs_grad
        made = self._maker.leaf(value, element_name(trace, spot.edge, spot.flat), needs)
        if named:
            self.leaves[spot.edge, spot.flat] = made
        return made
