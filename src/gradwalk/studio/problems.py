"""Problems of a trace: where a NaN began, missing gradients, and the findings of `health`."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.health.health import health
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.answer import WhyNoGrad
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.trace.routes import leading_to, with_arrows
from gradwalk.inspect.trace.trace import Edge, Trace

MOST_ASKED = 100  # the most parameters that are examined; a frozen model has thousands


def findings(trace: Trace) -> list[dict[str, Any]]:
    """Each finding with its nodes, the most relevant one first."""
    listed = _first_nan(trace)
    if trace.scalar:
        return listed
    if not trace.sweeps:
        return [*listed, _not_judged(trace)]
    has_nan = bool(listed)
    listed += _without_gradient(trace)
    for finding in health(None, trace).findings:
        if has_nan and not math.isfinite(finding.value):
            continue  # a NaN gradient: its cause is already listed
        # The path of a gradient begins at the loss; the finding is about its end.
        nodes = sorted({factor.node for factor in finding.factors} | finding._nodes)
        line = _line(trace, finding.line, nodes)
        chain = finding.chain if finding.factors else ""
        layer, text, fix = finding.layer, finding.message, finding.change
        listed.append(_finding(finding.kind, layer, nodes, text, line, chain, fix))
    return listed


def _finding(
    kind: str, layer: str, nodes: list[int], text: str, line: str | None, chain: str, fix: str
) -> dict[str, Any]:
    """A finding as the page reads it."""
    about = {"kind": kind, "layer": layer, "nodes": nodes, "text": text}
    return about | {"line": line, "chain": chain, "fix": fix}


def no_gradient(trace: Trace, edge: Edge) -> str | None:
    """Why a node has no gradient in the last backward pass; None if it has one."""
    if trace.scalar or not trace.sweeps or trace.sweep.grad(edge.node, edge.output) is not None:
        return None
    answer = why_no_grad(edge.node, trace)
    where = "" if answer.line is None else f" ({answer.line})"
    path = " → ".join(step.name for step in answer.path)
    said = [f"{trace.name(edge.node)} received no gradient: {answer.reason}{where}"]
    said += [f"{path}."] if len(answer.path) > 1 else []
    said += [f"Fix: {answer.fix}"] if answer.fix else []
    return " ".join(said)


def _line(trace: Trace, line: SourceLine | None, nodes: list[int]) -> str | None:
    """The source line, `file.py:12: y = x * w`, of the report or else of a node."""
    source = line or next((n.line for n in map(trace.nodes.__getitem__, nodes) if n.line), None)
    return None if source is None else str(source)


def _first_nan(trace: Trace) -> list[dict[str, Any]]:
    nan = find_nan(trace)
    if not nan or nan.node is None:
        return []
    steps = [s for s in (nan.became, nan.masked_by, *nan.passed) if s is not None]
    nodes = list(dict.fromkeys([nan.node, *(s.node for s in steps)]))  # the first is the cause
    chain = with_arrows(list(dict.fromkeys([nan.name, *(s.name for s in steps)])))
    text, line = f"{nan.name}: {nan.text}; {nan.reason}", _line(trace, nan.line, [nan.node])
    return [_finding("nan", nan.layer or nan.name, nodes, text, line, chain, nan.fix)]


def _not_judged(trace: Trace) -> dict[str, Any]:
    text = "only the forward pass was recorded: values were looked at, gradients were not."
    fix = "call loss.backward() inside `with gradwalk.record():`"
    return _finding("no backward pass", trace.name(len(trace) - 1), [], text, None, "", fix)


def _without_gradient(trace: Trace) -> list[dict[str, Any]]:
    """Parameters without a gradient in any backward pass, grouped by cause."""
    leading = {i for sweep in trace.sweeps for i in leading_to(trace, [sweep.root])}
    reached = {i for sweep in trace.sweeps for i in sweep.grads}
    # A parameter that was written to (initialised, updated) has a node for each of its states.
    names = {trace.name(i) for i in reached}
    asked = [
        node.index
        for node in trace.nodes
        if node.is_leaf and node.needs_grad and (node.label or node.index in trace.names)
        if node.index not in reached
        if node.index in leading or trace.name(node.index) not in names
    ]
    cuts: dict[tuple[int | None, str], dict[int, WhyNoGrad]] = {}
    for index in asked[:MOST_ASKED]:
        why = why_no_grad(index, trace)
        if why.verdict == "none":
            cuts.setdefault((why.node, why.reason), {})[index] = why
    listed = []
    for (cut, reason), members in cuts.items():
        why = next(iter(members.values()))
        cuts_here = [] if cut is None else [cut]
        nodes, line = list(dict.fromkeys([*cuts_here, *members])), _line(trace, why.line, cuts_here)
        layers = ", ".join(trace.name(index) for index in members)
        chain = " → ".join(step.name for step in why.path) if len(why.path) > 1 else ""
        listed.append(_finding("no gradient", layers, nodes, reason, line, chain, why.fix))
    return listed
