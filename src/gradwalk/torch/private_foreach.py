"""Everything private of PyTorch that works on lists of tensors: norms and copies of many at once.

`watch` does this in every step, so what can be prepared is prepared once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from gradwalk.torch.private import missing

# Elements: copying smaller tensors into one vector is faster than one norm for each.
_LARGE, _LARGE_ON_A_DEVICE = 1 << 14, 1 << 25
_kind_of = operator.attrgetter("device", "dtype", "layout")


class TotalNorm:
    """The norm of many tensors together, step after step, and afterwards the norm of each."""

    def __init__(self) -> None:
        self._sizes: tuple[int, ...] = ()  # of the last tensors
        self._large: list[int] = []  # their positions
        self._small: list[int] = []
        self._vector: torch.Tensor | None = None  # copies of the small ones, one behind another
        self._norms: list[torch.Tensor] = []  # of the large ones; of all if nothing is copied

    def of(self, tensors: Sequence[torch.Tensor], dtype: torch.dtype | None = None) -> torch.Tensor:
        """The norm of all, without waiting; NaN or inf if any element is.

        A given `dtype` is that of the sums.
        """
        sizes = tuple(map(torch.Tensor.numel, tensors))
        if sizes != self._sizes:
            self._divide(sizes, tensors[0].is_cpu)
        with torch.no_grad():
            self._vector = _flat([tensors[k] for k in self._small]) if self._small else None
            if self._vector is None:
                self._norms = each_norm(tensors, dtype)
                return torch.linalg.vector_norm(stacked(self._norms))
            wide = dtype or _wide(self._vector.dtype)
            norm = torch.linalg.vector_norm(self._vector, dtype=wide)
            if not self._large:
                return norm
            self._norms = each_norm([tensors[k] for k in self._large], dtype)
            return torch.linalg.vector_norm(stacked([norm, *self._norms]))

    def of_each(self) -> list[float]:
        """The norm of each tensor that `of` was given last. This waits for the device."""
        if self._vector is None:
            return list(stacked(self._norms).tolist())
        parts = torch.split(self._vector, [self._sizes[k] for k in self._small])
        each = dict(zip(self._small, stacked(each_norm(parts, torch.float64)).tolist()))
        if self._large:
            each.update(zip(self._large, stacked(self._norms).tolist()))
        return [each[k] for k in range(len(each))]

    def _divide(self, sizes: tuple[int, ...], on_the_cpu: bool) -> None:
        """Decide which tensors to copy. A device has few launches to spare: all, or none."""
        self._sizes, several = sizes, range(len(sizes))
        few = sum(sizes) <= _LARGE_ON_A_DEVICE
        self._small = [k for k in several if (sizes[k] <= _LARGE if on_the_cpu else few)]
        self._large = [k for k in several if k not in set(self._small)]


def _flat(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """The elements of all tensors; None if some are sparse, or not on the same device."""
    try:
        flat: torch.Tensor = torch._C._nn.flatten_dense_tensors(tensors)
    except AttributeError:
        raise missing("torch._C._nn.flatten_dense_tensors") from None
    except RuntimeError:
        return None
    return flat


def _are_dense_and_alike(tensors: Sequence[torch.Tensor]) -> bool:
    kinds = set(map(_kind_of, tensors))
    return len(kinds) == 1 and next(iter(kinds))[2] == torch.strided


def each_norm(
    tensors: Sequence[torch.Tensor], dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """The norm of each tensor, in order, without waiting; of a sparse one, of what it stores.

    A given `dtype` is that of the sums.
    """
    if _are_dense_and_alike(tensors):
        return _norms(tensors, dtype)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    dense = [tensor._values() if tensor.is_sparse else tensor for tensor in tensors]
    for position, tensor in enumerate(dense):
        groups.setdefault((tensor.device, tensor.dtype), []).append(position)
    norms: dict[int, torch.Tensor] = {}
    for positions in groups.values():
        norms.update(zip(positions, _norms([dense[position] for position in positions], dtype)))
    return [norms[position] for position in range(len(dense))]


def _norms(tensors: Sequence[torch.Tensor], dtype: torch.dtype | None) -> list[torch.Tensor]:
    try:
        return list(torch._foreach_norm(tensors, 2, dtype=dtype or _wide(tensors[0].dtype)))  # type: ignore[arg-type]
    except AttributeError:
        raise missing("torch._foreach_norm") from None


def stacked(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one number each as one vector, on the device and in the dtype of the first."""
    first = numbers[0]
    if not _are_dense_and_alike(numbers):
        numbers = [number.to(first.device, first.dtype) for number in numbers]
    return torch.stack(list(numbers))


def _wide(dtype: torch.dtype) -> torch.dtype | None:
    """Widen half precision: its sum of squares overflows at harmless sizes."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else None


def copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy tensors of one device and dtype, without waiting."""
    try:
        torch._foreach_copy_(targets, sources, non_blocking=True)  # type: ignore[arg-type]
    except AttributeError:
        raise missing("torch._foreach_copy_") from None


BLANK = -0.0  # −0.0 + x is x, also where x is −0.0


def copy_all_unless(
    is_one: torch.Tensor, targets: list[torch.Tensor], sources: list[torch.Tensor]
) -> None:
    """Copy tensors unless a number on their device is 1: the device decides, nobody waits.

    The targets must be `BLANK`. Of the operations that a device can skip, this one adds a multiple
    of other tensors: a step of SGD, which an overflow may cancel.
    """
    try:
        torch._fused_sgd_(
            targets,
            sources,
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=-1.0,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
            found_inf=is_one,
        )
    except AttributeError:
        raise missing("torch._fused_sgd_") from None
