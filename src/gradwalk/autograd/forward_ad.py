"""PyTorch's `autograd.forward_ad`: tensors that carry a tangent through ordinary code.

A dual tensor is recorded like one that needs a gradient; `unpack_dual` pushes the tangents over
what was recorded since, as `func.jvp` does. Inside `no_grad` nothing is recorded, so tangents end
there.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.jvp import push
from gradwalk.engine.modes import dual_level as level_here
from gradwalk.engine.modes import enable_grad, state
from gradwalk.engine.transforms import changeable
from gradwalk.graph.order import inputs_first
from gradwalk.ops.shape.reshaping import alias

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns."""

    primal: Any
    tangent: Any


class _Level:
    """The dual tensors that were made at a level: where each starts in the graph, its tangent, and
    whether its tensor had a graph of its own."""

    def __init__(self) -> None:
        self.starts: list[Any] = []
        self.tangents: list[Any] = []
        self.own: set[Any] = set()  # leaves that stand for tensors without a graph

    def tied(self, tensors: list[Any]) -> bool:
        """Whether one of the tensors leads to something besides the stand-ins."""
        roots = [t.grad_fn or t for t in tensors if t.requires_grad]
        return any(not n.inputs and n not in self.own for n in inputs_first(roots))


def enter_dual_level() -> int:
    """Begin a level, in which there may be dual tensors; it is the number of it, 0."""
    if level_here.get() is not None:
        raise RuntimeError(
            "a dual level inside another one is not supported. Fix: nest gradwalk.func.jvp, which "
            "may be nested."
        )
    level_here.set(_Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; the tangents of its tensors are forgotten."""
    if level_here.get() is None or level not in (None, 0):
        raise RuntimeError(f"exit_dual_level: there is no dual level {level or 0} to exit")
    level_here.set(None)


class dual_level:
    """A `with` block in which there may be dual tensors.

    >>> import gradwalk as gw
    >>> from gradwalk.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(gw.tensor(3.0), gw.tensor(1.0))
    ...     forward_ad.unpack_dual(x**2).tangent
    tensor(6.)
    """

    def __enter__(self) -> Self:
        enter_dual_level()
        return self

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor as one that moves along `tangent`; what is computed from it moves too."""
    here: _Level | None = level_here.get()
    if here is None or level not in (None, 0):
        raise RuntimeError("make_dual is called inside `with dual_level():`")
    if tuple(tangent.shape) != tuple(tensor.shape):
        raise ValueError(
            f"make_dual: the tensor has shape {tuple(tensor.shape)} and the tangent "
            f"{tuple(tangent.shape)}; they must be equal"
        )
    if not state.here.grad_enabled:
        raise AutogradError(
            "make_dual inside no_grad: forward mode follows what is recorded, and nothing is.\n"
            "Fix: make_dual outside, or under enable_grad()."
        )
    if tensor.requires_grad and push([tensor], here.starts, here.tangents)[0] is not None:
        raise RuntimeError("make_dual of a tensor that has a tangent already is not supported")
    if not tensor.requires_grad:
        fresh = gradients.wrap(tensor._shared())
        fresh._keeps_layout = True  # on the memory of the tensor
        tensor = fresh.requires_grad_()  # raises for integers
        here.own.add(tensor)
        dual = changeable(tensor)
    else:
        dual = alias(tensor)
    # Not the tensor itself: a change in place moves it on in the graph.
    here.starts.append(gradients.wrap(dual._array, dual._node, dual._index))
    here.tangents.append(tangent.to(tensor.dtype))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor, and how it moves; None if it does not depend on a dual tensor."""
    here: _Level | None = level_here.get()
    if here is None or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        (tangent,) = push([tensor], here.starts, here.tangents)
    primal = alias(tensor) if here.tied([tensor]) else tensor.detach()
    if tangent is not None and not here.tied([tangent]):
        tangent = tangent.detach()
    return UnpackedDualTensor(primal, tangent)
