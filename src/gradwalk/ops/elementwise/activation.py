"""Activation functions that are one op."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import constant
from gradwalk.ops.core.op import elementwise
from gradwalk.ops.elementwise.arithmetic import exp
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.error_function import erf_array

__all__ = [
    "erf", "leaky_relu", "relu", "sigmoid", "softplus",
]  # fmt: skip

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _sigmoid_number(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    small = math.exp(x)
    return small / (1 + small)


def _sigmoid_forward(x: Any) -> Any:
    # exp(-x) may overflow to inf, and 1 / inf is the right 0: no second branch needed.
    out = np.exp(-x)
    out += constant(1, out.dtype)
    return np.reciprocal(out)


sigmoid = elementwise(
    "sigmoid",
    _sigmoid_forward,
    _sigmoid_number,
    partials=[lambda out: out * (1 - out)],
    symbol="σ",
    to_float=True,
)

# `out <= 0` rather than `out > 0`: a NaN must let its gradient through, as in PyTorch.
relu = elementwise(
    "relu",
    lambda x: np.maximum(x, constant(0, x.dtype)),
    lambda x: 0 if x < 0 else x,
    vjp=[lambda g, out: where(out <= 0, 0, g)],
    domain=(0.2, 4.0),
)
leaky_relu = elementwise(
    "leaky_relu",
    lambda x, *, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    lambda x, negative_slope=0.01: x if x > 0 else x * negative_slope,
    vjp=[lambda g, x, negative_slope: where(x > 0, g, g * negative_slope)],
    to_float=True,
    domain=(0.2, 4.0),
)


def _softplus_forward(x: Any, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = x * beta
    # log1p(exp(-|t|)) never overflows; above the threshold the function is its own argument.
    soft = (np.log1p(np.exp(-np.abs(scaled))) + np.maximum(scaled, 0)) / beta
    return np.where(scaled > threshold, x, soft)


def _softplus_number(x: float, beta: float = 1.0, threshold: float = 20.0) -> float:
    scaled = x * beta
    if scaled > threshold:
        return x
    return (math.log1p(math.exp(-math.fabs(scaled))) + max(scaled, 0.0)) / beta


softplus = elementwise(
    "softplus",
    _softplus_forward,
    _softplus_number,
    vjp=[lambda g, x, beta, threshold: where(x * beta > threshold, g, g * sigmoid(x * beta))],
    to_float=True,
)


erf = elementwise(
    "erf",
    erf_array,
    math.erf,
    partials=[lambda x: _TWO_OVER_ROOT_PI * exp(-(x * x))],
    to_float=True,
)
