"""One step of a walk: a node computes its value, or pushes its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Kept, Shape, TraceNode
from gradwalk.inspect.walk import wording
from gradwalk.inspect.walk.wording import digits, kept_text
from gradwalk.ops.core.dtypes import is_floating

if TYPE_CHECKING:
    from gradwalk.inspect.walk.walk import Walk

SHOWN = 5  # incomplete nodes that are printed
LARGEST = 16  # rows and columns up to which a Jacobian is written out


@dataclass
class Push(Report):
    """What a node pushed along one edge."""

    DATA = ("edge", "to", "to_name", "amount", "rule", "formula", "slope", "shapes", "jacobian")
    node: int
    argument: int
    to: int  # the input that receives it
    to_name: str
    amount: Kept
    _walk: Walk = field(repr=False)

    @property
    def edge(self) -> str:
        """The edge as node:argument; a × a has two."""
        return f"{self.node}:{self.argument}"

    @property
    def _node(self) -> TraceNode:
        return self._walk.trace.nodes[self.node]

    @property
    def rule(self) -> str:
        """How the push follows from g, the gradient of the node; empty if unknown."""
        return wording.rule_text(self._walk.trace, self._node, self.argument)

    @property
    def formula(self) -> str:
        """The local derivative as text; empty for tensors or if unknown."""
        if not self._walk.trace.scalar:
            return ""
        return wording.local_formula(self._walk.trace, self._node, self.argument)

    @property
    def slope(self) -> float | None:
        """The local derivative as a number; None for tensors or if unknown."""
        if not self._walk.trace.scalar:
            return None
        try:
            slope = replay.pull(self._walk.trace, self._node, 1.0)[self.argument]
        except replay.NotReplayable:
            return None
        return None if slope is None else float(slope)

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """The shapes of the node's gradient and of the push."""
        operand = self._node.args[self.argument]
        return self._node.shape, self._walk.trace.shape_of(operand)

    @property
    def jacobian(self) -> np.ndarray[Any, Any] | None:
        """d output / d operand, both flattened; None if larger than 16×16, or values are missing.

        Each column is the rule applied to a gradient with a single 1. Backward itself never needs
        it.
        """
        rows, columns = (math.prod(shape) for shape in self.shapes)
        if max(rows, columns) > LARGEST:
            return None
        trace, node = self._walk.trace, self._node
        if trace.scalar:
            return None if self.slope is None else np.array([[self.slope]])
        try:
            pulled = [
                replay.pull(trace, node, replay.one_hot(node, 0, place))[self.argument]
                for place in range(rows)
            ]
        except replay.NotReplayable:
            return None
        return np.array(pulled).reshape(rows, columns)

    def __str__(self) -> str:
        rule = self.rule or "g × local derivative"
        numbers = ""
        if self.slope is not None and rule != "g":
            numbers = f" = {digits(self._walk.received(self.node))} × {digits(self.slope)}"
        return f"to {self.to_name}: {rule}{numbers} = {kept_text(self.amount)}"


@dataclass
class Complete(Report):
    """A node whose gradient is complete now."""

    node: int
    name: str
    gradient: Kept
    arrived: int  # how many contributions were added
    leaf: bool
    way: str  # of a leaf: which way to move it to lower the loss

    def __str__(self) -> str:
        added = f" (adder of {self.arrived})" if self.arrived > 1 else ""
        way = f"; {self.way}" if self.way else ""
        return f"{self.name} = {kept_text(self.gradient)}{added}{way}"


@dataclass
class Incomplete(Report):
    """A node whose gradient is incomplete."""

    node: int
    name: str
    so_far: Kept
    arrived: int
    missing: int
    waits_for: list[str]  # the consumers that have not been visited

    def __str__(self) -> str:
        more = f"{self.missing} more to come, from {', '.join(self.waits_for[:3])}"
        more += ", ..." if len(self.waits_for) > 3 else ""
        return f"{self.name} has {kept_text(self.so_far)}; {more}"


@dataclass
class WalkStep(Report):
    """What happens in one step."""

    DATA = (
        "number", "phase", "index", "name", "op", "line", "shape", "value", "received", "pushes",
        "completed", "gates", "expression", "incomplete",
    )  # fmt: skip
    number: int  # from 1
    phase: str  # "forward" or "backward"
    index: int  # of the node visited
    name: str
    op: str
    line: SourceLine | None
    shape: Shape
    value: Kept
    received: Kept = None  # backward: the gradient of the node, complete
    pushes: list[Push] = field(default_factory=list)
    completed: list[Complete] = field(default_factory=list)
    _walk: Walk = field(kw_only=True, repr=False)

    @property
    def gates(self) -> list[str]:
        """Distributor, swapper, router; adder if its value is used several times."""
        return wording.gates_of(self._walk.trace, self.index)

    @property
    def expression(self) -> str:
        """How the node was computed; "leaf" if it was not."""
        node = self._walk.trace.nodes[self.index]
        return wording.expression(self._walk.trace, node) if node.op else "leaf"

    @property
    def incomplete(self) -> list[Incomplete]:
        """The nodes whose gradients are incomplete now."""
        return self._walk.incomplete(self.number)

    def __str__(self) -> str:
        begin = f"step {self.number} of {len(self._walk)}, {self.phase}"
        if self.phase == "forward":
            lines = [f"{begin}: {self.name} = {self._forward_text()}"]
            if self.line is not None and self.op:
                lines.append(f"  {self.line}")
            return wording.wrapped(lines)
        gates = [gate for gate in self.gates if gate != "adder"]
        gate = f", a {gates[0]}," if gates else ""
        received = kept_text(self.received)
        lines = [f"{begin}: {self.name} = {self.expression}{gate} received {received}"]
        lines += [f"  {push}" for push in self.pushes]
        lines += [f"  complete: {done}" for done in self.completed]
        waiting = self.incomplete
        lines += [f"  incomplete: {node}" for node in waiting[:SHOWN]]
        if len(waiting) > SHOWN:
            lines.append(f"  incomplete: {len(waiting) - SHOWN} more nodes")
        return wording.wrapped(lines)

    def _forward_text(self) -> str:
        trace = self._walk.trace
        node = trace.nodes[self.index]
        value = kept_text(node.values if len(node.values) > 1 else self.value)
        if not node.op:
            return f"{value} (leaf)"
        if trace.scalar and replay.op_of(node) is not None:
            numbers = wording.expression(trace, node, numbers=True)
            return f"{self.expression} = {numbers} = {value}"
        return f"{self.expression} = {value}"


@dataclass
class Breakpoint(Report):
    """Stop at the first step where any of these conditions holds."""

    grad_above: float | None = None  # an element of a gradient is larger than this, either sign
    nan: bool = False  # a value, a gradient or something pushed is NaN
    inf: bool = False  # or infinite
    shape: tuple[int | None, ...] | None = None  # of the value; None for any size
    predicate: Callable[[WalkStep], Any] | None = None  # takes the step

    def __post_init__(self) -> None:
        if isinstance(self.shape, int):
            self.shape = (self.shape,)
        if self.grad_above is not None and not isinstance(self.grad_above, (int, float)):
            raise TypeError(f"grad_above is a number, not {self.grad_above!r}")
        if self.predicate is not None and not callable(self.predicate):
            raise TypeError(
                f"the predicate takes a step and says whether to stop, not {self.predicate!r}. "
                "Fix: run_to(...) goes to a node or a line."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of a predicate its name."""
        name = None if self.predicate is None else getattr(self.predicate, "__name__", "predicate")
        return {**super().to_dict(), "predicate": name}

    def __str__(self) -> str:
        """When it stops."""
        conditions = [
            "" if self.grad_above is None else f"a gradient is above {digits(self.grad_above)}",
            "NaN" if self.nan else "",
            "an infinite number" if self.inf else "",
            "" if self.shape is None else f"shape {tuple(self.shape)}",
            "" if self.predicate is None else f"{self.to_dict()['predicate']}(step)",
        ]
        return f"stop at: {' or '.join(filter(None, conditions)) or 'nothing'}"

    def hit(self, step: WalkStep) -> str:
        """Why to stop at this step; empty to go on."""
        gradients = [step.received, *(done.gradient for done in step.completed if done.leaf)]
        numbers = [step.value] if step.phase == "forward" else list(gradients)
        numbers += [push.amount for push in step.pushes]
        if self.grad_above is not None and step.phase == "backward":
            largest = max((_largest(g) for g in _flat(gradients)), default=0.0)
            if largest > self.grad_above:
                return f"a gradient of {digits(largest)} is above {digits(self.grad_above)}"
        if self.nan and any(_has(kept, "nans") for kept in _flat(numbers)):
            return "NaN"
        if self.inf and any(_has(kept, "infs") for kept in _flat(numbers)):
            return "an infinite number"
        if self.shape is not None and len(self.shape) == len(step.shape):
            pairs = zip(self.shape, step.shape)
            if all(wanted in (None, size) for wanted, size in pairs):
                return f"shape {step.shape}"
        if self.predicate is not None and self.predicate(step):
            return "the predicate holds"
        return ""


def _flat(kept: list[Kept]) -> list[Kept]:
    """Flatten the outputs of nodes and drop None."""
    parts = [p for k in kept for p in (k if isinstance(k, list) else [k])]
    return [part for part in parts if part is not None]


def _largest(kept: Kept) -> float:
    if isinstance(kept, Statistics):
        return math.inf if kept.infs else max(abs(kept.low), abs(kept.high))
    if isinstance(kept, float):
        return abs(kept)
    return float(np.max(np.abs(kept), initial=0.0))


def _has(kept: Kept, what: str) -> bool:
    if isinstance(kept, Statistics):
        return bool(getattr(kept, what))
    if isinstance(kept, float):
        return math.isnan(kept) if what == "nans" else math.isinf(kept)
    array = np.asarray(kept)
    test = np.isnan if what == "nans" else np.isinf
    return is_floating(array.dtype) and bool(test(array).any())
