"""The gradients of an optimizer's parameters, looked at quickly or exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradwalk.engine.modes import state
from gradwalk.torch import private


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """All that an optimizer moves."""
    for group in optimizer.param_groups:
        yield from group["params"]


def gradients_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients there are."""
    groups = optimizer.param_groups
    return [g for group in groups for p in group["params"] if (g := p.grad) is not None]


def unrecorded() -> AbstractContextManager[Any]:
    """What happens inside is ours: a recording of the program leaves it out."""
    recording = state.here.watcher
    return recording.silence() if hasattr(recording, "silence") else nullcontext()


def length_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The length of all tensors together, not waited for."""
    if state.here.watcher is None:
        return private.total_norm(tensors)
    with unrecorded():
        return private.total_norm(tensors)


def exact_length(tensors: Sequence[torch.Tensor]) -> float:
    """The same in double precision on the CPU: the squares of float32 may overflow."""
    lengths = [
        torch.linalg.vector_norm(elements(t.detach()).to("cpu", torch.float64)).item()
        for t in tensors
    ]
    return math.hypot(*lengths)


def numbers_in(tensors: list[torch.Tensor]) -> list[float]:
    """What tensors of one element hold; a device is waited for once."""
    if all(tensor.is_cpu for tensor in tensors):
        return [float(tensor.item()) for tensor in tensors]
    device = next(t.device for t in tensors if t.device.type != "cpu")
    gathered = [t.detach().reshape(()).to(device, torch.float32) for t in tensors]
    return list(torch.stack(gathered).tolist())


def elements(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor holds; of a sparse one what is not left out."""
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is NaN or inf."""
    return bool(torch.isfinite(elements(tensor.detach())).all())


def is_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler has told a fused optimizer to leave this step out."""
    told = getattr(optimizer, "found_inf", None)
    return isinstance(told, torch.Tensor) and bool(told.item())


def scale_of(optimizer: torch.optim.Optimizer) -> float:
    """What the gradients of a fused optimizer are still multiplied by."""
    told = getattr(optimizer, "grad_scale", None)
    return float(told.item()) if isinstance(told, torch.Tensor) else 1.0
