"""One interface to live tensors of gradwalk and PyTorch; it never imports PyTorch.

Tools read attributes that both have (`grad_fn`, `requires_grad`, `is_leaf`) directly.
"""

from __future__ import annotations

from typing import Any, Protocol

from gradwalk.engine.foreign import loaders


class Guest(Protocol):
    """What another engine provides for the tools; for PyTorch it is torch/guest.py."""

    def array_of(self, tensor: Any) -> Any:
        """The elements of one of its tensors as an array."""

    def trace_of(self, root: Any, keep: str | None, budget: int | None) -> Any:
        """Trace the unrecorded graph behind a tensor and its backward pass."""

    def structure_of(self, root: Any) -> Any:
        """The same without values, even if backward has freed the graph."""

    def name_of(self, tensor: Any) -> str:
        """The name of a parameter in its model; "" if it is in none."""

    def recorder(self, budget: int | None) -> Any:
        """A recorder of the engine's operations and of ours."""

    def moves(self, optimizer: Any, gradients: dict[Any, Any]) -> dict[Any, float]:
        """How far a step of its optimizer would move each parameter."""


def guest() -> Guest:
    """PyTorch's side of the tools."""
    found: Guest = loaders["torch"]()
    return found


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
    """The array of a Tensor of either engine; None for anything else."""
    if is_torch_tensor(thing):
        return guest().array_of(thing)
    return getattr(thing, "_array", None)


def gradient_of(thing: Any) -> Any:
    """The `.grad` of a Tensor as an array."""
    if is_torch_tensor(thing):  # PyTorch warns when a non-leaf is asked for it
        return numbers_of(thing.grad) if thing.is_leaf or thing.retains_grad else None
    return numbers_of(getattr(thing, "_grad", None))
