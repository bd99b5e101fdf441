"""PyTorch's side of gradwalk's tools: what `inspect/trace/live.py` asks of a foreign engine."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch.record.from_autograd import structure_of_tensor
from gradwalk.torch.record.from_autograd import trace_of_tensor as trace_of
from gradwalk.torch.record.module_calls import ModuleNames, outermost_alive
from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.update_sizes import moves
from gradwalk.torch.values import array_of

__all__ = ["array_of", "moves", "name_of", "recorder", "structure_of", "trace_of"]


def recorder(budget: int | None) -> TorchRecorder:
    """A recorder of PyTorch's operations and of ours."""
    return TorchRecorder(budget=budget)


def name_of(tensor: Any) -> str:
    """The name of a parameter in a live model; "" if it is in none."""
    names = ModuleNames()
    for module in outermost_alive():
        for _ in names.give(module):  # names are assigned on demand
            pass
    return names.of(tensor) or ""


def structure_of(root: Any) -> Trace:
    """The operations behind a tensor, without values."""
    return structure_of_tensor(root, "stats")
