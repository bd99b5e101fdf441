"""The checks of `health`: one function per pathology.

Each takes an `Anatomy` and the `Limits` and returns findings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.health.findings import Factor, Finding, Limits, percent, strongest, together
from gradwalk.inspect.health.gradient_flow import Anatomy, Layer
from gradwalk.inspect.health.softmax_rows import is_learned, softmax_rows
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import Statistics, array_of, norm_of, typical
from gradwalk.inspect.trace.routes import reached
from gradwalk.inspect.trace.trace import Edge, TraceNode

LARGE_INPUT = 4.0  # typical size above which an input is unscaled
LOGARITHMS = frozenset(("log", "log1p", "log2", "log10", "binary_cross_entropy"))
# At the end of a network, what to use in place of a saturated activation.
INSTEAD = {
    "sigmoid": "binary_cross_entropy_with_logits on what enters sigmoid",
    "softmax": "cross_entropy on what enters softmax",
    "tanh": "no tanh at the end, or targets scaled to lie inside (-1, 1)",
}
BOUNDS = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
SHARP = 0.25  # of the largest gradient: below, the loss hardly cares about an output
LEAST = 0.05  # share of the outputs that have to be both flat and wanted elsewhere

# Ops that may be a ReLU, see `_is_relu`.
RELUS = ("relu", "threshold", "clip", "hardtanh", "maximum", "clamp_min", "rnn")
RECURRENT = ("lstm", "gru", "rnn", "lstm_layer")
# The slope of an activation by its largest slope, from its output.
SLOPES: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda out: 4 * out * (1 - out),
    "tanh": lambda out: 1 - out * out,
}
# Ops whose gradients are read by element: leaves, possible outputs, and recurrent ops.
GRADIENTS_READ = frozenset(("", *SLOPES, "softmax", "attention", *RECURRENT))


# -- dead and saturated units ----------------------------------------------------------------------


def dead_units(anatomy: Anatomy, limits: Limits) -> tuple[list[Finding], dict[int, float]]:
    """ReLU units that give 0 for every row; also the share of them, by node."""
    findings, shares = [], {}
    for node in anatomy.trace.nodes:
        if not (node.needs_grad and node.op in RELUS and _is_relu(anatomy, node)):
            continue
        kept = anatomy.value(node.index)
        out = array_of(kept)
        if isinstance(kept, Statistics) and kept.zeros == kept.count:  # no need of the array
            out = np.zeros(kept.shape, np.bool_)
        layer = anatomy.layer_of(node.index)
        if out is None or out.ndim < 2 or layer is None:
            continue
        of_channels = anatomy.trace.nodes[layer.node].op.startswith("conv") and out.ndim > 2
        axis = 1 if of_channels else out.ndim - 1
        units = out.shape[axis]
        if not units or out.size // units < limits.samples:
            continue
        alive = (out > 0).any(tuple(i for i in range(out.ndim) if i != axis))
        shares[node.index] = share = 1 - float(np.count_nonzero(alive)) / units
        if share >= limits.dead:
            findings.append(_dead(anatomy, node, layer, share, units))
    return together(findings), shares


def _is_relu(anatomy: Anatomy, node: TraceNode) -> bool:
    """Whether an op maps every negative input to 0 with slope 0."""
    attrs = node.attrs
    if node.op in ("relu", "threshold"):
        return not attrs.get("value")
    if node.op == "rnn":
        return bool(attrs["nonlinearity"] == "relu")
    if node.op in ("clip", "hardtanh"):
        return attrs.get("min", attrs.get("min_val")) == 0
    if node.op not in ("maximum", "clamp_min") or len(node.args) < 2:
        return False
    other = node.args[1]
    if isinstance(other, Edge):
        constant = not anatomy.trace.nodes[other.node].needs_grad
        other = array_of(anatomy.value(other.node)) if constant else None
    return other is not None and not np.any(other)


def _dead(anatomy: Anatomy, node: TraceNode, layer: Layer, share: float, units: int) -> Finding:
    inside = node.op == "rnn"  # what enters the relu is inside, too
    before = None if inside else array_of(anatomy.value(node.inputs[0]))
    message = f"{percent(share)} of the {units} units of layer {layer.title} give 0 for all rows"
    if before is not None:
        message += f": what enters {node.op} is {short(before.mean())} ± {short(before.std())}"
        bias = _bias(anatomy, layer)
        if bias is not None and abs(bias.mean()) > before.std():
            message += f", of which the bias is {short(bias.mean())}"
    return Finding(
        "dead",
        layer.title,
        share,
        message,
        "a bias that starts at 0, a smaller learning rate, or leaky_relu, whose slope is never 0",
        node.line,
        anatomy.written_at(layer, matrix_only=False),
        [_factor(anatomy, node)],
    )


def _bias(anatomy: Anatomy, layer: Layer) -> Any:
    for index in layer.parameters:
        if len(anatomy.trace.nodes[index].shape) == 1:
            return array_of(anatomy.value(index))
    return None


def _factor(anatomy: Anatomy, node: TraceNode) -> Factor:
    """How one node changed the gradient that it pushed to its first operand."""
    arrived = anatomy.gradient(node.index)
    pushed = anatomy.sweep.pushed.get(node.index) or (None,)
    return Factor(
        node.index,
        node.op,
        norm_of(pushed[0]) / arrived if arrived else math.nan,
        "",
        node.line,
    )


def saturated_units(anatomy: Anatomy, limits: Limits) -> tuple[list[Finding], dict[int, float]]:
    """Hidden sigmoids, tanhs and softmaxes that are mostly flat; also how much, by node."""
    findings, shares = [], {}
    for node, layer, slope in _activations(anatomy, hidden=True):
        shares[node.index] = share = float(np.mean(slope < limits.flat))
        if share < limits.saturated:
            continue
        if node.op in SLOPES or not is_learned(anatomy, node, limits.flat):
            findings.append(_saturated(anatomy, node, layer, share, limits))
    return together(findings), shares


def _activations(anatomy: Anatomy, hidden: bool) -> Iterator[tuple[TraceNode, Layer, Any]]:
    """The sigmoids, tanhs and softmaxes before, or after, the last layer, and their slopes.

    A slope is relative to the largest. There is one per output, of a softmax one per row.
    """
    for node in anatomy.trace.nodes:
        layer = anatomy.layer_of(node.index)
        if layer is None or not node.needs_grad or (node.index in anatomy.hidden) != hidden:
            continue
        if node.op in SLOPES:
            out = array_of(anatomy.value(node.index))
            if out is not None and out.size:
                yield node, layer, SLOPES[node.op](out)
        elif node.op in ("softmax", "attention"):
            rows = softmax_rows(anatomy, node)
            if rows is not None:
                yield node, layer, rows.slope


def _saturated(
    anatomy: Anatomy, node: TraceNode, layer: Layer, share: float, limits: Limits
) -> Finding:
    softmax = node.op not in SLOPES
    what = "rows" if softmax else "outputs"
    entering = typical(anatomy.value(node.inputs[0]))
    message = (
        f"{percent(share)} of the {what} of {node.op} after layer {layer.title} are flat (slope "
        f"below {percent(limits.flat)} of the largest): what enters it has size {short(entering)}"
    )
    cause, change = why_so_large(anatomy, layer, node)
    if softmax:
        change = (
            "divide what enters the softmax by its size (attention: by the root of the width), or "
            "normalise it"
        )
    return Finding(
        "saturated", layer.title, share, message, change, node.line, cause, [_factor(anatomy, node)]
    )


def why_so_large(anatomy: Anatomy, layer: Layer, node: TraceNode) -> tuple[SourceLine | None, str]:
    """Whether the input of the layer or its weights are to blame."""
    data, line = anatomy.data_of(layer)
    if data is not None and layer.below is None and typical(data) > LARGE_INPUT:
        size = short(typical(data))
        return line, f"scale the input, whose typical size is {size}, to about 1"
    if node.op in RECURRENT:
        change = "smaller initial weights (nn.init.orthogonal_ for weight_hh), biases near 0"
        return anatomy.written_at(layer, matrix_only=False), change
    return (
        anatomy.written_at(layer),
        f"smaller initial weights (nn.init.xavier_normal_), or a normalisation before {node.op}",
    )


def saturated_outputs(anatomy: Anatomy, limits: Limits) -> tuple[list[Finding], dict[int, float]]:
    """Saturated sigmoids, tanhs and softmaxes after the last layer; also the flat share by node.

    A saturated output may be the goal of training: a confident, correct classifier. It is a problem
    if the activation swallows the gradient. Two checks tell these apart. If moving the outputs to
    their bounds would lower the loss, they are on their way there. And a loss that takes the
    logarithm of the output (binary cross-entropy) sends a gradient that grows as fast as the slope
    falls, so nothing is lost until the slope is exactly 0.
    """
    findings, shares = [], {}
    for node, layer, slope in _activations(anatomy, hidden=False):
        g = array_of(anatomy.sweep.grad(node.index))
        if node.op not in INSTEAD or g is None or not np.isfinite(g).all():
            continue
        pull, gain = _pull_and_gain(anatomy, node, g)
        shares[node.index] = share = float(np.mean(slope < limits.flat))
        if share < limits.saturated or _gets_there(anatomy, gain):
            continue
        ops = {anatomy.trace.nodes[i].op for i in anatomy.main_path(node.index)[1:]}
        flat = slope <= 0 if ops & LOGARITHMS else slope < limits.flat
        stuck = float(np.mean(flat & (pull >= SHARP * pull.max()) & (pull > 0)))
        if stuck >= LEAST:
            finding = _saturated(anatomy, node, layer, share, limits)
            finding.message += (
                f"; the loss wants {percent(stuck)} of them elsewhere, and its gradient ends here"
            )
            finding.change += f"; or {INSTEAD[node.op]}"
            findings.append(finding)
    return together(findings), shares


def _pull_and_gain(anatomy: Anatomy, node: TraceNode, g: Any) -> tuple[Any, float]:
    """How hard the loss pulls at each output, and the first-order gain of moving to the bounds."""
    if node.op == "softmax":
        rows = softmax_rows(anatomy, node)
        assert rows is not None
        out, g = rows.weights, rows.gradient
        bound = out == out.max(-1, keepdims=True)
        # A constant added to all gradients of a row moves nothing: probabilities sum to 1.
        pull = np.abs(g - (g * out).sum(-1, keepdims=True)).max(-1)
    else:
        out = array_of(anatomy.value(node.index))
        low, high = BOUNDS[node.op]
        bound, pull = np.where(out > (low + high) / 2, high, low), np.abs(g)
    return pull, float((g * (out - bound)).sum())


def _gets_there(anatomy: Anatomy, gain: float) -> bool:
    """Whether going all the way to the bounds would take away at least half of the loss."""
    loss = array_of(anatomy.trace.nodes[anatomy.trace.root].value)
    return loss is not None and loss.size == 1 and gain >= 0.5 * abs(float(loss.item()))


# -- the start -------------------------------------------------------------------------------------


def activation_scale(anatomy: Anatomy, limits: Limits) -> list[Finding]:
    """Activations that grow or shrink from layer to layer."""
    hidden = [
        layer for layer in anatomy.spine()[:-1] if anatomy.trace.nodes[layer.node].op != "embedding"
    ]
    sizes = [typical(anatomy.value(layer.node)) for layer in hidden]
    if len(hidden) < 2 or not all(0 < size < math.inf for size in sizes):
        return []
    growth = sizes[-1] / sizes[0]
    if 1 / limits.growth <= growth <= limits.growth:
        return []
    factors = []
    for layer, before, after in zip(hidden[1:], sizes, sizes[1:], strict=False):
        node = anatomy.trace.nodes[layer.node]
        row = anatomy.row_norm(layer.weight)
        factors.append(Factor(node.index, node.op, after / before, layer.title, node.line, row))
    growing = growth > 1
    blamed = strongest(factors, growing)
    assert blamed is not None
    guilty = next(layer for layer in hidden if layer.node == blamed.node)
    return [
        Finding(
            "initialisation",
            guilty.title,
            growth,
            f"activations {'grow' if growing else 'shrink'} from {short(sizes[0])} at layer "
            f"{hidden[0].title} to {short(sizes[-1])} at layer {hidden[-1].title}",
            "weights whose rows have norm 1 (nn.init.xavier_normal_; before relu "
            "kaiming_normal_, norm √2), or a normalisation after each layer",
            blamed.line,
            anatomy.written_at(guilty),
            factors,
            [layer.title for layer in hidden[1:] if layer is not guilty],
        )
    ]


def symmetric_weights(anatomy: Anatomy) -> list[Finding]:
    """Matrices whose rows are equal and stay so, because their gradients are equal too."""
    stuck: list[tuple[Layer, bool]] = []
    seen: set[int] = set()
    for layer in anatomy.layers:
        weight = array_of(anatomy.value(layer.weight))
        gradient = array_of(anatomy.sweep.grad(layer.weight))
        if layer.weight in seen or weight is None or gradient is None:
            continue
        seen.add(layer.weight)
        zero = not weight.any()
        alike = zero if len(weight) < 2 else _equal_rows(weight, 0.0)
        if alike and (_equal_rows(gradient, 1e-4) if len(weight) > 1 else not gradient.any()):
            stuck.append((layer, zero))
    if not stuck:
        return []
    layer, zero = stuck[0]
    rows = anatomy.trace.nodes[layer.weight].shape[0]
    what = "0" if zero else "alike"
    return [
        Finding(
            "initialisation",
            layer.title,
            float(rows),
            f"the weights of all {rows} units of layer {layer.title} are {what}, and so are their "
            "gradients: they will all learn the same thing, if they learn at all",
            "random initial weights (nn.init.xavier_normal_, kaiming_normal_); only biases, and "
            "the last layer of a residual branch, may start at 0",
            anatomy.trace.nodes[layer.node].line,
            anatomy.written_at(layer),
            [f for f in anatomy.factors(layer.node) if not math.isnan(f.value)],
            [other.title for other, _ in stuck[1:]],
        )
    ]


def _equal_rows(matrix: Any, tolerance: float) -> bool:
    rows = matrix.reshape(len(matrix), -1)
    if not np.array_equal(rows[0], rows[-1]) and not tolerance:
        return False  # mostly: no need to look at all of them
    return bool(np.abs(rows - rows[0]).max(initial=0) <= tolerance * np.abs(rows).max(initial=0))


# -- parameters without a gradient -----------------------------------------------------------------


def unused_parameters(
    anatomy: Anatomy, model: Any, optimizer: Any = None, trained: Collection[str] = ()
) -> list[Finding]:
    """Parameters that require a gradient and get none; one finding per module.

    What the optimizer does not hold is frozen on purpose. `trained` names parameters that have a
    gradient from another backward pass of the same step.
    """
    groups_held = () if optimizer is None else optimizer.param_groups
    held = {id(p) for group in groups_held for p in group["params"]}
    groups: dict[str, list[tuple[str, Any, int | None]]] = {}
    known = {name: index for index, name in anatomy.names.items()}
    for name, parameter in model.named_parameters():
        index = known.get(name)
        if name in trained or (optimizer is not None and id(parameter) not in held):
            continue
        if parameter.requires_grad and (index is None or anatomy.sweep.grad(index) is None):
            place = name.rpartition(".")[0] or name
            groups.setdefault(place, []).append((name, parameter, index))
    findings = []
    for place, members in groups.items():
        names = ", ".join(name for name, _, _ in members)
        cut = next((c for _, _, i in members if i is not None and (c := _cut(anatomy, i))), None)
        it = "it" if len(members) == 1 else "them"
        if cut is None:
            message = f"{names} got no gradient: the loss was computed without {it}"
            change = f"use {it} in forward, delete {it}, or freeze {it} with requires_grad_(False)"
        else:
            message = f"{names} got no gradient: the path to the loss ends at {cut.note}"
            change = (
                f"freeze {it} with requires_grad_(False) if the {cut.note} is meant, or let {it} "
                "reach the loss past it; why_no_grad shows the path"
            )
        write = anatomy.trace.last_write(members[0][1])
        made = getattr(members[0][1], "line", None) or (None if write is None else write[1])
        line = made if cut is None else cut.block or cut.line
        findings.append(Finding("unused", place, float(len(members)), message, change, line, made))
    return findings


def _cut(anatomy: Anatomy, index: int) -> TraceNode | None:
    """The first node above a parameter that stops gradients, and why."""
    above = (anatomy.trace.nodes[i] for i in reached(anatomy.trace, index) if i != index)
    return next((node for node in above if node.note), None)
