"""The gradients of an optimizer, their norms and whether they are finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradwalk.engine.modes import state
from gradwalk.torch import private


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """Yield every parameter of an optimizer."""
    for group in optimizer.param_groups:
        yield from group["params"]


def gradients_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients of an optimizer's parameters, without the missing ones."""
    groups = optimizer.param_groups
    return [g for group in groups for p in group["params"] if (g := p.grad) is not None]


def unrecorded() -> AbstractContextManager[Any]:
    """Keep operations of our own out of a recording of the program."""
    recording = state.here.watcher
    return recording.silence() if hasattr(recording, "silence") else nullcontext()


_PLAIN_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))


def is_distributed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a DTensor, divided over ranks."""
    return type(tensor) not in _PLAIN_TENSORS and hasattr(tensor, "to_local")


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor on this rank: no collective; a plain tensor itself."""
    return tensor.to_local() if is_distributed(tensor) else tensor  # type: ignore[attr-defined]


def norm_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The norm of all tensors together, as a tensor: it does not wait for the device."""
    if not _PLAIN_TENSORS.issuperset(map(type, tensors)):
        tensors = [local_part(tensor) for tensor in tensors]
    with unrecorded():
        return private.total_norm(tensors)


def exact_norm(tensors: Sequence[torch.Tensor]) -> float:
    """The same in float64 on the CPU: squares of float32 can overflow."""
    norms = [
        torch.linalg.vector_norm(elements(t.detach()).to("cpu", torch.float64)).item()
        for t in tensors
    ]
    return math.hypot(*norms)


def numbers_in(tensors: list[torch.Tensor]) -> list[float]:
    """The numbers in tensors of one element, with one wait for the device."""
    if all(tensor.is_cpu for tensor in tensors):
        return [float(tensor.item()) for tensor in tensors]
    device = next(t.device for t in tensors if t.device.type != "cpu")
    gathered = [t.detach().reshape(()).to(device, torch.float32) for t in tensors]
    return list(torch.stack(gathered).tolist())


def elements(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor; of a sparse one the stored elements, of a divided one its part."""
    tensor = local_part(tensor)
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is NaN or inf."""
    return bool(torch.isfinite(elements(tensor.detach())).all())


def is_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler tells a fused optimizer to skip this step."""
    told = getattr(optimizer, "found_inf", None)
    return isinstance(told, torch.Tensor) and bool(told.item())


def scale_of(optimizer: torch.optim.Optimizer) -> float:
    """The scale that the gradients of a fused optimizer still carry."""
    told = getattr(optimizer, "grad_scale", None)
    return float(told.item()) if isinstance(told, torch.Tensor) else 1.0
