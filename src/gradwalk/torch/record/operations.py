"""The operands of a PyTorch operation, and which of them it writes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gradwalk.torch.translate import Known
from gradwalk.torch.values import described

aten = torch.ops.aten
NORMS = frozenset(
    (
        aten.native_batch_norm.default,
        aten.cudnn_batch_norm.default,
        aten.miopen_batch_norm.default,
    )
)


def tensors_in(given: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested arguments or results."""
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, list | tuple):
        for item in given:
            yield from tensors_in(item)
    elif isinstance(given, dict):
        for item in given.values():
            yield from tensors_in(item)


def written_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The operands that an operation writes to."""
    if not func._schema.is_mutable:
        return
    for position, argument in enumerate(func._schema.arguments):
        if argument.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from tensors_in(given)


def written_untold(func: Any, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """The running statistics of a batch norm, whose schema does not declare the write."""
    if func in NORMS and len(args) > 5 and args[5]:
        yield from tensors_in(args[3:5])


def gives(known: Known, written: list[torch.Tensor]) -> bool:
    """Whether every written tensor is among the operands of our op."""
    return all(any(operand is tensor for operand in known.args) for tensor in written)


def plain_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The non-tensor arguments of an unknown operation, by name."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    plain = {name: value for name, value in given.items() if not list(tensors_in(value))}
    return {name: described(value) for name, value in plain.items() if value is not None}


def version_of(tensor: torch.Tensor) -> int:
    """The version counter of a tensor; tensors of inference mode have none."""
    return -1 if tensor.is_inference() else tensor._version
