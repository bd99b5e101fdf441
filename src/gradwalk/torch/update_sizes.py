"""How far one step of a PyTorch optimizer would move its parameters, without making it."""

from __future__ import annotations

from typing import Any

import torch


def moves(optimizer: Any, gradients: dict[Any, Any]) -> dict[Any, float]:
    """The norm of the next update of each parameter, given these gradients (arrays).

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
