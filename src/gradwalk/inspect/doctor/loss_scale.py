"""How a loss is reduced and scaled: accumulation without division, and sums over a batch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradwalk.inspect.doctor.loss_curve import LOST, RISES, verdict
from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import array_of
from gradwalk.inspect.trace.trace import Edge, Sweep, Trace, TraceNode

SAME = 1e-3  # relative difference of two scales that counts as none


@dataclass
class Reduction:
    """The operation that makes one number of many, on the way to a loss."""

    node: TraceNode
    kind: str  # "mean" or "sum"
    count: int  # of what it reduces
    scale: float  # the gradient that arrives: what the loss multiplies it by


def reductions(trace: Trace, sweep: Sweep) -> list[Reduction]:
    """The reductions behind the root of a backward pass, the heaviest first."""
    found = [r for node in _ends(trace, sweep.root) if (r := _reduction(trace, sweep, node))]
    return sorted(found, key=lambda r: -abs(r.scale))


def _ends(trace: Trace, root: int) -> Iterator[TraceNode]:
    """The nodes of one number that are computed from many."""
    seen, waiting = {root}, [root]
    while waiting:
        node = trace.nodes[waiting.pop()]
        if not node.needs_grad or not node.op:
            continue
        sizes = [math.prod(trace.shape_of(edge)) for _, edge in node.edges]
        if max(sizes, default=1) > 1:
            yield node
            continue
        new = [i for i in node.inputs if i not in seen]
        seen.update(new)
        waiting += new


def _reduction(trace: Trace, sweep: Sweep, node: TraceNode) -> Reduction | None:
    kind = node.attrs.get("reduction", node.op)
    scale = array_of(sweep.grad(node.index))
    if kind not in ("mean", "sum") or scale is None or scale.size != 1:
        return None
    count = math.prod(trace.shape_of(node.edges[0][1]))
    number = float(scale.reshape(())) / _scaler(trace, sweep)
    return Reduction(node, kind, count, number) if math.isfinite(number) and number else None


def _scaler(trace: Trace, sweep: Sweep) -> float:
    """What a gradient scaler multiplied the loss by: a power of two in a tensor."""
    root = trace.nodes[sweep.root]
    if root.op != "mul":
        return 1.0
    for argument in root.args:
        constant = isinstance(argument, Edge) and not trace.nodes[argument.node].needs_grad
        value = array_of(trace.nodes[argument.node].value) if constant else None
        if value is not None and value.size == 1 and value.item() >= 2:
            mantissa, _ = np.frexp(value.item())
            return float(value.item()) if mantissa == 0.5 else 1.0
    return 1.0


# -- checks ----------------------------------------------------------------------------------------


def accumulation(run: ObservedRun) -> list[Finding] | None:
    """Several backward passes per step whose losses are not divided by their number."""
    several = [s for s in run.steps if len(s.passes) > 1 and len({p.line for p in s.passes}) == 1]
    if not run.steps or len(several) <= len(run.steps) / 2:
        return [] if run.recorded else None
    count = int(statistics.median(len(s.passes) for s in several))
    step = next((s for s in reversed(several) if s.trace and len(s.passes) == count), None)
    if step is None or step.trace is None or any(p.before == 0 for p in step.passes[1:]):
        return None
    means = [r[0] for sweep in step.trace.sweeps if (r := reductions(step.trace, sweep))]
    means = [r for r in means if r.kind == "mean"]
    if len(means) < 2:
        return None
    total = sum(r.scale for r in means) * count / len(means)
    parts = 1 / means[-1].scale
    if abs(total - 1) < SAME or not _is_whole(parts):
        return []
    divided = "not divided at all" if parts < 1.5 else f"divided by {short(parts)}"
    return [
        Finding(
            "accumulation",
            "",
            total,
            f"the gradients of {count} backward passes are added for each step, and each mean "
            f"loss is {divided}: the gradient is {short(total)} times that of one batch of all "
            f"their rows ({count} × 1 is not 1 × {count})",
            f"(loss / {count}).backward(), or a learning rate for that gradient",
            step.passes[-1].line,
            means[-1].node.line,
            confidence="likely",
            basis=f"measured: a gradient of {short(means[-1].scale)} arrives at each mean, and 1 / "
            f"{count} would be an average",
        )
    ]


def _is_whole(number: float) -> bool:
    return number > 0.5 and abs(number - round(number)) < SAME * number


def summed_loss(run: ObservedRun) -> list[Finding] | None:
    """A loss that is a sum over the batch, in a training that diverges."""
    if not run.recorded:
        return None
    # A loss that is NaN from the beginning did not diverge.
    began = bool(run.losses) and math.isfinite(run.losses[0])
    broken = began and (verdict(run.losses).kind in (RISES, LOST) or run.harmed)
    for step in run.recorded if broken else ():
        found = _summed(step)
        if found is not None:
            return [found]
    return []


def _summed(step: ObservedStep) -> Finding | None:
    assert step.trace is not None
    for sweep in step.trace.sweeps[-1:]:
        for reduction in reductions(step.trace, sweep):
            rows = step.trace.shape_of(reduction.node.edges[0][1])[0]
            if reduction.kind == "sum" and rows > 1 and reduction.scale * rows > 1.5:
                return Finding(
                    "sum",
                    "",
                    float(rows),
                    f"the loss is a sum over the {rows} rows of the batch ({reduction.count} "
                    f"numbers), not a mean: its gradient is {rows} times as large, and the "
                    "training diverges",
                    f'reduction="mean" (or .mean()), or a learning rate {rows} times smaller',
                    reduction.node.line,
                    confidence="likely",
                    basis="measured: each row counts "
                    f"{short(reduction.scale)} times in the loss, and the loss does not fall",
                )
    return None
