"""PyTorch's side of gradwalk's tools: what `inspect/live.py` asks of an engine that is not ours."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.trace import Trace
from gradwalk.torch.recorder import TorchRecorder
from gradwalk.torch.unrecorded import structure_of_tensor
from gradwalk.torch.unrecorded import trace_of_tensor as trace_of
from gradwalk.torch.updates import moves
from gradwalk.torch.values import array_of

__all__ = ["array_of", "moves", "recorder", "structure_of", "trace_of"]


def recorder(budget: int | None) -> TorchRecorder:
    """Of PyTorch's operations and of ours."""
    return TorchRecorder(budget=budget)


def structure_of(root: Any) -> Trace:
    """The operations behind a tensor, without any numbers."""
    return structure_of_tensor(root, "stats")
