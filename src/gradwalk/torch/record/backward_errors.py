"""Explain the errors of a backward pass, also of one that is not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwalk.inspect.trace.routes import leading_to
from gradwalk.torch.record.autograd_graph import inputs_first
from gradwalk.torch.record.freed_graphs import LineOf, explain_freed
from gradwalk.torch.record.recorder import TorchRecorder

NO_GRAPH = "does not require grad"


def explain(
    error: RuntimeError,
    outputs: Sequence[Any],
    line_of: LineOf,
    recorder: TorchRecorder | None = None,
) -> None:
    """Add to the error of a backward pass from `outputs` what is known of its cause."""
    roots = [t for t in outputs if isinstance(t, torch.Tensor)]
    _explain_no_graph(error, roots, recorder)
    nodes = list(inputs_first([t.grad_fn for t in roots if t.grad_fn is not None]))
    explain_freed(error, roots, nodes, line_of)


def _explain_no_graph(
    error: RuntimeError, roots: list[torch.Tensor], recorder: TorchRecorder | None
) -> None:
    """Say where a loss without a graph was cut off from the parameters."""
    edge = recorder.known(roots[0]) if recorder is not None and roots else None
    if recorder is None or edge is None or NO_GRAPH not in str(error):
        return
    trace = recorder.trace
    cuts = [i for i in leading_to(trace, [edge.node]) if trace.nodes[i].note]
    if cuts:
        cut = trace.nodes[max(cuts)]
        how = "inside no_grad()" if cut.note == "no_grad" else f"by {cut.op} ({cut.note})"
        error.add_note(
            f"gradwalk: nothing connects the loss to a parameter: the graph was cut {how}, at "
            f"{cut.block or cut.line}. Fix: a loss of differentiable operations (cross_entropy on "
            "the logits, not a count of argmax), computed where gradients are recorded."
        )
        error.gradwalk_line = cut.block or cut.line  # type: ignore[attr-defined]
