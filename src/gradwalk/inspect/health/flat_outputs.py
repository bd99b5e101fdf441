"""Output activations that are saturated where the loss pulls them elsewhere.

A saturated output may be the goal of training: a confident, correct classifier. It is a problem if
the activation swallows the gradient. Two checks tell these apart. If moving the outputs to their
bounds would lower the loss, they are on their way there. And a loss that takes the logarithm of the
output (binary cross-entropy) sends a gradient that grows as fast as the slope falls, so nothing is
lost until the slope is exactly 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.inspect.health.checks import SLOPES, saturated_finding, softmax_weights
from gradwalk.inspect.health.findings import Finding, Limits, percent, together
from gradwalk.inspect.health.gradient_flow import Anatomy
from gradwalk.inspect.trace.statistics import array_of
from gradwalk.inspect.trace.trace import TraceNode

LOGARITHMS = frozenset(("log", "log1p", "log2", "log10", "binary_cross_entropy"))
BOUNDS = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
SHARP = 0.25  # of the largest gradient: below, the loss hardly cares about an output
LEAST = 0.05  # share of the outputs that have to be both flat and wanted elsewhere


def saturated_outputs(anatomy: Anatomy, limits: Limits) -> tuple[list[Finding], dict[int, float]]:
    """Saturated sigmoids, tanhs and softmaxes after the last layer; also the flat share by node."""
    findings, shares = [], {}
    for node in anatomy.trace.nodes:
        if not node.needs_grad or node.op not in (*SLOPES, "softmax"):
            continue
        layer = anatomy.layer_of(node.index)
        if layer is None or node.index in anatomy.hidden:
            continue
        measured = _measured(anatomy, node)
        if measured is None:
            continue
        slope, pull, gain = measured
        shares[node.index] = share = float(np.mean(slope < limits.flat))
        if share < limits.saturated or _gets_there(anatomy, gain):
            continue
        ops = {anatomy.trace.nodes[i].op for i in anatomy.main_path(node.index)[1:]}
        flat = slope <= 0 if ops & LOGARITHMS else slope < limits.flat
        stuck = float(np.mean(flat & (pull >= SHARP * pull.max()) & (pull > 0)))
        if stuck >= LEAST:
            finding = saturated_finding(anatomy, node, layer, share, limits)
            finding.message += (
                f"; the loss wants {percent(stuck)} of them elsewhere, and its gradient ends here"
            )
            findings.append(_with_advice(finding, node))
    return together(findings), shares


def _measured(anatomy: Anatomy, node: TraceNode) -> tuple[Any, Any, float] | None:
    """Slopes, gradients, and the first-order gain of moving to the bounds."""
    out = array_of(anatomy.value(node.index))
    g = array_of(anatomy.sweep.grad(node.index))
    if out is None or g is None or not out.size or not np.isfinite(g).all():
        return None
    if node.op == "softmax":
        out = softmax_weights(anatomy, node)
        g = np.moveaxis(g, node.attrs["axis"], -1)
        if out.shape[-1] < 2:
            return None
        bound = out == out.max(-1, keepdims=True)
        # A constant added to all gradients of a row moves nothing: probabilities sum to 1.
        pull = np.abs(g - (g * out).sum(-1, keepdims=True)).max(-1)
        return 1 - (out * out).sum(-1), pull, float((g * (out - bound)).sum())
    low, high = BOUNDS[node.op]
    bound = np.where(out > (low + high) / 2, high, low)
    return SLOPES[node.op](out), np.abs(g), float((g * (out - bound)).sum())


def _gets_there(anatomy: Anatomy, gain: float) -> bool:
    """Whether going all the way to the bounds would take away at least half of the loss."""
    loss = array_of(anatomy.trace.nodes[anatomy.trace.root].value)
    return loss is not None and loss.size == 1 and gain >= 0.5 * abs(float(loss.item()))


def _with_advice(finding: Finding, node: TraceNode) -> Finding:
    stable = "cross_entropy" if node.op == "softmax" else "binary_cross_entropy_with_logits"
    other = f"{stable} on what enters {node.op}"
    if node.op == "tanh":
        other = "no tanh at the end, or targets scaled to lie inside (-1, 1)"
    finding.change += f"; or {other}"
    return finding
