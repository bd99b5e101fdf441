"""PyTorch's `_foreach_...` functions, which optimizers call: a method on each tensor of a list."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradwalk.tensors.tensor import Tensor

_FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_OPERANDS = {"addcmul": 2, "addcdiv": 2}


@functools.cache
def foreach(name: str) -> Callable[..., Any]:
    """The function that calls the method `name` of every tensor of a list.

    Operands are lists, with one for each tensor, or numbers and tensors for all of them.

    >>> import gradwalk as gw
    >>> gw._foreach_mul([gw.ones(2), gw.ones(1)], [2, 3])
    [tensor([2., 2.]), tensor([3.])]
    """
    method = _norm if name == "norm" else getattr(Tensor, name)
    plain = name.removesuffix("_")

    def each(tensors: Any, *operands: Any, **options: Any) -> Any:
        count = _OPERANDS.get(plain, 1)
        if plain in _FACTORS and len(operands) > count:  # the factor, by position
            operands, factor = operands[:count], operands[count]
            options[_FACTORS[plain]] = factor
        if plain in _OPERANDS and "scalars" in options:
            options["value"] = options.pop("scalars")
        size = len(tensors)
        rows = zip(*(_spread(operand, size) for operand in operands), strict=True)
        named = {key: _spread(value, size) for key, value in options.items()}
        return [
            method(tensor, *row, **{key: value[i] for key, value in named.items()})
            for i, (tensor, row) in enumerate(zip(tensors, rows if operands else [()] * size))
        ]

    each.__name__ = f"_foreach_{name}"
    return each


def _norm(tensor: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return tensor.norm(ord, dtype=dtype)


def _spread(operand: Any, size: int) -> Any:
    return operand if isinstance(operand, (list, tuple)) else [operand] * size
