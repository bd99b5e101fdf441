"""Trace the autograd graph behind a tensor that was not recorded.

Operations without an op of ours keep the names of their autograd nodes; there are no lines and no
modules. The values of leaves, the root and saved tensors are known.
"""

from __future__ import annotations

import torch

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.record.autograd_graph import inputs_first, is_leaf
from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.watch.watch import recorded_again

FREED = "backward through the graph a second time"


def trace_of_tensor(
    root: torch.Tensor, keep: str | None = None, budget: int | None = None
) -> Trace:
    """Trace the operations behind `root` and its backward pass; no `.grad` changes."""
    trace = structure_of_tensor(root, keep, budget)
    recorder: TorchRecorder = trace.recorder  # type: ignore[attr-defined]
    leaves = [fn.variable for fn in inputs_first([root.grad_fn]) if is_leaf(fn)]
    if root.grad_fn is None or not leaves:
        return trace
    try:
        with private.told_of_backward(recorder._around_backward):
            torch.autograd.grad(
                root, leaves, torch.ones_like(root), retain_graph=True, allow_unused=True
            )
    except RuntimeError as error:
        if FREED not in str(error):
            raise
        again = recorded_again(root)
        if again is not None:
            return again
        raise AutogradError(
            "backward() has freed the graph behind this loss. Fix: ask before backward(), or "
            "call backward(retain_graph=True), or compute inside `with gradwalk.torch.record():`; "
            "under gradwalk.torch.watch(model, optimizer), ask between backward() and step()"
        ) from error
    return trace


def structure_of_tensor(
    root: torch.Tensor, keep: str | None = None, budget: int | None = None
) -> Trace:
    """Trace the operations behind `root`, even if its saved tensors are freed."""
    recorder = TorchRecorder(keep, budget)
    trace = recorder.trace
    trace.unrecorded = True
    recorder.edge(root)
    trace._alive.append(root)
    recorder.name_what_is_alive()
    return trace
