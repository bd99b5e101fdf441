"""PyTorch's side of gradwalk's tools: what `inspect/trace/live.py` asks of a foreign engine."""

from __future__ import annotations

from typing import Any

import torch

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.doctor.observer import TorchObserver as observer
from gradwalk.torch.record.autograd_graph import inputs_first, is_leaf
from gradwalk.torch.record.freed_graphs import FREED
from gradwalk.torch.record.module_calls import ModuleNames, outermost_alive
from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.values import array_of
from gradwalk.torch.watch.active_watches import recorded_again

__all__ = [
    "adam",
    "array_of",
    "moves",
    "name_of",
    "observer",
    "randomness",
    "recorder",
    "structure_of",
    "tensor_of",
    "trace_of",
]


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


def structure_of(root: Any, keep: str | None = "stats", budget: int | None = None) -> Trace:
    """Trace the unrecorded operations behind `root`, even if its saved tensors are freed.

    Operations without an op of ours keep the names of their autograd nodes; there are no lines and
    no modules. The values of leaves, the root and saved tensors are known.
    """
    recorder = TorchRecorder(keep, budget)
    trace = recorder.trace
    trace.unrecorded = True
    recorder.edge(root)
    trace._alive.append(root)
    recorder.name_what_is_alive()
    return trace


def trace_of(root: Any, keep: str | None = None, budget: int | None = None) -> Trace:
    """Trace the operations behind `root` and its backward pass; no `.grad` changes."""
    trace = structure_of(root, keep, budget)
    recorder: TorchRecorder = trace.recorder  # type: ignore[attr-defined]
    nodes = inputs_first([root.grad_fn] if root.grad_fn is not None else [])
    leaves = [fn.variable for fn in nodes if is_leaf(fn)]
    if not leaves:
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


def adam(parameters: list[Any], rate: float) -> torch.optim.Optimizer:
    """PyTorch's Adam."""
    return torch.optim.Adam(parameters, lr=rate)


def tensor_of(array: Any) -> torch.Tensor:
    """A tensor with the elements of an array."""
    return torch.tensor(array)


def randomness() -> Randomness:
    """The states of the global generators, which `restore()` brings back."""
    devices = {torch.device("cuda", i) for i in range(torch.cuda.device_count())}
    return Randomness.now({device for device in devices if private.has_rng(device)})
