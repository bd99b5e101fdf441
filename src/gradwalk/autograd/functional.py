"""PyTorch's `autograd.functional`: Jacobians, Hessians and their products, at given inputs.

They are the transforms of `gradwalk.func` with PyTorch's older signatures: `inputs` is a tensor or
a tuple of tensors, and results are detached unless `create_graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradwalk.autograd import jacobians
from gradwalk.engine import transforms
from gradwalk.engine.modes import enable_grad
from gradwalk.engine.tree import leaves, mapped
from gradwalk.graph.order import inputs_first
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
    transform = jacobians.jacrev if strategy == "reverse-mode" else jacobians.jacfwd
    points, which = _points(inputs, create_graph)
    with _recording(create_graph):
        matrix = transform(_checked(func, strict), which)(*points)
    return _result(matrix, create_graph, strict)


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
    with _recording(create_graph):
        gradient = _checked(transforms.grad(_checked(func, strict), which), strict, "the gradient")
        matrix = jacobians.jacrev(gradient, which)(*points)
    return _result(matrix, create_graph, strict)


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of `func`, and `v` times its Jacobian."""
    points, which = _points(inputs, create_graph)
    with _recording(create_graph):
        value, pull = transforms.vjp(_checked(func, strict), *points)
        pulled = pull(_direction("vjp", v, value))
    return _result((value, pulled[0] if which == 0 else pulled), create_graph, strict)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of `func`, and its Jacobian times `v`."""
    points, _ = _points(inputs, create_graph)
    directions, _ = _points(_direction("jvp", v, inputs), True)
    with _recording(create_graph):
        moved = transforms.jvp(_checked(func, strict), points, directions)
    return _result(moved, create_graph, strict)


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
    with _recording(create_graph):
        both = transforms.grad(_checked(func, strict), tuple(range(len(points))))
        moved = transforms.jvp(_checked(both, strict, "the gradient"), points, directions)[1]
        value = func(*points)
    return _result((value, moved[0] if which == 0 else moved), create_graph, strict)


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


def _recording(create_graph: bool) -> AbstractContextManager[Any]:
    """A graph of the result is made inside `no_grad` too."""
    return enable_grad() if create_graph else nullcontext()


def _checked(func: Function, strict: bool, what: str = "an output") -> Function:
    """`func`; with `strict`, a result that does not depend on every input is an error."""
    if not strict:
        return func

    def checked(*inputs: Any) -> Any:
        result = func(*inputs)
        ends = [leaf._node or leaf for leaf in leaves(inputs)]
        for tensor in leaves(result):
            reached = set(inputs_first([tensor._node or tensor], set(ends)))
            for number, end in enumerate(ends):
                if not tensor.requires_grad or end not in reached:
                    raise RuntimeError(
                        f"strict=True: {what} of the function does not depend on input {number}.\n"
                        "Fix: strict=False, which takes the derivative for 0."
                    )
        return result

    return checked


def _result(tree: Any, create_graph: bool, strict: bool) -> Any:
    if not create_graph:
        return mapped(lambda t: t.detach(), tree)
    if strict and not all(tensor.requires_grad for tensor in leaves(tree)):
        raise RuntimeError(
            "strict=True and create_graph=True: the derivative does not depend on the inputs.\n"
            "Fix: strict=False, or inputs that require a gradient."
        )
    return tree
