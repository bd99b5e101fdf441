"""Circular and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from gradwalk.ops.arithmetic import rsqrt
from gradwalk.ops.op import Op, elementwise

__all__ = [
    "acos", "asin", "atan", "cos", "cosh", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

sin = elementwise("sin", np.sin, math.sin, partials=[lambda x: cos(x)], to_float=True)
cos: Op = elementwise("cos", np.cos, math.cos, partials=[lambda x: -sin(x)], to_float=True)
tan = elementwise(
    "tan", np.tan, math.tan, partials=[lambda out: 1 + out * out], to_float=True, domain=(-1.2, 1.2)
)
asin = elementwise(
    "asin",
    np.arcsin,
    math.asin,
    partials=[lambda x: rsqrt(1 - x * x)],
    to_float=True,
    domain=(-0.8, 0.8),
)
acos = elementwise(
    "acos",
    np.arccos,
    math.acos,
    partials=[lambda x: -rsqrt(1 - x * x)],
    to_float=True,
    domain=(-0.8, 0.8),
)
atan = elementwise("atan", np.arctan, math.atan, vjp=[lambda g, x: g / (1 + x * x)], to_float=True)
sinh = elementwise("sinh", np.sinh, math.sinh, partials=[lambda x: cosh(x)], to_float=True)
cosh: Op = elementwise("cosh", np.cosh, math.cosh, partials=[lambda x: sinh(x)], to_float=True)
tanh = elementwise("tanh", np.tanh, math.tanh, partials=[lambda out: 1 - out * out], to_float=True)
