"""Live tensors of either engine, gradwalk's or PyTorch's, asked alike; PyTorch is never imported.

What both have under one name (`grad_fn`, `requires_grad`, `is_leaf`) is asked of them directly.
"""

from __future__ import annotations

from typing import Any, Protocol

from gradwalk.engine.foreign import loaders


class Guest(Protocol):
    """What another engine does for the tools; of PyTorch it is gradwalk/torch/guest.py."""

    def array_of(self, tensor: Any) -> Any:
        """The numbers of a tensor of its, as an array."""

    def trace_of(self, root: Any, keep: str | None, budget: int | None) -> Any:
        """The graph behind a tensor that nobody recorded, and its backward pass."""

    def structure_of(self, root: Any) -> Any:
        """The same without numbers, also of a graph that backward has used up."""

    def name_of(self, tensor: Any) -> str:
        """What a parameter is called in its model, "" if it is in none."""

    def recorder(self, budget: int | None) -> Any:
        """A recorder of what the engine computes, and of what ours does."""

    def moves(self, optimizer: Any, gradients: dict[Any, Any]) -> dict[Any, float]:
        """How far a step of an optimizer of its would move each parameter."""


def guest() -> Guest:
    """PyTorch's side of the tools."""
    found: Guest = loaders["torch"]()
    return found


def is_torch_tensor(thing: Any) -> bool:
    """Whether a thing is a tensor of PyTorch, or of a class made of it.

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
    """The array of a Tensor of either engine; None of anything else."""
    if is_torch_tensor(thing):
        return guest().array_of(thing)
    return getattr(thing, "_array", None)


def gradient_of(thing: Any) -> Any:
    """What a Tensor holds in `.grad`, as an array."""
    if is_torch_tensor(thing):  # which warns if asked for what it does not keep
        return numbers_of(thing.grad) if thing.is_leaf or thing.retains_grad else None
    return numbers_of(getattr(thing, "_grad", None))
