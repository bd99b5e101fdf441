"""Which row of a batch, or which token of a row, makes a loss large: read from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.array_statistics import array_of
from gradwalk.inspect.trace.trace import Edge, Shape, Trace, TraceNode
from gradwalk.ops import TABLE

OUTLIER = 10.0  # a row stands out beyond this multiple of the median row
SHARE = 0.3  # and with at least this part of the whole loss


@dataclass
class OutlyingRow:
    """A row whose part of the loss stands out."""

    row: int
    share: float  # of the whole loss
    times: float  # the loss of the median row
    token: int | None = None  # the position in the row, if the loss has one number for each
    line: SourceLine | None = None  # where the loss is computed
    op: str = ""


def outlying_loss(trace: Trace, batch: Shape) -> OutlyingRow | None:
    """The row that dominates the loss of a batch of this shape; None if no row stands out."""
    rows = batch[0] if batch else 0
    found = _before_reduction(trace)
    if rows < 2 or found is None:
        return None
    node, parts = found
    if not parts.ndim or parts.shape[0] % rows:
        return None
    table = np.abs(parts.reshape(rows, -1).astype(np.float64))  # tokens may be in the first axis
    sums = table.sum(axis=1)
    worst, total = int(np.argmax(sums)), float(sums.sum())
    middle = float(np.median(sums))
    if not total > 0 or sums[worst] < OUTLIER * middle or sums[worst] < SHARE * total:
        return None
    token = None
    if table.shape[1] > 1:
        inside = table[worst]
        most = int(np.argmax(inside))
        others = float(np.median(inside))
        token = most if inside[most] > OUTLIER * max(others, 1e-300) else None
    times = float(sums[worst]) / max(middle, 1e-300)
    return OutlyingRow(worst, float(sums[worst]) / total, times, token, node.line, node.op)


def _before_reduction(trace: Trace) -> tuple[TraceNode, Any] | None:
    """The loss before it was averaged or summed, from the last such operation behind the root."""
    roots = [edge.node for edge in trace.sweeps[-1].seeds] if trace.sweeps else [trace.root]
    node = trace.nodes[roots[-1]]
    for _ in range(len(trace.nodes)):
        if node.is_leaf:
            return None
        inputs = [edge for _, edge in node.edges]
        if "reduction" in node.attrs and node.attrs["reduction"] != "none":
            return _without_reduction(trace, node)
        large = [edge for edge in inputs if trace.nodes[edge.node].metas[edge.output][0]]
        if node.op in ("mean", "sum") and large:
            array = array_of(trace.nodes[large[0].node].values[large[0].output])
            return None if array is None else (node, array)
        small = [edge for edge in inputs if trace.nodes[edge.node].needs_grad]
        if len(small) != 1 or node.shape:
            return None  # several losses, or no scalar any more
        node = trace.nodes[small[0].node]
    return None


def _without_reduction(trace: Trace, node: TraceNode) -> tuple[TraceNode, Any] | None:
    """A loss computed again from its recorded inputs, one number for each."""
    op = TABLE.get(node.op)
    inputs: list[Any] = []
    for arg in node.args:
        kept = trace.nodes[arg.node].values[arg.output] if isinstance(arg, Edge) else arg
        inputs.append(array_of(kept) if isinstance(arg, Edge) else kept)
        if inputs[-1] is None and isinstance(arg, Edge):
            return None
    if op is None:
        return None
    try:
        made = op.forward(*inputs, **{**node.attrs, "reduction": "none"})
    except (TypeError, ValueError, IndexError):
        return None
    parts = np.asarray(made[0] if isinstance(made, tuple) else made)
    return (node, parts) if parts.ndim else None
