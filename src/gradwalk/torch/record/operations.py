"""The operands of a PyTorch operation, and which of them it writes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from gradwalk.torch.translate import Known
from gradwalk.torch.values import described

aten = torch.ops.aten
DETACHES = frozenset((aten.detach.default, aten.detach_.default))
CLONE, TAKES_OUT = aten.clone.default, aten._local_scalar_dense.default
SCALES = aten._amp_update_scale_.default
NORMS = frozenset(
    (
        aten.native_batch_norm.default,
        aten.cudnn_batch_norm.default,
        aten.miopen_batch_norm.default,
    )
)


_SEVERAL = (list, tuple)


def tensors_in(given: Any) -> list[torch.Tensor]:
    """The tensors in nested arguments or results."""
    found: list[torch.Tensor] = []
    _collect(given if isinstance(given, _SEVERAL) else (given,), found)
    return found


def _collect(items: Iterable[Any], found: list[torch.Tensor]) -> None:
    for item in items:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, _SEVERAL):
            _collect(item, found)
        elif isinstance(item, dict):
            _collect(item.values(), found)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the recorder asks about an operator overload. Its schema answers slowly, so once."""

    func: Any  # keeps its `id` valid
    name: str  # "aten.add"
    short: str  # "add"
    plain: str  # the same, as names of autograd nodes are compared
    writes: tuple[tuple[int, str], ...]  # positions and names of the operands it writes to
    is_mutable: bool
    returns_view: bool
    is_blank: bool  # its result is uninitialized memory
    is_detach: bool
    is_clone: bool
    takes_out: bool  # `item()`
    scales: bool  # the update of a gradient scaler
    is_norm: bool

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The operands that a call writes to."""
        given = [args[at] if at < len(args) else kwargs.get(name) for at, name in self.writes]
        return tensors_in(given)

    def written_untold(self, args: tuple[Any, ...]) -> list[torch.Tensor]:
        """The running statistics of a batch norm, whose schema does not declare the write."""
        return tensors_in(args[3:5]) if self.is_norm and len(args) > 5 and args[5] else []


_facts: dict[int, Facts] = {}


def facts_of(func: Any) -> Facts:
    """The facts of an operator overload."""
    known = _facts.get(id(func))
    if known is None or known.func is not func:
        schema = func._schema
        short = str(schema.name).partition("::")[2]
        arguments = enumerate(schema.arguments) if schema.is_mutable else ()
        returns = schema.returns
        known = _facts[id(func)] = Facts(
            func,
            name=str(schema.name).replace("::", "."),
            short=short,
            plain=plain_name(short),
            writes=tuple((at, argument.name) for at, argument in arguments if argument.is_write),
            is_mutable=bool(schema.is_mutable),
            returns_view=bool(returns) and returns[0].alias_info is not None,
            is_blank="empty" in schema.name,
            is_detach=func in DETACHES,
            is_clone=func is CLONE,
            takes_out=func is TAKES_OUT,
            scales=func is SCALES,
            is_norm=func in NORMS,
        )
    return known


def plain_name(name: str) -> str:
    """A name as names of operations and of autograd nodes are compared."""
    return name.replace("_", "").lower()


def gives(known: Known, written: list[torch.Tensor]) -> bool:
    """Whether every written tensor is among the operands of our op."""
    return all(any(operand is tensor for operand in known.args) for tensor in written)


def plain_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The non-tensor arguments of an unknown operation, by name."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    plain = {name: value for name, value in given.items() if not tensors_in(value)}
    return {name: described(value) for name, value in plain.items() if value is not None}


def version_of(tensor: torch.Tensor) -> int:
    """The version counter of a tensor; tensors of inference mode have none."""
    return -1 if tensor.is_inference() else tensor._version
