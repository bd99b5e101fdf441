"""PyTorch's side of gradwalk's tools: what `inspect/trace/live.py` asks of a foreign engine."""

from __future__ import annotations

from typing import Any

import torch

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch.record.from_autograd import structure_of_tensor
from gradwalk.torch.record.from_autograd import trace_of_tensor as trace_of
from gradwalk.torch.record.module_calls import ModuleNames, outermost_alive
from gradwalk.torch.record.recorder import TorchRecorder
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


def moves(optimizer: Any, gradients: dict[Any, Any]) -> dict[Any, float]:
    """The norm of the next update of each parameter, without making it, given gradients (arrays).

    The optimizer's own step runs on copies. An optimizer that needs more than gradients (LBFGS), or
    that cannot be rebuilt from its groups, gives an empty result.
    """
    copies: dict[Any, torch.Tensor] = {}
    groups = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            copies[parameter] = torch.nn.Parameter(parameter.detach().clone())
            if parameter in gradients:
                given = torch.as_tensor(gradients[parameter]).to(parameter)
                copies[parameter].grad = given.reshape(parameter.shape)
        groups.append({**group, "params": [copies[p] for p in group["params"]]})
    try:
        twin = type(optimizer)(groups)
        twin.load_state_dict(optimizer.state_dict())
        twin.step()
    except (TypeError, ValueError, RuntimeError):
        return {}
    with torch.no_grad():
        return {
            parameter: float((copies[parameter] - parameter).double().norm())
            for parameter in gradients
            if parameter in copies
        }
