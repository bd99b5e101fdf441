"""Tensors of PyTorch as NumPy arrays, wherever they live and whatever they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

# NumPy has no such numbers; all of them are float32 numbers too.
_AS_FLOAT32 = frozenset(
    getattr(torch, name)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The numbers of a tensor; of one on this machine's memory the same memory, where possible.

    None of a tensor that has no numbers (meta and fake tensors) or whose numbers have no form in
    NumPy (quantised ones).
    """
    if tensor.is_meta or tensor.is_quantized or type(tensor).__name__ == "FakeTensor":
        return None
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.dtype in _AS_FLOAT32:
        plain = plain.to(torch.float32)
    return plain.cpu().resolve_conj().resolve_neg().numpy()


def dtype_text(tensor: torch.Tensor) -> str:
    """The dtype the array of a tensor has, as text."""
    if tensor.dtype in _AS_FLOAT32:
        return "float32"
    return str(tensor.dtype).removeprefix("torch.")


def described(value: Any) -> Any:
    """What was given to an operation we do not know, as plain data."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return str(value)
