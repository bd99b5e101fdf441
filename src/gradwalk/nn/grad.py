"""PyTorch's `nn.grad`: the gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradwalk.engine.gradients import grad
from gradwalk.engine.modes import enable_grad, is_grad_enabled
from gradwalk.nn.functional.convolution import conv
from gradwalk.nn.functional.dimensions import Size
from gradwalk.tensors.creation import zeros

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip


def _pulled(shape: Sequence[int], grad_output: Any, convolved: Callable[[Any], Any]) -> Any:
    """The gradient of an operand of this shape. The result is linear in it, so zeros will do."""
    recorded = is_grad_enabled()
    with enable_grad():
        operand = zeros(
            *shape, dtype=grad_output.dtype, device=grad_output.device, requires_grad=True
        )
        out = convolved(operand)
    return grad(out, operand, grad_output, create_graph=recorded)[0]


def _of_input(n: int) -> Callable[..., Any]:
    def pulled(
        input_size: Sequence[int],
        weight: Any,
        grad_output: Any,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Any:
        return _pulled(
            input_size,
            grad_output,
            lambda x: conv(n, x, weight, None, stride, padding, dilation, groups),
        )

    return _named(pulled, f"conv{n}d_input", f"The gradient of `conv{n}d` in its input.")


def _of_weight(n: int) -> Callable[..., Any]:
    def pulled(
        input: Any,
        weight_size: Sequence[int],
        grad_output: Any,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Any:
        return _pulled(
            weight_size,
            grad_output,
            lambda w: conv(n, input, w, None, stride, padding, dilation, groups),
        )

    return _named(pulled, f"conv{n}d_weight", f"The gradient of `conv{n}d` in its weight.")


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


conv1d_input, conv1d_weight = _of_input(1), _of_weight(1)
conv2d_input, conv2d_weight = _of_input(2), _of_weight(2)
conv3d_input, conv3d_weight = _of_input(3), _of_weight(3)
