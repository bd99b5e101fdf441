"""nudge: the real effect of a small change beside the effect the gradient predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradwalk.engine.modes import quietly
from gradwalk.inspect.open.element import place_in
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.inspect.why.path_counts import Cone, carries, local_derivatives, tangents
from gradwalk.inspect.why.why import place_of
from gradwalk.ops.core.dtypes import is_floating


@dataclass
class Move:
    """How far one node moves: as predicted from derivatives, and in fact."""

    node: int
    output: int
    name: str
    op: str
    predicted: float | None  # a number; of a tensor the norm of its change
    real: float | None
    error: float | None  # |real − predicted|, of a tensor the norm of the difference
    shape: tuple[int, ...] = ()

    @property
    def relative_error(self) -> float:
        """The error as a fraction of the real change."""
        if self.error is None or not self.real:
            return 0.0 if not self.error else math.inf
        return self.error / abs(self.real)


@dataclass
class Nudge(Report):
    """The effect of a nudge on every node from x to the loss."""

    name: str
    node: int
    by: Any  # the change of x: a number, or the norm of an array
    gradient: float | None  # predicted change / change, for a number
    predicted: float | None  # at the loss
    real: float | None
    loss_before: float | None
    loss_after: float | None
    moves: list[Move]  # x first, the loss last
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.name} moves by {short(self.by)}"]
        if self.loss_before is not None:
            before, after = short(self.loss_before), short(self.loss_after)
            lines[0] += f"; the loss goes from {before} to {after}"
        lines.append(f"{'node':<34}{'predicted':>12}{'real':>12}{'apart':>12}")
        many = len(self.moves) > 22
        for move in [*self.moves[:10], *self.moves[-10:]] if many else self.moves:
            name = move.name if not move.shape else f"{move.name} {_size(move.shape)}"
            rounding = move.error is not None and move.relative_error < 1e-13
            numbers = (move.predicted, move.real, 0.0 if rounding else move.error)
            lines.append(f"{name:<34.34}" + "".join(f"{short(n):>12}" for n in numbers))
        if many:
            lines.insert(12, f"… {len(self.moves) - 20} more")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def nudge(
    x: Any,
    eps: Any = 1e-3,
    loss: Any = None,
    *,
    direction: Any = None,
    element: Any = None,
) -> Nudge:
    """Move x a little: predicted change (gradient × nudge) beside the real one, node by node.

    For a tensor, `eps` is an array or a number added to every element; with `direction`, a multiple
    of that array ("gradient": the unit vector along the gradient); with `element`, added to that
    element alone.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0, label="a")
    >>> print(nudge(a, 0.1, a * a))
    a moves by 0.1; the loss goes from 9 to 9.61
    node                                 predicted        real       apart
    a                                          0.1         0.1           0
    mul#1                                      0.6        0.61        0.01
    """
    if not isinstance(eps, (int, float, list, tuple)) and not hasattr(eps, "dtype"):
        eps = getattr(eps, "data", eps)  # a Value
        if not isinstance(eps, (int, float)):
            raise TypeError(f"eps says how far to move x: a number or an array, not {eps!r}")
    trace = as_trace(loss)
    start = place_of(trace, x)
    cone = Cone.of(trace, start, trace.sweep)
    if trace.scalar:
        return _nudge_number(cone, float(eps))
    return _nudge_tensor(cone, _change(cone, eps, direction, element))


def _nudge_number(cone: Cone, eps: float) -> Nudge:
    trace, start = cone.trace, cone.start.node
    slopes = local_derivatives(trace, cone.nodes, cone.sweep)
    moves = tangents(cone, slopes)
    changed: dict[int, float | None] = {start: float(trace.nodes[start].value) + eps}
    listed = [_move(trace, Edge(start), eps, eps)]  # (x + eps) − x is not quite eps
    for index in cone.nodes:
        now = changed[index] = _again(trace, trace.nodes[index], changed)
        real = None if now is None else now - float(trace.nodes[index].value)
        listed.append(_move(trace, Edge(index), moves[index] * eps, real))
    notes = []
    if None in changed.values():
        notes.append("a hand-written op cannot be recomputed: how far it moves is unknown")
    root = cone.sweep.root
    loss = float(trace.nodes[root].value)
    return _answer(cone, eps, listed, (loss, changed.get(root, loss)), notes, moves.get(root, 0.0))


def _answer(
    cone: Cone,
    by: float,
    moves: list[Move],
    losses: tuple[float | None, float | None],
    notes: list[str],
    gradient: float | None = None,
) -> Nudge:
    root = next(iter(cone.sweep.seeds))
    last = next((move for move in moves if Edge(move.node, move.output) == root), None)
    predicted, real = (0.0, 0.0) if last is None else (last.predicted, last.real)
    notes += ["the loss does not depend on it"] if last is None else []
    name, node = cone.trace.name(cone.start.node), cone.start.node
    return Nudge(name, node, by, gradient, predicted, real, *losses, moves, notes)


def _again(trace: Trace, node: TraceNode, changed: dict[int, float | None]) -> float | None:
    """The value of a node after the nudge; None if unknown."""
    op = replay.op_of(node)
    args = [
        changed.get(a.node, trace.nodes[a.node].value) if isinstance(a, Edge) else a
        for a in node.args
    ]
    if op is None or any(a is None for a in args):
        return None
    return float(op.on_numbers(args, node.attrs))


# -- tensors ---------------------------------------------------------------------------------------


def _change(cone: Cone, eps: Any, direction: Any, element: Any) -> Any:
    """The nudge as an array in the shape of x."""
    trace, start = cone.trace, cone.start
    shape = trace.shape_of(start)
    eps = np.asarray(getattr(eps, "_array", eps), np.float64)
    if element is not None:
        change = np.zeros(shape)
        change[place_in(trace, start, element)] = float(eps)
        return change
    if direction is None:
        return np.broadcast_to(eps, shape).copy()
    if isinstance(direction, str):
        gradient = cone.sweep.grad(start.node, start.output)
        if direction != "gradient" or not is_array(gradient):
            raise ValueError(
                f"direction is an array or 'gradient', not {direction!r}"
                if direction != "gradient"
                else f"the gradient of {trace.name(start.node)} was not kept. Fix: record with "
                "keep='all'"
            )
        direction = np.asarray(gradient, np.float64) / (np.linalg.norm(gradient) or 1.0)
    along = np.asarray(getattr(direction, "_array", direction), np.float64)
    return eps * np.broadcast_to(along, shape)


def _nudge_tensor(cone: Cone, change: Any) -> Nudge:
    """Nudge a tensor. All arithmetic is in float64, because the differences are small."""
    trace, start = cone.trace, cone.start
    before: dict[Edge, Any] = {start: _operand(trace, start, {})}
    after = {start: before[start] + change}
    moving: dict[Edge, Any] = {start: change}
    moves = [_move(trace, start, change, change)]
    ends = set(cone.sweep.seeds)
    nodes = _dependents(trace, start, ends)
    last_use = {edge: index for index in nodes for _, edge in trace.nodes[index].edges}
    for index in nodes:
        node = trace.nodes[index]
        if any(a is None for a in node.args):
            replay.known_operands(trace, node)  # which says what is missing
        old = [_operand(trace, a, before) for a in node.args]
        new = [after.get(a, o) if isinstance(a, Edge) else o for a, o in zip(node.args, old)]
        directions = [
            moving.get(a) if isinstance(a, Edge) and carries(trace, cone.sweep, index, i) else None
            for i, a in enumerate(node.args)
        ]
        values, changed = _computed(node, old), _computed(node, new)
        flowing = any(d is not None for d in directions)
        predicted = (
            replay.push(_doubled(node), old, directions) if flowing else [None] * len(values)
        )
        for output, (one, other) in enumerate(zip(values, changed)):
            edge = Edge(index, output)
            before[edge], after[edge] = one, other
            if is_floating(one.dtype):
                tangent = predicted[output]
                moving[edge] = np.zeros(one.shape) if tangent is None else tangent
                moves.append(_move(trace, edge, moving[edge], other - one))
        for _, edge in node.edges:  # free what nothing later needs
            if last_use[edge] == index and edge not in ends:
                for held in (before, after, moving):
                    held.pop(edge, None)
    root = next(iter(cone.sweep.seeds))
    losses: tuple[float | None, float | None] = (None, None)
    if root in after and after[root].size == 1:
        losses = float(before[root].reshape(())), float(after[root].reshape(()))
    by = float(change.reshape(())) if not change.shape else float(np.linalg.norm(change))
    return _answer(cone, by, moves, losses, [])


def _dependents(trace: Trace, start: Edge, ends: set[Edge]) -> list[int]:
    """The nodes between x and the loss, including those without a gradient (a detach, a mask)."""
    leading = leading_to(trace, {edge.node for edge in ends})
    reached = {start}
    dependents = []
    for node in trace.nodes[start.node + 1 :]:
        if node.index in leading and any(edge in reached for _, edge in node.edges):
            dependents.append(node.index)
            reached.update(Edge(node.index, output) for output in range(len(node.metas)))
    return dependents


def _operand(trace: Trace, argument: Any, known: dict[Edge, Any]) -> Any:
    value = replay.operand(trace, argument, known)
    if not isinstance(argument, Edge):
        return value
    value = np.asarray(value)
    return value.astype(np.float64, copy=False) if is_floating(value.dtype) else value


def _computed(node: TraceNode, args: list[Any]) -> list[Any]:
    op = replay.op_of(node)
    if node.op == "detach":
        return [np.asarray(args[0])]
    if op is None:
        raise replay.NotReplayable(
            f"the op table has no '{node.op}', so it cannot be computed again"
        )
    return replay.outputs_of(op, quietly(op.forward, *args, **_doubled(node).attrs))


def _doubled(node: TraceNode) -> TraceNode:
    """Skip casts between floats: everything is float64 here."""
    if node.op != "cast" or not is_floating(np.dtype(node.attrs["dtype"])):
        return node
    return replace(node, attrs={"dtype": np.dtype(np.float64)})


def _move(trace: Trace, edge: Edge, predicted: Any, real: Any) -> Move:
    node = trace.nodes[edge.node]
    name = trace.name(edge.node) + (f".{edge.output}" if edge.output else "")
    shape = tuple(np.shape(predicted))

    def size(change: Any) -> float | None:
        if change is None:
            return None
        one = math.prod(shape) == 1
        return float(np.reshape(change, ()) if one else np.linalg.norm(change))

    apart = None if real is None else abs(real - predicted)
    return Move(*edge, name, node.op, size(predicted), size(real), size(apart), shape)
