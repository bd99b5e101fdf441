"""Tensors of PyTorch as NumPy arrays, wherever they live and whatever they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradwalk.torch import private

# NumPy has no such numbers; all of them are float32 numbers too.
_AS_FLOAT32 = frozenset(
    getattr(torch, name)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)
# A complex number is two real ones: the array has one dimension more, of length 2.
_PARTS = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The numbers of a tensor; of one on this machine's memory the same memory, where possible.

    None of a tensor that has no numbers (meta and fake tensors) or whose numbers have no form in
    NumPy (quantised ones, those of a class with a `__torch_dispatch__` of its own).
    """
    if tensor.is_meta or tensor.is_quantized:
        return None
    with private.unseen():
        plain = _buffer(tensor)
        if type(plain).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            return None  # its own memory, if any, is not what it stands for
        try:
            plain = plain.detach()
            if plain.layout != torch.strided:
                plain = plain.to_dense()
            if plain.dtype in _AS_FLOAT32:
                plain = plain.to(torch.float32)
            plain = plain.cpu().resolve_conj().resolve_neg()
            if plain.dtype in _PARTS:
                plain = torch.view_as_real(plain)
            return plain.numpy(force=True)  # by force, where all are 0 and nothing is in memory
        except (RuntimeError, TypeError):  # a kind of tensor that does not lend its numbers
            return None


Form = tuple[tuple[int, ...], str]


def form_of(tensor: torch.Tensor) -> Form:
    """The shape and the dtype that the array of a tensor has, the dtype as text."""
    if not tensor.is_nested:
        return form(tuple(tensor.shape), tensor.dtype)
    with private.unseen():
        return form(tuple(_buffer(tensor).shape), tensor.dtype)


def form(shape: tuple[int, ...], dtype: torch.dtype) -> Form:
    """As `form_of`, of a tensor with this shape and dtype."""
    if dtype in _PARTS:
        shape, dtype = (*shape, 2), _PARTS[dtype]
    return shape, _texts[dtype]


class _Texts(dict[torch.dtype, str]):
    """What NumPy calls the numbers that we hold these in."""

    def __missing__(self, dtype: torch.dtype) -> str:
        self[dtype] = str(torch.float32 if dtype in _AS_FLOAT32 else dtype).removeprefix("torch.")
        return self[dtype]


_texts = _Texts()


def _buffer(tensor: torch.Tensor) -> torch.Tensor:
    """The rows of a nested tensor, one after another; any other tensor is that itself."""
    if not tensor.is_nested:
        return tensor
    rows = getattr(tensor, "_values", None)
    return rows if isinstance(rows, torch.Tensor) else tensor.values()


def described(value: Any) -> Any:
    """What was given to an operation we do not know, as plain data."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return str(value)
