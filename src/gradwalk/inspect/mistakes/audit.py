"""audit: check every step of a recorded backward pass against central differences.

It trusts no rule: it compares what a node passed on with how its output moves if its operands are
nudged. So it names any wrong rule, injected by `bugs` or not, and what is wrong around the rules: a
contribution overwritten, a node visited too early.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.mistakes.function_contributions import FunctionPush
from gradwalk.inspect.mistakes.lost_contributions import lost_by_values, lost_in
from gradwalk.inspect.mistakes.wrong_contributions import AuditedPush, Right, named, wrong_pushes
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import NotReplayable, op_of
from gradwalk.inspect.trace.routes import listed, wrapped
from gradwalk.inspect.trace.trace import Trace

__all__ = ["Audit", "Fault", "audit"]

SHOWN = 4  # names of operations that were not checked
MANY = 500  # nodes: more are not audited in passing


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
    skipped: dict[str, str] = field(default_factory=dict)  # nodes that were not checked, and why

    def __bool__(self) -> bool:
        """Whether something is wrong."""
        return bool(self.faults)

    def __str__(self) -> str:
        lines = [f"{self.checked} operations checked, {len(self.faults)} wrong."]
        for fault in self.faults:
            lines += wrapped(str(fault), "  ", "    ")
            if fault.line is not None:
                lines += wrapped(f"at {fault.line}", "    ", "    ")
        for reason, names in self._unchecked().items():
            lines += wrapped(f"not checked: {listed(names, SHOWN)}: {reason}", "", "  ")
        return "\n".join(lines)

    def _unchecked(self) -> dict[str, list[str]]:
        """The names of what was not checked, by the reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(name)
        return reasons


def audit(target: Any = None) -> Audit:
    """Check every step of a recorded backward pass; `target` is a loss or a trace.

    >>> import gradwalk as gw
    >>> from gradwalk.inspect import bugs, record
    >>> from gradwalk.inspect.mistakes.audit import audit
    >>> x = gw.tensor([0.5, -1.0], requires_grad=True)
    >>> with bugs.inject("sign", op="tanh"), record() as trace:
    ...     (x * 2).tanh().sum().backward()
    >>> print(audit(trace).faults[0])
    tanh#2, input 0: wrong sign: backward gives the negative of the derivative.
    """
    trace = as_trace(target)
    report = faults_in(trace, trace.sweep.visits)
    lost = lost_by_values(trace) if trace.scalar else {}
    # A number in a formula is a leaf too, but what people look at are the Values they named.
    shown = [i for i in lost if trace.nodes[i].label] or list(lost)[:1]
    report.faults += [_fault(trace, index, None, lost[index]) for index in shown]
    return report


def _fault(trace: Trace, index: int, argument: int | None, text: str) -> Fault:
    node = trace.nodes[index]
    return Fault(index, trace.name(index), node.op, argument, text, node.line)


def faults_in(trace: Trace, nodes: Iterable[int]) -> Audit:
    """Audit some nodes of the last backward pass."""
    report = Audit([], 0)
    audited = list(dict.fromkeys(nodes))
    wrong: list[AuditedPush] = []
    right_ones: Right = set()
    with np.errstate(all="ignore"):
        for index in audited:
            if index not in trace.sweep.pushed:
                continue
            node = trace.nodes[index]
            kind = AuditedPush if op_of(node) is not None else FunctionPush
            try:
                wrong += wrong_pushes(trace, node, right_ones, kind)
                report.checked += 1
            except NotReplayable as error:
                report.skipped[trace.name(index)] = str(error)
            except (ValueError, TypeError, IndexError) as error:
                report.skipped[trace.name(index)] = f"it failed when computed again: {error!r}"
        for push, text in zip(wrong, named(wrong, right_ones)):
            report.faults.append(_fault(trace, push.node.index, push.position, text))
        reached = {edge.node for i in audited for _, edge in trace.nodes[i].edges}.union(audited)
        for index, text in lost_in(trace, reached).items():
            report.faults.append(_fault(trace, index, None, text))
    return report


def wrong_steps(trace: Trace, nodes: Sequence[int], x: Any = None) -> list[str]:
    """Notes for a report about the gradient of x: what is wrong on the way, if that is cheap.

    For Values, whose trace is a walk of our own, also whether `x.grad` is another number.
    """
    notes = []
    if len(nodes) <= MANY:
        notes = [str(fault) for fault in faults_in(trace, nodes).faults]
    if trace.scalar and isinstance(getattr(x, "_grad", None), (int, float)):
        notes += _other_grad(trace, x)
    return notes


def _other_grad(trace: Trace, x: Any) -> list[str]:
    """Whether a Value holds another gradient than the chain rule gives, and why."""
    index = trace.lookup(x)
    right = 0.0 if index is None else float(trace.sweep.grad(index) or 0.0)
    if index is None or np.isclose(x._grad, right, 1e-6, 1e-9) or not np.isfinite(right):
        return []
    lost = lost_by_values(trace)
    if not x._grad and not lost:
        return []  # backward() was not called
    times = round(x._grad / right) if right else 0
    reason = "it was not cleared, was overwritten, or was passed on in a wrong order."
    if lost:
        where = index if index in lost else next(iter(lost))
        reason = lost[where] if where == index else f"{trace.name(where)}: {lost[where]}"
    elif times > 1 and np.isclose(x._grad, times * right):
        reason = f"backward() has run {times} times without zero_grad()."
    return [f"its .grad is {x._grad:.6g} where the chain rule gives {right:.6g}: {reason}"]
