"""Translate PyTorch's operations to ops of our table.

The operations are ATen's, as a dispatch mode sees them and `torch.export` writes them. Each file
has the entries of one theme. A call without a matching entry translates to None: it stays an opaque
node, with a value and gradients but without a formula.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from gradwalk.nn import composites  # noqa: F401, a call may translate to one
from gradwalk.ops import TABLE as OPS
from gradwalk.torch.translate import (  # noqa: F401, each registers its entries
    arithmetic,
    backward,
    factories,
    indexing,
    layers,
    matrices,
    pairs,
    reductions,
    shapes,
)
from gradwalk.torch.translate.table import (
    COMPLEX,
    LEAF,
    ON_PAIRS,
    TABLE,
    AtenCall,
    Entry,
    Known,
    Made,
    is_integer,
    is_plain,
)

__all__ = ["LEAF", "TABLE", "Known", "Made", "entry_name", "is_known", "translate"]


@functools.cache
def entry_name(func: Any) -> str:
    """The entry of an overload; the in-place `add_.Tensor` has that of `add.Tensor`."""
    name, overload = func._schema.name.removeprefix("aten::"), func._overloadname
    if f"{name}.{overload}" in TABLE or f"{name}.{overload}" in ON_PAIRS:
        return f"{name}.{overload}"
    in_place = name.endswith("_") and not name.endswith("__")
    return f"{name[:-1] if in_place else name}.{overload}"


def is_known(func: Any) -> bool:
    """Whether some calls of an overload have a translation."""
    return entry_name(func) in TABLE or entry_name(func) in ON_PAIRS


_SEVERAL = (list, tuple)
# Overloads, by id, and their entries: for real operands, and for complex ones.
_rules: dict[int, tuple[Any, Entry | None, Entry | None]] = {}


def translate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Known | None:
    """Translate a call of an overload (`torch.ops.aten.add.Tensor`); None if no op of ours matches.

    Its arguments are the tensors of the call themselves, so that edges stay distinct.
    """
    rule = _rules.get(id(func))
    if rule is None or rule[0] is not func:
        name = entry_name(func)
        rule = _rules[id(func)] = func, TABLE.get(name), ON_PAIRS.get(name)
    found = rule[1]
    if found is None and rule[2] is None:
        return None
    for value in (*args, *kwargs.values()) if kwargs else args:
        for tensor in value if isinstance(value, _SEVERAL) else (value,):
            if isinstance(tensor, torch.Tensor) and not is_plain(tensor):
                if tensor.dtype not in COMPLEX or tensor.layout is not torch.strided:
                    return None
                found = rule[2]
    try:
        known = None if found is None else found(AtenCall(func, args, kwargs))
    except (IndexError, ValueError):  # an axis that is not there: PyTorch's own error says so
        return None
    if known is None or known.op == LEAF:
        return known
    if OPS[known.op].to_float and any(is_integer(argument) for argument in known.args):
        # another dtype would need a cast, which is another node
        return known if known.op == "div" else None
    return known
