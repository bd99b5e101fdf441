"""PyTorch's `overrides`, for functions that ask whether an argument takes over: none does here.

>>> import gradwalk as gw
>>> gw.overrides.has_torch_function((gw.ones(1),)), gw.overrides.is_tensor_like(gw.ones(1))
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gradwalk.tensors.tensor import Tensor

__all__ = ["handle_torch_function", "has_torch_function", "is_tensor_like"]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """False: there is no `__torch_function__`."""
    return False


def has_torch_function_unary(obj: Any) -> bool:
    """False: there is no `__torch_function__`."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """False: there is no `__torch_function__`."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The function of the arguments."""
    return public_api(*args, **kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor."""
    return isinstance(inp, Tensor)
