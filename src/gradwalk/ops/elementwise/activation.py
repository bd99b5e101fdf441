"""Activation functions: the smooth ones, and those made of straight pieces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import constant, held_by
from gradwalk.ops.core.halves import as_half
from gradwalk.ops.core.op import Op, define, elementwise, unary
from gradwalk.ops.core.public import FUNCTION, IN_PLACE
from gradwalk.ops.elementwise.arithmetic import exp
from gradwalk.ops.elementwise.choice import clip_op, where
from gradwalk.ops.elementwise.error_function import erf_array, gelu_with_slope, ndtr_array
from gradwalk.ops.elementwise.trigonometry import tanh

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
_CUBE = 0.044715  # the constant of the tanh form of gelu


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


sigmoid = unary(
    "sigmoid",
    _sigmoid_forward,
    lambda out: out * (1 - out),
    "1 / (1 + e⁻ˣ).",
    number=_sigmoid_number,
    symbol="σ",
    namespaces="gradwalk special.expit",
    on_complex=True,
)

# `out <= 0` rather than `out > 0`: a NaN must let its gradient through, as in PyTorch.
relu = elementwise(
    "relu",
    lambda x: np.maximum(x, constant(0, x.dtype)),
    lambda x: 0 if x < 0 else x,
    vjp=[lambda g, out: where(out <= 0, 0, g)],
    doc="Max(x, 0).",
    **IN_PLACE,
)
leaky_relu = elementwise(
    "leaky_relu",
    lambda x, *, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    lambda x, negative_slope=0.01: x if x > 0 else x * negative_slope,
    vjp=[lambda g, x, negative_slope: where(x > 0, g, g * negative_slope)],
    to_float=True,
    doc="x where positive, `negative_slope` × x elsewhere.",
    **FUNCTION,
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
    doc="log(1 + exp(beta × x)) / beta; above the threshold x itself.",
    **FUNCTION,
)


erf = unary(
    "erf",
    erf_array,
    lambda x: _TWO_OVER_ROOT_PI * exp(-(x * x)),
    "The error function.",
    number=math.erf,
    namespaces="gradwalk special",
)

# The normal distribution function: P(a standard normal number < x).
ndtr: Op = elementwise(
    "ndtr",
    ndtr_array,
    lambda x: 0.5 * math.erfc(-x * _ROOT_HALF),
    partials=[lambda x: _DENSITY * exp(-0.5 * (x * x))],
    symbol="Φ",
    to_float=True,
)


def _gelu(name: str, forward: Any, expand: Any, formula: str) -> Op:
    """Value and slope share most of their work, so the forward computes both."""
    return define(
        name,
        forward,
        vjp=[lambda g, slope: g * slope],
        residuals="slope",
        shape=lambda x: x,
        expand=expand,
        formula={"x": formula},
        to_float=True,
        promotes=True,
    )


def _gelu_forward(x: Any) -> tuple[Any, Any]:
    if x.__class__ is np.ndarray:
        value_and_slope: tuple[Any, Any] = gelu_with_slope(x)
        return value_and_slope
    below = ndtr(x)  # while it is traced
    return x * below, below + x * (_DENSITY * exp(-0.5 * (x * x)))


gelu_exact = _gelu(
    "gelu", _gelu_forward, lambda x: x * ndtr(x), "g × (Φ({x}) + {x} × φ({x})), φ = Φ′"
)


def _gelu_tanh_forward(x: Any) -> tuple[Any, Any]:
    """x (1 + t) / 2 with t = tanh(√(2/π) (x + 0.044715 x³)), and its derivative."""
    square = np.multiply(x, x)
    t = square * (_ROOT_TWO_OVER_PI * _CUBE)
    t += _ROOT_TWO_OVER_PI
    t *= x
    t = np.tanh(t)
    square *= 1.5 * _CUBE * _ROOT_TWO_OVER_PI
    square += 0.5 * _ROOT_TWO_OVER_PI
    square *= x  # half the derivative of what tanh is taken of, times x
    slope = 1 - t * t
    slope *= square
    t += 1
    t *= 0.5
    slope += t
    t *= x
    return t, slope


def _gelu_tanh_expanded(x: Any) -> Any:
    inner = (x * x * (_ROOT_TWO_OVER_PI * _CUBE) + _ROOT_TWO_OVER_PI) * x
    return (tanh(inner) + 1) * x * 0.5


gelu_tanh = _gelu(
    "gelu_tanh",
    _gelu_tanh_forward,
    _gelu_tanh_expanded,
    "g × ½ (1 + t + {x} × (1 − t²) × √(2/π) (1 + 0.134145 {x}²)), t = tanh(...)",
)


def _silu_slope(x: Any) -> Any:
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


silu = elementwise(
    "silu",
    lambda x: x * sigmoid.forward(x),
    lambda x: x * _sigmoid_number(x),
    partials=[_silu_slope],
    to_float=True,
    on_complex=True,
)


def _mish_slope(x: Any) -> Any:
    t = tanh(softplus(x))
    return t + x * ((1 - t * t) * sigmoid(x))


mish = elementwise(
    "mish",
    lambda x: x * np.tanh(softplus.forward(x)),
    partials=[_mish_slope],
    to_float=True,
)
logsigmoid = elementwise(
    "logsigmoid",
    lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    lambda x: min(x, 0.0) - math.log1p(math.exp(-math.fabs(x))),
    partials=[lambda x: sigmoid(-x)],
    to_float=True,
)


def _elu_forward(
    x: Any, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Any:
    return np.where(x <= 0, np.expm1(x * input_scale) * (alpha * scale), x * scale)


def _elu_number(
    x: float, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> float:
    return math.expm1(x * input_scale) * (alpha * scale) if x <= 0 else x * scale


def _elu_rule(g: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    # The exponential of the negative part only: above 0 it may be inf, and inf × 0 NaN.
    low = exp(clip_op(x, min=None, max=0.0) * input_scale)
    return where(x <= 0, g * (low * (alpha * scale * input_scale)), g * scale)


# elu, celu (input_scale 1 / alpha) and selu (both constants fixed).
elu = elementwise("elu", _elu_forward, _elu_number, vjp=[_elu_rule], to_float=True)


# -- straight pieces -----------------------------------------------------------------------------
# As in PyTorch, a NaN passes no gradient, except in hardswish and threshold. That decides the
# direction of each comparison.


def _hardtanh_number(x: float, min_val: float = -1.0, max_val: float = 1.0) -> float:
    return min_val if x < min_val else max_val if x > max_val else x


# Like clip, but integers stay integers, and the bounds themselves have no gradient.
hardtanh = elementwise(
    "hardtanh",
    lambda x, *, min_val=-1.0, max_val=1.0: np.clip(
        x, held_by(x.dtype, min_val), held_by(x.dtype, max_val)
    ),
    _hardtanh_number,
    vjp=[lambda g, x, min_val, max_val: where((x > min_val) & (x < max_val), g, 0)],
)
hardsigmoid = elementwise(
    "hardsigmoid",
    lambda x: np.clip(x + 3, 0, 6) / 6,
    lambda x: _hardtanh_number(x + 3, 0.0, 6.0) / 6,
    vjp=[lambda g, x: where((x > -3) & (x < 3), g / 6, 0)],
    to_float=True,
)
hardswish = elementwise(
    "hardswish",
    lambda x: x * np.clip(x + 3, 0, 6) / 6,
    lambda x: x * _hardtanh_number(x + 3, 0.0, 6.0) / 6,
    vjp=[lambda g, x: where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g))],
    to_float=True,
)
softshrink = elementwise(
    "softshrink",
    lambda x, *, lambd=0.5: np.where(
        x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0)
    ).astype(x.dtype, copy=False),
    lambda x, lambd=0.5: x - lambd if x > lambd else x + lambd if x < -lambd else x * 0,
    vjp=[lambda g, x, lambd: where((x > lambd) | (x < -lambd), g, 0)],
)


def _hardshrunk(self: Any, lambd: float = 0.5) -> Any:
    """0 between −lambd and lambd; halves compare with the bound as a half."""
    return hardshrink(self, lambd=as_half(float(lambd), self.dtype))


hardshrink = elementwise(
    "hardshrink",
    lambda x, *, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), x.dtype.type(0), x),
    lambda x, lambd=0.5: 0.0 if -lambd <= x <= lambd else x,
    vjp=[lambda g, x, lambd: where((x > lambd) | (x < -lambd), g, 0)],
    method=_hardshrunk,
)
threshold = elementwise(
    "threshold",
    lambda x, *, threshold=0.0, value=0.0: np.where(x <= threshold, x.dtype.type(value), x),
    lambda x, threshold=0.0, value=0.0: value if x <= threshold else x,
    vjp=[lambda g, x, threshold: where(x <= threshold, 0, g)],
)
