"""The gradients of an optimizer, their norms and whether they are finite."""

from __future__ import annotations

import functools
import math
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradwalk.engine.modes import state
from gradwalk.torch.private_foreach import TotalNorm


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


def are_plain(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether no tensor is of a subclass, such as DTensor."""
    return _PLAIN_TENSORS.issuperset(map(type, tensors))


def is_distributed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a DTensor, divided over ranks."""
    return type(tensor) not in _PLAIN_TENSORS and hasattr(tensor, "to_local")


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor on this rank: no collective; a plain tensor itself."""
    return tensor.to_local() if is_distributed(tensor) else tensor  # type: ignore[attr-defined]


def norm_of(
    tensors: Sequence[torch.Tensor], total: TotalNorm | None = None
) -> torch.Tensor | float:
    """The norm of all tensors together: a tensor, so as not to wait for a device.

    A number if all are plain tensors on the CPU. `total` is for the same tensors step after step.
    """
    norm = _norm_here(tensors)
    if norm is not None:
        return norm
    if not are_plain(tensors):
        tensors = [local_part(tensor) for tensor in tensors]
    with unrecorded():
        return (total or TotalNorm()).of(tensors)


_kind_of = operator.attrgetter("__class__", "is_cpu", "dtype")
_ITEMSIZES = {
    (kind, True, dtype): dtype.itemsize
    for kind in _PLAIN_TENSORS
    for dtype in (torch.float32, torch.float64)
}


def _norm_here(tensors: Sequence[torch.Tensor]) -> float | None:
    """The norm of contiguous tensors on the CPU, by native code; None for any others."""
    kinds = set(map(_kind_of, tensors))
    itemsize = _ITEMSIZES.get(kinds.pop()) if len(kinds) == 1 else None
    if itemsize is None or not all(map(torch.Tensor.is_contiguous, tensors)):
        return None
    native = _sum_of_squares(itemsize)
    if native is None:
        return None
    places = array("q", map(torch.Tensor.data_ptr, tensors))
    sizes = array("q", map(torch.Tensor.numel, tensors))
    return math.sqrt(native(places.buffer_info()[0], sizes.buffer_info()[0], len(tensors)))


@functools.cache
def _sum_of_squares(itemsize: int) -> Callable[[int, int, int], float] | None:
    from gradwalk.compiler.backends.llvm.runtime.sum_of_squares import sum_of_squares

    return sum_of_squares(itemsize)


def exact_norm(tensors: Sequence[torch.Tensor]) -> float:
    """The same in float64 on the CPU: squares of float32 can overflow."""
    norms = [
        torch.linalg.vector_norm(elements(t.detach()).to("cpu", torch.float64)).item()
        for t in tensors
    ]
    return math.hypot(*norms)


def numbers_in(numbers: list[torch.Tensor | float]) -> list[float]:
    """Numbers, some of them in tensors of one element, with one wait for their device."""
    elsewhere = [t for t in numbers if isinstance(t, torch.Tensor) and not t.is_cpu]
    if not elsewhere:
        return list(map(float, numbers))
    device = elsewhere[0].device
    gathered = [torch.as_tensor(n).detach().reshape(()).to(device, torch.float32) for n in numbers]
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
