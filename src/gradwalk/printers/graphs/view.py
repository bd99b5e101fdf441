"""GraphView: a trace, or the graph behind a Value, in the form that printers read.

A view has names, numbers and text, independent of their source. A trace is recognized by its
attributes (`nodes`, `sweeps`), because printers import graph and ops only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.graph.order import inputs_first
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import INFIX, derivative, formula
from gradwalk.printers.scalars import number, slope

# What a gate does to the gradient that reaches it.
GATES = {"add": "distributor", "mul": "swapper", "maximum": "router", "minimum": "router"}
ADDER = "adder"  # a value used more than once: its gradients add
MOST_NODES = 5_000  # a larger drawing is unreadable


@dataclass(slots=True)
class ViewEdge:
    """One operand: its source node, and the contribution that went back along it."""

    source: int
    target: int
    position: int  # among the operands of the target
    output: int = 0  # which output of the source
    slope: float | None = None  # the local derivative, of numbers
    pushed: Any = None  # the contribution from the target: a number, an array, statistics


@dataclass(slots=True)
class ViewNode:
    """One value."""

    index: int
    name: str
    op: str = ""
    function: Op | None = None
    operands: tuple[Any, ...] = ()  # ViewEdge, or a constant
    attrs: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    grad: Any = None
    shape: tuple[int, ...] = ()
    dtype: str = "float"
    constant: bool = False  # a leaf that is named by its number
    needs_grad: bool = True
    line: str = ""
    group: str = ""
    detail: str = ""  # for a closed group: what is in it
    key: int = 0  # its index in the trace

    @property
    def is_leaf(self) -> bool:
        """Whether it has no operation in the view."""
        return not self.op

    @property
    def edges(self) -> list[ViewEdge]:
        """The operands that are nodes."""
        return [o for o in self.operands if isinstance(o, ViewEdge)]

    @property
    def sign(self) -> str:
        """The op as it is drawn: +, ×, tanh, ^2."""
        if self.op == "power":
            return f"^{number(self.attrs.get('exponent', math.nan))}"
        if self.function is None or self.function.symbol is None:
            return self.op
        return self.function.symbol

    @property
    def kind(self) -> str:
        """How it is drawn: leaf, constant, group or op."""
        if self.detail:
            return "group"
        if self.constant or (self.is_leaf and not self.needs_grad):
            return "constant"
        return "leaf" if self.is_leaf else "op"

    @property
    def nameless(self) -> bool:
        """Whether its name is only its op and number: mul#12."""
        return self.name == f"{self.op or 'leaf'}#{self.key}"

    @property
    def raises(self) -> int:
        """Which way to move a leaf to lower the root: 1 up, −1 down, 0 neither."""
        if not self.is_leaf or self.constant or not _is_number(self.grad):
            return 0
        return (self.grad < 0) - (self.grad > 0)


class GraphView:
    """Nodes after their inputs, the last reached one being the root."""

    def __init__(
        self,
        nodes: list[ViewNode],
        root: int,
        *,
        scalar: bool,
        swept: bool,
        visits: list[int] | None = None,
    ) -> None:
        self.nodes = nodes
        self.root = root
        self.scalar = scalar
        if any(n.is_leaf and not n.constant for n in nodes):
            # Beside named leaves, a bare number is no parameter: 3 in 3·a.
            for n in nodes:
                n.needs_grad = n.needs_grad and not n.constant
        self.swept = swept  # whether there are gradients to show
        # The order in which backward visited the nodes that have inputs.
        self.visits = (
            [n.index for n in reversed(nodes) if not n.is_leaf] if visits is None else visits
        )

    @cached_property
    def edges(self) -> list[ViewEdge]:
        """All edges; a × a has two."""
        return [edge for node in self.nodes for edge in node.edges]

    @cached_property
    def uses(self) -> list[int]:
        """How many edges leave each node."""
        counts = [0] * len(self.nodes)
        for edge in self.edges:
            counts[edge.source] += 1
        return counts

    def badges(self, node: ViewNode) -> tuple[str, str]:
        """What the node's gate does to a gradient, and whether several gradients add in it."""
        return GATES.get(node.op, ""), ADDER if self.uses[node.index] > 1 else ""

    def value_text(self, node: ViewNode) -> str:
        """The value: a number, or the norm of an array."""
        return amount(node.value)

    def grad_text(self, node: ViewNode) -> str:
        """The gradient: a number, the norm of an array, or none."""
        return "none" if node.grad is None else amount(node.grad)

    def edge_text(self, edge: ViewEdge, with_effect: bool = False) -> str:
        """The text at an edge: its local derivative, or the norm of its contribution.

        With the operations on the edges, the operation comes first: `× w1 ∂ −3`.
        """
        if with_effect:
            effect = shortened(self.effect(edge), 16)
            if not self.scalar or edge.slope is None:
                return effect
            return f"{effect} ∂ {number(edge.slope)}"
        if self.scalar:
            return "" if edge.slope is None else f"×{number(edge.slope)}"
        return "" if edge.pushed is None else f"‖{size_of(edge.pushed)}‖"

    def folded(self) -> set[int]:
        """Constants that an edge text can include: 3·a is the edge `× 3` from a."""
        constants = {node.index for node in self.nodes if node.constant and self.uses[node.index]}
        for node in self.nodes:
            sources = {edge.source for edge in node.edges}
            if sources <= constants:  # its only inputs: keep them visible
                constants -= sources
        return constants

    def computed_as(self, node: ViewNode) -> str:
        """`x1 × w1`, `tanh(n)`; for arrays `x @ W`, `softmax(x)`."""
        if node.is_leaf:
            return "constant" if node.constant else "leaf"
        names = [self._operand_name(o) for o in node.operands]
        if node.function is None:
            return f"{node.op}({', '.join(names)})"
        if self.scalar:
            symbols: dict[Any, Symbol] = {}  # one per node: a × a is a²
            args = [
                symbols.setdefault(o.source, Symbol(name)) if isinstance(o, ViewEdge) else o
                for o, name in zip(node.operands, names)
            ]
            return formula(node.function(*args, **node.attrs))
        if node.op in INFIX and len(names) == 2:
            return f"{names[0]} {node.function.symbol or node.op} {names[1]}"
        return f"{node.op}({', '.join(names)})"

    def effect(self, edge: ViewEdge) -> str:
        """The operation on one operand with the others fixed: `× w1`, `tanh`."""
        node = self.nodes[edge.target]
        others = [self._operand_name(o) for i, o in enumerate(node.operands) if i != edge.position]
        sign = node.sign
        if not others:
            return sign
        if node.op in INFIX and len(others) == 1:
            if edge.position == 1 and node.op in ("sub", "div", "pow", "matmul"):
                return f"{others[0]} {sign}"
            return f"{sign} {others[0]}"
        return f"{sign}(…, {', '.join(others)})" if self.scalar else sign

    def rule(self, edge: ViewEdge) -> str:
        """The local derivative as a formula; empty where there is none to write."""
        node = self.nodes[edge.target]
        if node.function is None or not node.function.elementwise:
            return ""
        names = [self._operand_name(o) for o in node.operands]
        return derivative(node.function, edge.position, names, node.name, **node.attrs)

    def _operand_name(self, operand: Any) -> str:
        if not isinstance(operand, ViewEdge):
            if _is_number(operand):
                return number(float(operand))
            return "·" if operand is None else f"array{tuple(np.shape(operand))}"
        name = self.nodes[operand.source].name
        return f"{name}[{operand.output}]" if operand.output else name


def view_of(graph: Any) -> GraphView:
    """The view of a trace, or of the graph behind a Value with the gradients it has now.

    >>> from gradwalk import Value
    >>> a = Value(3.0, label="a")
    >>> view_of(a * a).uses
    [2, 0]
    """
    if isinstance(graph, GraphView):
        return graph
    if hasattr(graph, "sweeps"):
        return _of_trace(graph)
    if hasattr(graph, "_prev"):
        return _of_values(graph)
    raise TypeError(
        f"a trace or a Value can be drawn, not {type(graph).__name__}. Fix: for a Tensor use "
        "gradwalk.inspect.show(loss), which records it first"
    )


def _of_values(root: Any) -> GraphView:
    order = inputs_first([root])
    unnamed = (f"v{i}" for i in itertools.count(1))
    names = {v: v.label or (next(unnamed) if v.inputs else number(v.data)) for v in order}
    place = {v: i for i, v in enumerate(order)}
    nodes = []
    for v in order:
        known = v.op if isinstance(v.op, Op) else None
        operands = tuple(
            ViewEdge(place[i], place[v], position) for position, i in enumerate(v.inputs)
        )
        node = ViewNode(
            place[v],
            names[v],
            (known.name if known else str(v.op)) if v.inputs else "",
            known,
            operands,
            dict(v.attrs),
            v.data,
            v.grad,
            constant=not v.inputs and not v.label,
            key=place[v],
        )
        nodes.append(node)
        if known is not None:
            for edge in operands:
                edge.slope = _slope(known, edge.position, [i.data for i in v.inputs], node)
                edge.pushed = None if edge.slope is None else v.grad * edge.slope
    return GraphView(nodes, place[root], scalar=True, swept=True)


def _of_trace(trace: Any) -> GraphView:
    """The view of everything that the root was computed from."""
    sweep = trace.sweeps[-1] if trace.sweeps else None
    kept = _behind(trace, [edge.node for edge in sweep.seeds] if sweep else [trace.root])
    place = {index: i for i, index in enumerate(kept)}
    nodes = []
    for index in kept:
        made = trace.nodes[index]
        operands = tuple(
            ViewEdge(place[a.node], place[index], position, a.output) if hasattr(a, "node") else a
            for position, a in enumerate(made.args)
        )
        constant = trace.scalar and not made.op and not made.label and _is_number(made.value)
        grad = sweep.grad(index) if sweep else None
        path = trace.group_path(index)
        node = ViewNode(
            place[index],
            number(made.value) if constant else trace.name(index),
            made.op,
            TABLE.get(made.op),
            operands,
            made.attrs,
            made.value,
            grad,
            made.shape,
            made.metas[0][1],
            constant,
            made.needs_grad,
            str(made.line or ""),
            path[-1].name if path else "",
            key=index,
        )
        nodes.append(node)
        _fill_edges(trace, sweep, node)
    visits = [place[i] for i in sweep.visits if i in place] if sweep else []
    root = place[trace.root]
    return GraphView(nodes, root, scalar=trace.scalar, swept=sweep is not None, visits=visits)


def _fill_edges(trace: Any, sweep: Any, node: ViewNode) -> None:
    pushed = sweep.pushed.get(node.key, ()) if sweep else ()
    made = trace.nodes[node.key]
    operands = [trace.nodes[a.node].value if hasattr(a, "node") else a for a in made.args]
    numbers = trace.scalar and all(_is_number(o) for o in operands)
    for edge in node.edges:
        edge.pushed = pushed[edge.position] if edge.position < len(pushed) else None
        if numbers and node.function is not None:
            edge.slope = _slope(node.function, edge.position, operands, node)
        elif _is_number(edge.pushed) and _is_number(node.grad) and node.grad:
            edge.slope = edge.pushed / node.grad


def _slope(op: Op, position: int, operands: Sequence[float], node: ViewNode) -> float | None:
    try:
        return slope(op, position, operands, node.value, node.attrs)
    # a user's rule may not support plain numbers
    except (TypeError, ValueError, KeyError, ArithmeticError):
        return None


def _behind(trace: Any, roots: Iterable[int]) -> list[int]:
    """The nodes that the roots were computed from, in computed order."""
    reached = set(roots)
    for index in range(max(reached, default=-1), -1, -1):
        if index in reached:
            reached.update(trace.nodes[index].inputs)
    return sorted(reached)


def _is_number(thing: Any) -> bool:
    return isinstance(thing, (int, float, np.floating, np.integer))


def shortened(text: str, room: int) -> str:
    """Shorten a name from the left, because its end is most specific.

    >>> shortened("blocks.0.attention.query.weight", 16)
    '…on.query.weight'
    """
    return text if len(text) <= room else "…" + text[len(text) - max(room - 1, 3) :]


def amount(kept: Any) -> str:
    """A value as text: a number, the norm of an array, or ? if it was not kept.

    >>> amount(0.5), amount(np.array([3.0, 4.0])), amount(None)
    ('0.5', 'norm 5', '?')
    """
    if kept is None:
        return "?"
    if np.ndim(kept) == 0 and isinstance(kept, (int, float, np.ndarray, np.generic)):
        return number(float(kept))
    return f"norm {size_of(kept)}"


def norm_of(kept: Any) -> float:
    """The norm of an array, or of one whose statistics were kept."""
    norm = getattr(kept, "norm", None)
    if norm is None:
        with np.errstate(all="ignore"):
            norm = np.sqrt(np.square(np.asarray(kept, dtype=np.float64)).sum())
    return float(norm)


def size_of(kept: Any) -> str:
    """The norm of an array, or of one whose statistics were kept; of a number its size."""
    norm = norm_of(kept)
    broken = getattr(kept, "nans", 0) or getattr(kept, "infs", 0)
    return "nan" if broken and math.isfinite(norm) else number(float(norm))
