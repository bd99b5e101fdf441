"""A backward written by hand (`autograd.Function`) that is not the derivative of its forward.

Every call of a custom Function in a recorded step is audited: differences of its own forward say
what it should have handed on. The rules of the engine itself are not audited here.
"""

from __future__ import annotations

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.mistakes.audit import Fault, faults_in
from gradwalk.inspect.mistakes.custom_functions import backward_of
from gradwalk.inspect.trace.replay import op_of
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Trace

MOST = 4  # calls of each Function that are audited


def wrong_backward(trace: Trace) -> list[Finding]:
    """The custom Functions of a step whose backward is wrong; one finding for each."""
    if not trace.sweeps:
        return []
    report = faults_in(trace, _calls(trace))
    faults: dict[str, Fault] = {}
    for fault in report.faults:
        faults.setdefault(fault.op, fault)
    return [_finding(trace, fault) for fault in faults.values()]


def _calls(trace: Trace) -> list[int]:
    """The calls of the program's Functions, a few of each."""
    seen: dict[str, int] = {}
    chosen = []
    for index in trace.sweep.visits:
        node = trace.nodes[index]
        if node.is_leaf or op_of(node) is not None or backward_of(node.op) is None:
            continue
        seen[node.op] = seen.get(node.op, 0) + 1
        if seen[node.op] <= MOST:
            chosen.append(index)
    return chosen


def _finding(trace: Trace, fault: Fault) -> Finding:
    where = backward_of(fault.op)
    input_ = "" if fault.argument is None else f" for input {fault.argument}"
    return Finding(
        "wrong backward",
        group_name(trace, fault.node),
        1.0,
        f"the backward of {fault.op} is not the derivative of its forward{input_}: {fault.text}",
        f"correct {fault.op}.backward, or leave the derivative to the engine; gradcheck"
        f"({fault.op}.apply, inputs in float64) shows when it is right.",
        where or fault.line,
        fault.line,
        confidence="certain",
        basis="differences of its own forward give another gradient.",
    )
