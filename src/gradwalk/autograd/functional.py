"""PyTorch's `autograd.functional`: Jacobians, Hessians and their products, at given inputs.

They are the transforms of `gradwalk.func` with PyTorch's older signatures: `inputs` is a tensor or
a tuple of tensors, and results are detached unless `create_graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.engine import transforms
from gradwalk.engine.tree import leaves, mapped
from gradwalk.tensors.creation import ones_like

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`: one block per output and input.

    >>> import gradwalk as gw
    >>> gw.autograd.functional.jacobian(lambda x: x**2, gw.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"strategy is 'reverse-mode' or 'forward-mode', not {strategy!r}")
    transform = transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd
    points, which = _points(inputs, create_graph)
    return _result(transform(_checked(func, strict), which)(*points), create_graph)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of `func`, which returns one number.

    >>> import gradwalk as gw
    >>> gw.autograd.functional.hessian(lambda x: (x**3).sum(), gw.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    points, which = _points(inputs, create_graph)
    gradient = transforms.grad(_checked(func, strict), which)
    return _result(transforms.jacrev(gradient, which)(*points), create_graph)


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of `func`, and `v` times its Jacobian."""
    points, which = _points(inputs, create_graph)
    value, pull = transforms.vjp(_checked(func, strict), *points)
    pulled = pull(_direction("vjp", v, value))
    return _result((value, pulled[0] if which == 0 else pulled), create_graph)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of `func`, and its Jacobian times `v`."""
    points, _ = _points(inputs, create_graph)
    directions, _ = _points(_direction("jvp", v, inputs), True)
    return _result(transforms.jvp(_checked(func, strict), points, directions), create_graph)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of `func`, and its Hessian times `v`.

    >>> import gradwalk as gw
    >>> x, v = gw.tensor([1.0, 2.0]), gw.tensor([1.0, 0.0])
    >>> gw.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([6., 0.]))
    """
    points, which = _points(inputs, create_graph)
    directions, _ = _points(_direction("hvp", v, inputs), True)
    function = _checked(func, strict)
    moved = transforms.hvp(function, points, directions)
    return _result((function(*points), moved[0] if which == 0 else moved), create_graph)


# The Hessian is symmetric, so both products are the same numbers.
vhp = hvp


def _points(inputs: Any, create_graph: bool) -> tuple[tuple[Any, ...], Any]:
    """The inputs, cut off from their history unless it is wanted, and which to differentiate by."""
    one = not isinstance(inputs, (tuple, list))
    points = (inputs,) if one else tuple(inputs)
    kept = points if create_graph else tuple(p.detach() for p in points)
    return kept, 0 if one else tuple(range(len(points)))


def _direction(name: str, v: Any, of: Any) -> Any:
    """The given direction; 1 where there is only one number."""
    if v is not None:
        return v
    if any(t.numel() != 1 for t in leaves(of)):
        raise RuntimeError(f"{name} needs v unless there is a single number. Fix: pass v.")
    return mapped(ones_like, of)


def _checked(func: Function, strict: bool) -> Function:
    """`func`; with `strict`, an output that does not depend on the inputs is an error."""
    if not strict:
        return func

    def checked(*inputs: Any) -> Any:
        result = func(*inputs)
        if not all(t.requires_grad for t in leaves(result)):
            raise RuntimeError("strict=True: an output does not depend on the inputs")
        return result

    return checked


def _result(tree: Any, create_graph: bool) -> Any:
    return tree if create_graph else mapped(lambda t: t.detach(), tree)
