"""Composites of backward rules, for programs in which a gradient is itself a step.

That happens when a backward pass is recorded for a second derivative (`create_graph=True`).
"""

from __future__ import annotations

from typing import Any

from gradwalk.engine.gradients import grad as gradient
from gradwalk.engine.modes import enable_grad
from gradwalk.nn.composites.composite import composed, composite
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.arithmetic import exp
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.network.convolution import conv_input, conv_weight
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import alias

composite(
    "threshold_pull",
    lambda grad, x, *, threshold: where(x <= threshold, 0, grad),
    grad="g if {x} > threshold else 0",
)
composite(
    "tanh_pull",
    lambda grad, result: grad * (1 - result * result),
    grad="g × (1 − {result}²)",
    result="−2 × g × {grad} × {result}",
)
composite(
    "sigmoid_pull",
    lambda grad, result: grad * (result * (1 - result)),
    grad="g × {result} × (1 − {result})",
    result="g × {grad} × (1 − 2 × {result})",
)


@composed()
def softmax_pull(grad: Any, result: Any, *, axis: int) -> Any:
    return result * (grad - sum_op(grad * result, axis=(axis,), keepdim=True))


@composed()
def log_softmax_pull(grad: Any, result: Any, *, axis: int) -> Any:
    return grad - exp(result) * sum_op(grad, axis=(axis,), keepdim=True)


@composed()
def pulled_through(grad: Any, x: Any, *others: Any, op: str, attrs: dict[str, Any]) -> Any:
    """The gradient of the first operand of an op, from that of its result."""
    with enable_grad():
        inside = alias(x) if x.requires_grad else x.detach().requires_grad_()
        out = TABLE[op](inside, *others, **attrs)
        return gradient(out, inside, grad, create_graph=True)[0]


@composed(outputs=("*gradients",))
def conv_pull(
    grad: Any,
    x: Any,
    weight: Any,
    *,
    wanted: tuple[bool, bool, bool],
    stride: Shape,
    padding: tuple[tuple[int, int], ...],
    dilation: Shape,
    groups: int,
) -> tuple[Any, ...]:
    """The wanted gradients of input, weight and bias of a convolution."""
    attrs: dict[str, Any] = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    gradients = []
    if wanted[0]:
        gradients.append(conv_input(grad, weight, shape=tuple(x.shape[2:]), **attrs))
    if wanted[1]:
        gradients.append(conv_weight(x, grad, kernel=tuple(weight.shape[2:]), **attrs))
    if wanted[2]:
        gradients.append(sum_op(grad, axis=(0, *range(2, grad.ndim)), keepdim=False))
    return tuple(gradients)
