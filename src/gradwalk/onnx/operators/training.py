"""The training operators of ONNX's preview domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradwalk as gw
from gradwalk.engine.gradients import grad
from gradwalk.engine.modes import enable_grad, is_grad_enabled
from gradwalk.onnx.operators.table import PREVIEW, OnnxNode, operator


@operator("Gradient", domain=PREVIEW)
def gradient(node: OnnxNode, *inputs: Any) -> Any:
    """The gradients of `y` by each of `xs`; the reader made a function of the nodes between."""
    function: Callable[..., Any] = node.get("function")
    count = len(node.get("xs"))
    again = is_grad_enabled()
    with enable_grad():
        xs = [x if x.requires_grad else x.detach().requires_grad_() for x in inputs[:count]]
        (y,) = function(*xs, *inputs[count:])
        return grad(y.sum(), xs, create_graph=again, materialize_grads=True)


def _by_parameter(step: Callable[..., tuple[Any, ...]], count: int) -> Callable[..., Any]:
    """An operator on `count` lists of tensors, after the learning rate and the step count."""

    def run(node: OnnxNode, rate: Any, t: Any, *lists: Any) -> Any:
        n = len(lists) // count
        new = [step(node, rate, t, *(lists[i + k * n] for k in range(count))) for i in range(n)]
        return tuple(part for parts in zip(*new, strict=True) for part in parts)

    return run


def _adagrad(node: OnnxNode, rate: Any, t: Any, x: Any, g: Any, squares: Any) -> tuple[Any, ...]:
    r = rate / (1 + t.to(rate.dtype) * node.get("decay_factor", 0.0))
    g = g + node.get("norm_coefficient", 0.0) * x
    squares = squares + g * g
    return x - r * g / (gw.sqrt(squares) + node.get("epsilon", 1e-6)), squares


def _momentum(node: OnnxNode, rate: Any, t: Any, x: Any, g: Any, v: Any) -> tuple[Any, ...]:
    alpha, beta = node.get("alpha"), node.get("beta")
    g = g + node.get("norm_coefficient") * x
    v = alpha * v + gw.where(t > 0, beta, 1.0) * g  # the first step takes the whole gradient
    direction = g + alpha * v if node.get("mode") == "nesterov" else v
    return x - rate * direction, v


def _adam(node: OnnxNode, rate: Any, t: Any, x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    g = g + node.get("norm_coefficient", 0.0) * x
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    times = t.to(rate.dtype)
    corrected = rate * gw.sqrt(1 - beta**times) / (1 - alpha**times)
    step = gw.where(t > 0, corrected, rate)
    new = x - step * v / (gw.sqrt(h) + node.get("epsilon", 1e-6))
    return (1 - node.get("norm_coefficient_post", 0.0)) * new, v, h


operator("Adagrad", domain=PREVIEW)(_by_parameter(_adagrad, 3))
operator("Momentum", domain=PREVIEW)(_by_parameter(_momentum, 3))
operator("Adam", domain=PREVIEW)(_by_parameter(_adam, 4))
