"""PyTorch tensors of any device and dtype as NumPy arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from gradwalk.torch import private
from gradwalk.torch.private_distributed import memory_may_be_freed

# NumPy lacks these dtypes; float32 represents all their values.
_AS_FLOAT32 = frozenset(
    getattr(torch, name)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)
# A complex array gets one more dimension, of length 2.
_PARTS = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


ORDINARY = frozenset((torch.Tensor, torch.nn.Parameter))
_TEXTS = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16,
        torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip


def quick_array(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The elements of an ordinary CPU tensor as an array that shares its memory; else None.

    PyTorch detaches the tensor for it, which a mode of the program must not see.
    """
    if memory_may_be_freed():
        return None
    if type(tensor) in ORDINARY and tensor.dtype in _TEXTS and private.no_modes():
        try:
            return (tensor.data if tensor.requires_grad else tensor).numpy()
        except (RuntimeError, TypeError):  # on another device, sparse, nested, negated, ...
            pass
    return None


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The elements of a tensor as an array, sharing memory with a CPU tensor where possible.

    None for tensors without elements (meta and fake tensors) or without a NumPy form (quantized
    ones, subclasses with a `__torch_dispatch__`).
    """
    quick = quick_array(tensor)
    if quick is not None:
        return quick
    if tensor.is_meta or tensor.is_quantized:
        return None
    with private.unseen():
        plain = _buffer(tensor)
        if type(plain).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            return None  # its own memory, if any, does not hold its values
        try:
            plain = plain.detach()
            if plain.is_cpu and memory_may_be_freed():
                plain = plain.clone()
            if plain.layout != torch.strided:
                plain = plain.to_dense()
            if plain.dtype in _AS_FLOAT32:
                plain = plain.to(torch.float32)
            plain = plain.cpu().resolve_conj().resolve_neg()
            if plain.dtype in _PARTS:
                plain = torch.view_as_real(plain)
            return plain.numpy(force=True)  # force: it may be all zeros without memory
        except (RuntimeError, TypeError):  # a tensor type without access to its elements
            return None


Form = tuple[tuple[int, ...], str]


def form_of(tensor: torch.Tensor) -> Form:
    """The shape and the dtype, as text, of a tensor's array."""
    text = _TEXTS.get(tensor.dtype)
    if text is not None and not tensor.is_nested:
        return tuple(tensor.shape), text
    if not tensor.is_nested:
        return form(tuple(tensor.shape), tensor.dtype)
    with private.unseen():
        return form(tuple(_buffer(tensor).shape), tensor.dtype)


def form(shape: tuple[int, ...], dtype: torch.dtype) -> Form:
    """As `form_of`, for a given shape and dtype."""
    if dtype in _PARTS:
        shape, dtype = (*shape, 2), _PARTS[dtype]
    return shape, _text(dtype)


@functools.cache
def _text(dtype: torch.dtype) -> str:
    """NumPy's name of the dtype that we keep PyTorch's in."""
    return str(torch.float32 if dtype in _AS_FLOAT32 else dtype).removeprefix("torch.")


def _buffer(tensor: torch.Tensor) -> torch.Tensor:
    """The concatenated rows of a nested tensor; any other tensor itself."""
    if not tensor.is_nested:
        return tensor
    rows = getattr(tensor, "_values", None)
    return rows if isinstance(rows, torch.Tensor) else tensor.values()


def described(value: Any) -> Any:
    """Arguments of an unknown operation as plain data."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return str(value)
