"""One interface to live tensors of gradwalk and PyTorch; it never imports PyTorch.

Tools read attributes that both have (`grad_fn`, `requires_grad`, `is_leaf`) directly.
"""

from __future__ import annotations

from typing import Any

from gradwalk.engine.guest_loaders import loaders


def guest() -> Any:
    """PyTorch's side of the tools: the module torch/guest.py."""
    return loaders["torch"]()


def is_torch_tensor(thing: Any) -> bool:
    """Whether a thing is a PyTorch tensor or of a subclass.

    >>> is_torch_tensor(1.0)
    False
    """
    return any(c.__name__ == "Tensor" and c.__module__ == "torch" for c in type(thing).__mro__)


def is_tensor(thing: Any) -> bool:
    """Whether a thing is a Tensor, of either engine.

    >>> import gradwalk as gw
    >>> is_tensor(gw.ones(2)), is_tensor(gw.Value(1.0))
    (True, False)
    """
    return hasattr(thing, "_array") or is_torch_tensor(thing)


def numbers_of(thing: Any) -> Any:
    """The array of a Tensor of either engine, copied if it is on a device; None for anything
    else."""
    if is_torch_tensor(thing):
        return guest().array_of(thing)
    array: Any = getattr(thing, "_array", None)
    return array.numbers("a tool") if getattr(array, "on_device", False) else array


def memory_of(thing: Any) -> Any:
    """The array of a Tensor of either engine where it is, to ask what shares its memory."""
    return guest().array_of(thing) if is_torch_tensor(thing) else getattr(thing, "_array", None)


def gradient_of(thing: Any) -> Any:
    """The `.grad` of a Tensor as an array."""
    if is_torch_tensor(thing):  # PyTorch warns when a non-leaf is asked for it
        return numbers_of(thing.grad) if thing.is_leaf or thing.retains_grad else None
    return numbers_of(getattr(thing, "_grad", None))
