"""Definitions of ops in other ops, for display: `expand` of composites and textbook formulas.

tanh is one op to the engine and (e²ˣ − 1) / (e²ˣ + 1) to a textbook; both have the same gradients.
Only the display of an opened node uses these formulas, never the engine. They work on tensors and
Values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.activation import sigmoid, softplus
from gradwalk.ops.elementwise.arithmetic import abs as absolute
from gradwalk.ops.elementwise.arithmetic import exp, log, log1p, sqrt
from gradwalk.ops.elementwise.choice import clip_op, maximum, where
from gradwalk.ops.elementwise.trigonometry import cos, sin, tanh
from gradwalk.ops.reduce.reduction import amax_op, amin_op, mean_op, sum_op
from gradwalk.ops.shape.reshaping import reshape

Expansion = Callable[..., Any]


def expansions_of(op: Op, scalar: bool = False) -> list[Expansion]:
    """Definitions of an op in other ops, the one to show first; none for a primitive.

    A later one is for operands at which the first overflows.
    """
    if op.expand is not None and not scalar:
        return [op.expand]
    if scalar and not op.elementwise:
        return []
    return [table[op.name] for table in (SHOWN, SAFE) if op.name in table]


def _tanh(x: Any) -> Any:
    e = exp(2 * x)
    return (e - 1) / (e + 1)


def _tanh_safe(x: Any) -> Any:
    """−|x| in the exponent. At 0 every choice takes the same side, so the slope there is 1."""
    t = _tanh(where(x > 0, -x, x))
    return where(x > 0, -t, t)


def _sigmoid_safe(x: Any) -> Any:
    e = exp(where(x > 0, -x, x))
    return where(x > 0, 1.0, e) / (1 + e)


def _softplus(x: Any, *, beta: float, threshold: float) -> Any:
    linear = x * beta > threshold
    inner = where(linear, 0.0, x)  # so that the branch not taken does not overflow
    return where(linear, x, log(1 + exp(inner * beta)) / beta)


def _log_sigmoid(x: Any) -> Any:
    e = exp(where(x > 0, -x, x))  # e to the −|x|
    return where(x > 0, 0.0, x) - log(1 + e)


def _log_add_exp(x: Any, y: Any) -> Any:
    top = maximum(x, y)
    return top + log(exp(x - top) + exp(y - top))


def _kept(x: Any, axis: tuple[int, ...], keepdim: bool, reduced: Any) -> Any:
    """Drop the reduced axes unless they are wanted."""
    if keepdim:
        return reduced
    return reshape(reduced, shape=tuple(n for i, n in enumerate(x.shape) if i not in axis))


def _log_sum_exp(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    top = amax_op(x, axis=axis, keepdim=True)
    return _kept(x, axis, keepdim, top + log(sum_op(exp(x - top), axis=axis, keepdim=True)))


def _mean(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    return sum_op(x, axis=axis, keepdim=keepdim) / _count(x, axis)


def _variance(x: Any, *, axis: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    apart = x - mean_op(x, axis=axis, keepdim=True)
    return sum_op(apart * apart, axis=axis, keepdim=keepdim) / (_count(x, axis) - correction)


def _deviation(x: Any, *, axis: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return sqrt(_variance(x, axis=axis, correction=correction, keepdim=keepdim))


def _count(x: Any, axis: tuple[int, ...]) -> float:
    return float(math.prod(x.shape[i] for i in axis))


def _vector_norm(x: Any, *, p: float, axis: tuple[int, ...], keepdim: bool) -> Any:
    if p == 2:
        return sqrt(sum_op(x * x, axis=axis, keepdim=keepdim))
    if p == 1:
        return sum_op(absolute(x), axis=axis, keepdim=keepdim)
    if math.isinf(p):
        return (amax_op if p > 0 else amin_op)(absolute(x), axis=axis, keepdim=keepdim)
    if p == 0:
        raise ValueError("the norm of order 0 counts; it is not made of other operations")
    return sum_op(absolute(x) ** p, axis=axis, keepdim=keepdim) ** (1 / p)


def _cross_entropy_of_probability(x: Any, target: Any) -> Any:
    hit = clip_op(log(x), min=-100.0, max=None)
    miss = clip_op(log1p(-x), min=-100.0, max=None)
    return -(target * hit + (1 - target) * miss)


def _cross_entropy_of_logit(x: Any, target: Any) -> Any:
    return -_log_sigmoid(-x) - x * target


SHOWN: dict[str, Expansion] = {
    "binary_cross_entropy": _cross_entropy_of_probability,
    "binary_cross_entropy_logits": _cross_entropy_of_logit,
    "cosh": lambda x: (exp(x) + exp(-x)) / 2,
    "hypot": lambda x, y: sqrt(x * x + y * y),
    "leaky_relu": lambda x, *, negative_slope: where(x > 0, x, x * negative_slope),
    "lerp": lambda start, end, weight: start + weight * (end - start),
    "logaddexp": _log_add_exp,
    "logsigmoid": _log_sigmoid,
    "logsumexp": _log_sum_exp,
    "mean": _mean,
    "mish": lambda x: x * tanh(softplus(x, beta=1.0, threshold=20.0)),
    "reciprocal": lambda x: 1.0 / x,
    "relu": lambda x: where(x > 0, x, 0.0),
    "rsqrt": lambda x: 1.0 / sqrt(x),
    "sigmoid": lambda x: 1.0 / (1 + exp(-x)),
    "silu": lambda x: x * sigmoid(x),
    "sinh": lambda x: (exp(x) - exp(-x)) / 2,
    "softplus": _softplus,
    "square": lambda x: x * x,
    "std": _deviation,
    "tan": lambda x: sin(x) / cos(x),
    "tanh": _tanh,
    "var": _variance,
    "vector_norm": _vector_norm,
}


# For the paths of single elements. Subtracting the largest element only prevents overflow; its
# contributions cancel exactly and would clutter the list of paths.


def _shift(x: Any, axis: tuple[int, ...]) -> Any:
    return amax_op(x.detach(), axis=axis, keepdim=True)


def _softmax_of_elements(x: Any, *, axis: int) -> Any:
    e = exp(x - _shift(x, (axis,)))
    return e / sum_op(e, axis=(axis,), keepdim=True)


def _log_softmax_of_elements(x: Any, *, axis: int) -> Any:
    apart = x - _shift(x, (axis,))
    return apart - log(sum_op(exp(apart), axis=(axis,), keepdim=True))


def _log_sum_exp_of_elements(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    top = _shift(x, axis)
    return _kept(x, axis, keepdim, log(sum_op(exp(x - top), axis=axis, keepdim=True)) + top)


OF_ELEMENTS: dict[str, Expansion] = {
    "log_softmax": _log_softmax_of_elements,
    "logsumexp": _log_sum_exp_of_elements,
    "softmax": _softmax_of_elements,
}
SAFE: dict[str, Expansion] = {"sigmoid": _sigmoid_safe, "tanh": _tanh_safe}
