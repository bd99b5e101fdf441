"""audit: is a recorded backward pass right? Every push against central differences, every sum.

It trusts no rule: what a node pushed is compared with what happens to its output if its operands
are nudged. So it names a wrong rule whoever wrote it, injected by `bugs` or not, and says what is
wrong around the rules: a contribution overwritten, a node visited too early.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.engine.blame import lost_on_arrival
from gradwalk.engine.diagnosis import diagnose, differs
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.recorder import as_trace
from gradwalk.inspect.replay import NotReplayable, forward, is_array, op_of, pull
from gradwalk.inspect.report import Report
from gradwalk.inspect.steps import wrapped
from gradwalk.inspect.trace import Edge, Trace, TraceNode

__all__ = ["Audit", "Fault", "audit"]

EPS = 1e-6
ATOL, RTOL = 1e-4, 2e-3  # values are often float32
MANY = 500  # nodes: more are not audited in passing,
BIG = 100_000  # nor those that have more elements
LARGEST = 400  # elements: of larger operands a random direction is tried, and not each element


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong step of a backward pass."""

    node: int
    name: str
    op: str
    argument: int | None  # the input whose gradient is wrong; None if it is about the node's own
    text: str
    line: SourceLine | None

    def __str__(self) -> str:
        where = "" if self.argument is None else f", input {self.argument}"
        return f"{self.name}{where}: {self.text}"


@dataclass
class Audit(Report):
    """What `audit` found: nothing, if the backward pass is right."""

    faults: list[Fault]
    checked: int  # nodes
    skipped: list[str] = field(default_factory=list)  # nodes that could not be computed again

    def __bool__(self) -> bool:
        """Whether something is wrong."""
        return bool(self.faults)

    def __str__(self) -> str:
        head = f"{self.checked} operations checked, {len(self.faults)} wrong."
        lines = [head]
        for fault in self.faults:
            lines += wrapped(str(fault), "  ", "    ")
            if fault.line is not None:
                lines += wrapped(f"at {fault.line}", "    ", "    ")
        return "\n".join(lines)


def audit(target: Any = None) -> Audit:
    """Check every step of a recorded backward pass; `target` is a loss or a trace.

    >>> import gradwalk as gw
    >>> from gradwalk.inspect import bugs, record
    >>> from gradwalk.inspect.audit import audit
    >>> x = gw.tensor([0.5, -1.0], requires_grad=True)
    >>> with bugs.inject("sign", op="tanh"), record() as trace:
    ...     (x * 2).tanh().sum().backward()
    >>> print(audit(trace).faults[0])
    tanh#2, input 0: wrong sign: backward gives the negative of the derivative.
    """
    trace = as_trace(target)
    return faults_in(trace, trace.sweep.visits)


def faults_in(trace: Trace, nodes: Iterable[int]) -> Audit:
    """The same for some nodes of the last backward pass."""
    found = Audit([], 0)
    listed = list(dict.fromkeys(nodes))
    for index in listed:
        node = trace.nodes[index]
        if index not in trace.sweep.pushed:
            continue
        try:
            found.faults += _wrong_pushes(trace, node)
            found.checked += 1
        except (NotReplayable, ValueError, TypeError, IndexError):
            found.skipped.append(trace.name(index))
    sources = {edge.node for i in listed for _, edge in trace.nodes[i].edges}
    for index in sorted(sources | set(listed)):
        fault = _lost(trace, index)
        if fault is not None:
            found.faults.append(fault)
    return found


def wrong_steps(trace: Trace, nodes: Sequence[int], x: Any = None) -> list[str]:
    """Notes for a report about the gradient of x: what is wrong on the way, if that is soon told.

    Of Values, whose trace is a walk of our own, also whether `x.grad` is another number.
    """
    found = []
    small = [i for i in nodes if _size(trace, i) <= BIG]
    if len(nodes) <= MANY:
        found = [str(fault) for fault in faults_in(trace, small).faults]
    held = getattr(x, "_grad", None)
    index = trace.lookup(x) if trace.scalar and isinstance(held, (int, float)) else None
    if index is None or not held:
        return found
    right = float(trace.sweep.grad(index) or 0.0)
    if not np.isclose(held, right, 1e-6, 1e-9) and np.isfinite(right):
        lost = lost_on_arrival(trace._alive[0], x, right)
        times = round(held / right) if right else 0
        if times > 1 and np.isclose(held, times * right):
            lost = f"backward() has run {times} times without zero_grad()."
        lost = lost or "something was left in it, overwritten, or visited in a wrong order."
        found.append(f"its .grad is {held:.6g} where the chain rule gives {right:.6g}: {lost}")
    return found


def _size(trace: Trace, index: int) -> int:
    """The elements of a node and its operands."""
    nodes = [trace.nodes[i] for i in (index, *trace.nodes[index].inputs)]
    return sum(math.prod(shape) for node in nodes for shape, _ in node.metas)


# -- what a node pushed ----------------------------------------------------------------------------


def _wrong_pushes(trace: Trace, node: TraceNode) -> list[Fault]:
    sweep = trace.sweep
    pushed = sweep.pushed[node.index]
    grads = list(sweep.grads.get(node.index, []))
    if any(g is not None and not is_array(g) for g in grads):
        raise NotReplayable("only statistics were kept")
    wrong: dict[int, Any] = {}
    numeric: dict[int, Any] = {}
    for position, contribution in enumerate(pushed):
        if contribution is None or not is_array(contribution):
            continue
        if _direction_agrees(trace, node, position, contribution, grads):
            continue
        if np.size(contribution) > LARGEST:
            wrong[position], numeric[position] = contribution, None
            continue
        right, kinked = _nudged(trace, node, position, grads)
        given = np.where(kinked, right, np.asarray(contribution, np.float64))
        if differs(given, right, ATOL, RTOL).any():
            wrong[position], numeric[position] = given, right
    return [
        Fault(
            node.index,
            trace.name(node.index),
            node.op,
            position,
            _named(trace, node, position, wrong, numeric, grads),
            node.line,
        )
        for position in wrong
    ]


def _operand(trace: Trace, node: TraceNode, position: int) -> Any:
    value = node.args[position]
    value = trace.nodes[value.node].values[value.output] if isinstance(value, Edge) else value
    if not is_array(value):
        raise NotReplayable("an operand was not kept")
    return np.array(value, np.float64)


def _outputs(trace: Trace, node: TraceNode, position: int, operand: Any) -> list[Any]:
    """The node computed again in float64, with one of its operands replaced."""
    args = []
    for i, argument in enumerate(node.args):
        value = operand if i == position else argument
        if isinstance(value, Edge):
            value = trace.nodes[value.node].values[value.output]
            if not is_array(value):
                raise NotReplayable("an operand was not kept")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value = value.astype(np.float64)
        args.append(float(value) if trace.scalar else value)
    op = op_of(node)
    if op is None:
        raise NotReplayable(f"the op table has no '{node.op}'")
    alone = TraceNode(0, node.op, tuple(args), node.attrs, metas=_wide(node))
    return [np.asarray(out, np.float64) for out in forward(trace, alone)]


def _wide(node: TraceNode) -> tuple[Any, ...]:
    return tuple((shape, dtype.replace("float32", "float64")) for shape, dtype in node.metas)


def _moved(trace: Trace, node: TraceNode, position: int, x: Any, by: Any, grads: list[Any]) -> Any:
    """Slopes of g · output along a direction: ahead and behind of where the operand is."""
    here, after, before = (
        _outputs(trace, node, position, x + shift) for shift in (0.0, EPS * by, -EPS * by)
    )
    ahead = behind = 0.0
    for g, now, up, down in zip(grads, here, after, before):
        if g is not None:
            weight = np.asarray(g, np.float64)
            ahead += float(np.sum(weight * (up - now))) / EPS
            behind += float(np.sum(weight * (now - down))) / EPS
    return ahead, behind


def _direction_agrees(
    trace: Trace, node: TraceNode, position: int, contribution: Any, grads: list[Any]
) -> bool:
    """A quick look at all elements at once: along a random direction the slopes must agree."""
    x = _operand(trace, node, position)
    given = np.asarray(contribution, np.float64)
    if given.shape != x.shape or not np.isfinite(given).all():
        return not np.isfinite(given).all()  # find_nan is about those
    by = np.random.default_rng(node.index).uniform(0.5, 1.5, x.shape)
    by *= np.where(np.random.default_rng(position).random(x.shape) < 0.5, -1, 1)
    with np.errstate(all="ignore"):
        ahead, behind = _moved(trace, node, position, x, by, grads)
    scale = float(np.sum(np.abs(given * by)))
    slack = ATOL + RTOL * max(scale, abs(ahead), abs(behind))
    low, high = min(ahead, behind) - slack, max(ahead, behind) + slack  # they differ at a kink
    return bool(low <= float(np.sum(given * by)) <= high)


def _nudged(trace: Trace, node: TraceNode, position: int, grads: list[Any]) -> tuple[Any, Any]:
    """The right contribution, element by element, and where the slopes on both sides differ."""
    x = _operand(trace, node, position)
    right, kinked = np.zeros(x.shape), np.zeros(x.shape, bool)
    with np.errstate(all="ignore"):
        for place in np.ndindex(x.shape):
            by = np.zeros(x.shape)
            by[place] = 1.0
            ahead, behind = _moved(trace, node, position, x, by, grads)
            right[place] = (ahead + behind) / 2
            kinked[place] = abs(ahead - behind) > ATOL + RTOL * max(abs(ahead), abs(behind))
    return right, kinked


def _named(
    trace: Trace, node: TraceNode, position: int, wrong: dict[int, Any], numeric: Any, grads: Any
) -> str:
    right = numeric[position]
    if right is None:
        return "what it pushes does not agree with differences along a random direction."
    given = wrong[position]
    return (
        _swapped(trace, node, position, given, grads)
        or _stale(trace, node, position, given)
        or _unsummed(trace, node, position, given, grads)
        or diagnose(given, right, atol=ATOL, rtol=RTOL)
        or f"backward gives {_few(given)}, differences give {_few(right)}."
    )


def _swapped(
    trace: Trace, node: TraceNode, position: int, given: Any, grads: list[Any]
) -> str | None:
    """Whether it is what the other of two operands should have received."""
    if len(node.args) != 2 or not isinstance(node.args[1 - position], Edge):
        return None
    its, _ = _nudged(trace, node, 1 - position, grads)
    if its.shape != np.shape(given) or differs(given, its, ATOL, RTOL).any():
        return None
    return f"swapped: it receives the gradient of input {1 - position}."


def _few(array: Any) -> str:
    shown = ", ".join(f"{x:.4g}" for x in np.ravel(array)[:3])
    return f"[{shown}, ...]" if np.size(array) > 3 else f"[{shown}]" if np.ndim(array) else shown


def _stale(trace: Trace, node: TraceNode, position: int, given: Any) -> str | None:
    """Whether it is what the rule gives for the operands of another call of the op."""
    g = trace.sweep.grad(node.index)
    for other in trace.nodes:
        alike = other.op == node.op and other.metas == node.metas and other.index != node.index
        if alike and len(other.args) == len(node.args):
            try:
                found = pull(trace, other, g)[position]
            except (NotReplayable, ValueError, TypeError, IndexError):
                continue
            same = found is not None and np.shape(found) == np.shape(given)
            if same and not differs(given, np.asarray(found), ATOL, RTOL).any():
                return f"a stale value: computed with what {trace.name(other.index)} had saved."
    return None


def _unsummed(
    trace: Trace, node: TraceNode, position: int, given: Any, grads: list[Any]
) -> str | None:
    """Whether only the first of the places an operand was broadcast to has handed back its part."""
    op = op_of(node)
    lead = len(node.shape) - np.ndim(given)
    if op is None or not op.elementwise or np.shape(given) == node.shape or lead < 0:
        return None
    first = tuple(
        slice(None) if lead <= k and np.shape(given)[k - lead] == n else slice(0, 1)
        for k, n in enumerate(node.shape)
    )
    only = [np.zeros(node.shape)]
    only[0][first] = np.asarray(grads[0])[first]
    right, _ = _nudged(trace, node, position, [*only, *grads[1:]])
    if differs(given, right, ATOL, RTOL).any():
        return None
    axes = ", ".join(str(k) for k, part in enumerate(first) if part == slice(0, 1))
    return (
        f"not summed over a broadcast axis: only index 0 of axis {axes} reaches the input. What is "
        "broadcast forward is summed backward."
    )


# -- what a node received --------------------------------------------------------------------------


def _lost(trace: Trace, index: int) -> Fault | None:
    """Whether a node went on with other than the sum of what was pushed to it."""
    sweep = trace.sweep
    grads = sweep.grads.get(index)
    if grads is None or any(edge.node == index for edge in sweep.seeds):
        return None
    when = {node: at for at, node in enumerate(sweep.visits)}
    totals: list[Any] = [None] * len(grads)
    late: int | None = None
    count = 0
    for consumer, position in trace.consumers[index]:
        pushed = sweep.pushed.get(consumer, ())
        part = pushed[position] if position < len(pushed) else None
        if part is None:
            continue
        if not is_array(part):
            return None
        output = trace.nodes[consumer].args[position].output
        before = totals[output]
        totals[output] = np.asarray(part, np.float64) + (0 if before is None else before)
        count += 1
        if index in when and when[consumer] > when[index]:
            late = consumer
    for total, g in zip(totals, grads):
        if total is None or g is None or not is_array(g):
            continue
        if differs(g, total, ATOL, RTOL).any() and np.isfinite(total).all():
            node = trace.nodes[index]
            if late is not None:
                text = (
                    f"wrong order: it was visited before {trace.name(late)} had added to its "
                    "gradient, and what arrived later was lost."
                )
            elif count > 1:
                text = (
                    f"overwritten instead of accumulated: {count} contributions arrive, and its "
                    "gradient is not their sum (= instead of +=)."
                )
            else:
                text = "its gradient is not what was pushed to it: a hook has replaced it."
            return Fault(index, trace.name(index), node.op, None, text, node.line)
    return None
