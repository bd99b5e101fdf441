"""Examine one forward and backward pass: the report of `health` and `Monitor`."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.health import checks
from gradwalk.inspect.health.findings import WIDTH, Finding, Limits, strongest
from gradwalk.inspect.health.gradient_flow import Anatomy, gradient_flow
from gradwalk.inspect.health.recurrence import through_time
from gradwalk.inspect.health.update_sizes import step_norms, update_sizes
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace.array_statistics import array_of, norm_of, typical
from gradwalk.inspect.trace.trace import Trace
from gradwalk.printers.charts import bars_svg

_SHOWN = 32  # layers that are printed, the first and the last; `.layers` has all
_NAME = 26  # columns for a layer's name
_MEASURED = (
    "gradient", "weight", "weight_gradient", "activation", "update", "dead", "saturated",
)  # fmt: skip
_HEADS = {"activation": "output", "saturated": "flat"}


@dataclass
class LayerHealth:
    """The sizes of activations and gradients at one layer."""

    name: str
    op: str
    activation: float | None  # typical size of its outputs; of an unrecorded graph often unknown
    gradient: float  # norm of the gradient of its outputs
    weight: float  # norm of its matrix
    weight_gradient: float
    update: float | None = None  # how far a step moves the matrix, by its norm
    dead: float | None = None  # share of the ReLU units behind it
    saturated: float | None = None  # share of the outputs of the sigmoid, ... behind it
    line: SourceLine | None = None


@dataclass
class HealthReport(Report):
    """The findings, worst first, and the sizes at every layer."""

    findings: list[Finding]
    layers: list[LayerHealth]
    loss: float | None = None
    gradient_norm: float = 0.0  # of all parameters together
    notes: list[str] = field(default_factory=list)  # what could not be checked, and why

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def metrics(self) -> dict[str, float]:
        """Everything as one flat dictionary of floats, for any logger."""
        metrics = {"findings": float(len(self.findings)), "gradient_norm": self.gradient_norm}
        if self.loss is not None:
            metrics["loss"] = self.loss
        for layer in self.layers:
            for what in _MEASURED:
                size = getattr(layer, what)
                if size is not None:
                    metrics[f"{layer.name}/{what}"] = size
        return metrics

    def svg(self) -> str:
        """The sizes at every layer as bars; layers with a finding are red."""
        columns = {
            "size of outputs": [layer.activation or 0.0 for layer in self.layers],
            "norm of gradient": [layer.gradient for layer in self.layers],
        }
        marked = [name for f in self.findings for name in (f.layer, *f.others)]
        return bars_svg([layer.name for layer in self.layers], columns, marked)

    def _repr_html_(self) -> str:
        said = "".join(f"<pre>{html.escape(str(finding))}</pre>" for finding in self.findings)
        return f'<div class="gradwalk">{self.svg()}{said or "<p>no finding</p>"}</div>'

    def __str__(self) -> str:
        count = len(self.findings)
        said = "no finding" if not count else f"{count} finding{'s' if count > 1 else ''}"
        lines = [f"health: {said}, {len(self.layers)} layers"]
        if self.layers:
            lines += ["", *_table(self.layers)]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding}"]
        for note in self.notes:
            lines += ["", textwrap.fill(f"note: {note}", WIDTH, subsequent_indent="  ")]
        return "\n".join(lines)


def _table(layers: list[LayerHealth]) -> list[str]:
    """One row per layer, at most 80 columns."""
    wide = min(_NAME, max(len("layer"), *(len(layer.name) for layer in layers)))
    optional = [
        what
        for what in ("update", "dead", "saturated")
        if any(getattr(layer, what) is not None for layer in layers)
    ]
    columns = ["activation", "gradient", "weight", *optional]
    heads = [_HEADS.get(name, name) for name in columns]
    rows = [" ".join([f"{'layer':<{wide}}", *(f"{head:>8}" for head in heads)])]
    many, half = len(layers) > _SHOWN, _SHOWN // 2
    for layer in [*layers[:half], *layers[-half:]] if many else layers:
        name = layer.name if len(layer.name) <= wide else "…" + layer.name[1 - wide :]
        cells = [getattr(layer, column) for column in columns]
        texts = ["" if cell is None else f"{cell:.3g}" for cell in cells]
        rows.append(" ".join([f"{name:<{wide}}", *(f"{text:>8}" for text in texts)]).rstrip())
    if many:
        rows.insert(1 + half, f"... {len(layers) - _SHOWN} more")
    return rows


@np.errstate(all="ignore")  # non-finite numbers are expected here
def examine(
    model: Any,
    trace: Trace,
    optimizer: Any = None,
    *,
    lr: float | None = None,
    limits: Limits | None = None,
    steps: dict[int, float] | None = None,
    rows: int | None = None,
    trained: Collection[str] = (),
) -> HealthReport:
    """`health` of a trace.

    `steps` has norms of updates measured before; `trained` names parameters with a gradient from
    another backward pass of the step; `rows` limits the part of a batch to look at where
    the whole would cost another pass.
    """
    if trace.scalar:
        raise TypeError(
            "health is about the layers of a network of tensors; this is a graph of Values. "
            "Fix: why(value, loss) explains single gradients."
        )
    limits = limits or Limits()
    anatomy = Anatomy(trace, model)
    dead, dead_shares = checks.dead_units(anatomy, limits)
    flat, flat_shares = checks.saturated_units(anatomy, limits)
    ends, end_shares = checks.saturated_outputs(anatomy, limits)
    inside, gate_shares = through_time(anatomy, limits, rows)
    stuck = checks.symmetric_weights(anatomy)
    scale = checks.activation_scale(anatomy, limits)
    flow = _unexplained(gradient_flow(anatomy, limits), dead, flat, stuck, inside)
    if steps is None:
        steps = step_norms(anatomy, optimizer, lr)
    size, ratios = update_sizes(anatomy, steps, optimizer, limits)
    unused = []
    if model is not None:
        unused = checks.unused_parameters(anatomy, model, optimizer, trained)
    report = HealthReport(
        [*flow, *inside, *dead, *flat, *ends, *stuck, *scale, *size, *unused],
        _layers(anatomy, dead_shares, {**flat_shares, **end_shares, **gate_shares}, ratios),
        gradient_norm=math.hypot(*(norm_of(anatomy.sweep.grad(i)) for i in anatomy.names)),
        notes=_notes(anatomy),
    )
    root = trace.nodes[trace.root]
    if math.prod(root.shape) == 1 and root.value is not None:
        report.loss = norm_of(root.value) if not hasattr(root.value, "item") else root.value.item()
    return report


def _unexplained(flow: list[Finding], *explained: list[Finding]) -> list[Finding]:
    """Vanishing gradients that no other finding explains."""
    causes: dict[int, Finding] = {}
    for finding in (f for findings in explained for f in findings):
        causes.update(dict.fromkeys((f.node for f in finding.factors), finding))
        causes.update(dict.fromkeys(finding._nodes, finding))
    left = []
    for finding in flow:
        blamed = strongest(finding.factors, growing=finding.kind == "exploding")
        cause = causes.get(blamed.node) if blamed is not None else None
        if finding.kind == "vanishing" and cause is not None:
            share = "nothing" if finding.value == 0 else short(finding.value)
            cause.message += f"; {share} of the gradient reaches layer {finding.layer}"
        else:
            left.append(finding)
    return left


def _layers(
    anatomy: Anatomy, dead: dict[int, float], flat: dict[int, float], ratios: dict[int, float]
) -> list[LayerHealth]:
    dead_behind = {anatomy.fed_by[index]: share for index, share in dead.items()}
    flat_behind = {anatomy.fed_by[index]: share for index, share in flat.items()}
    layers = []
    for number, layer in enumerate(anatomy.layers):
        node = anatomy.trace.nodes[layer.node]
        out = anatomy.value(layer.node)
        layers.append(
            LayerHealth(
                layer.title,
                node.op,
                None if out is None else typical(out),
                anatomy.gradient(layer.node),
                norm_of(anatomy.value(layer.weight)),
                norm_of(anatomy.sweep.grad(layer.weight)),
                ratios.get(layer.weight),
                dead_behind.get(number),
                flat_behind.get(number),
                node.line,
            )
        )
    return layers


def _notes(anatomy: Anatomy) -> list[str]:
    if not anatomy.layers:
        return ["no layer was found: no operation multiplies by a parameter of the model"]
    counted = (*checks.RELUS, *checks.SLOPES, *checks.RECURRENT, "softmax", "attention")
    units = [n for n in anatomy.trace.nodes if n.op in counted and n.needs_grad]
    missing = sum(array_of(anatomy.value(n.index)) is None for n in units)
    if missing:
        return [
            f"of {missing} of {len(units)} activations only statistics were kept: their units were "
            "not counted"
        ]
    return []
