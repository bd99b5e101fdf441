"""Circular and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, smooth
from gradwalk.ops.elementwise.arithmetic import rsqrt
from gradwalk.ops.elementwise.choice import where

sin = smooth("sin", np.sin, math.sin, partials=[lambda x: cos(x)], doc="Sine.")
cos: Op = smooth("cos", np.cos, math.cos, partials=[lambda x: -sin(x)], doc="Cosine.")
tan = smooth(
    "tan",
    np.tan,
    math.tan,
    partials=[lambda out: 1 + out * out],
    domain=(-1.2, 1.2),
    doc="Tangent.",
)
asin = smooth(
    "asin",
    np.arcsin,
    math.asin,
    partials=[lambda x: rsqrt(1 - x * x)],
    domain=(-0.8, 0.8),
    names="asin arcsin",
    doc="Arc sine.",
)
acos = smooth(
    "acos",
    np.arccos,
    math.acos,
    partials=[lambda x: -rsqrt(1 - x * x)],
    domain=(-0.8, 0.8),
    names="acos arccos",
    doc="Arc cosine.",
)
atan = smooth(
    "atan",
    np.arctan,
    math.atan,
    vjp=[lambda g, x: g / (1 + x * x)],
    names="atan arctan",
    doc="Arc tangent.",
)
sinh = smooth("sinh", np.sinh, math.sinh, partials=[lambda x: cosh(x)], doc="Hyperbolic sine.")
cosh: Op = smooth(
    "cosh", np.cosh, math.cosh, partials=[lambda x: sinh(x)], doc="Hyperbolic cosine."
)
tanh = smooth(
    "tanh", np.tanh, math.tanh, partials=[lambda out: 1 - out * out], doc="Hyperbolic tangent."
)
asinh = smooth(
    "asinh",
    np.arcsinh,
    math.asinh,
    partials=[lambda x: rsqrt(x * x + 1)],
    names="asinh arcsinh",
    doc="Inverse hyperbolic sine.",
)
acosh = smooth(
    "acosh",
    np.arccosh,
    math.acosh,
    partials=[lambda x: rsqrt(x * x - 1)],
    domain=(1.2, 4.0),
    names="acosh arccosh",
    doc="Inverse hyperbolic cosine.",
)
atanh = smooth(
    "atanh",
    np.arctanh,
    math.atanh,
    vjp=[lambda g, x: g / (1 - x * x)],
    domain=(-0.8, 0.8),
    names="atanh arctanh",
    doc="Inverse hyperbolic tangent.",
)


def _square_sum(x: Any, y: Any) -> Any:
    """x² + y², and 1 at the origin, where the angle has no slope and gets the slope 0."""
    total = x * x + y * y
    return where(total == 0, 1.0, total)


# The angle of the point (y, x): as everywhere, the first operand is the height.
atan2 = smooth(
    "atan2",
    np.arctan2,
    math.atan2,
    partials=[lambda x, y: y / _square_sum(x, y), lambda x, y: -x / _square_sum(x, y)],
    domain=((0.3, 3.0), (0.3, 3.0)),
    names="atan2 arctan2",
    doc="The angle of the point (other, self).",
)
hypot = smooth(
    "hypot",
    np.hypot,
    math.hypot,
    partials=[lambda x, out: x / out, lambda y, out: y / out],
    domain=((0.3, 3.0), (0.3, 3.0)),
    doc="√(self² + other²).",
)
deg2rad = smooth(
    "deg2rad",
    lambda x: x * (math.pi / 180),
    lambda x: x * (math.pi / 180),
    partials=[math.pi / 180],
    linear=True,
    doc="Degrees as radians.",
)
rad2deg = smooth(
    "rad2deg",
    lambda x: x * (180 / math.pi),
    lambda x: x * (180 / math.pi),
    partials=[180 / math.pi],
    linear=True,
    doc="Radians as degrees.",
)


def _sinc_number(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


def _sinc_slope(x: Any, out: Any) -> Any:
    """(cos πx − sinc x) / x; near 0, where that difference cancels, its series."""
    near = (x < 0.1) & (x > -0.1)
    square = (math.pi**2) * where(near, x, 0) * where(near, x, 0)
    series: Any = 0.0
    for k in range(8, 0, -1):  # Σ (−1)ᵏ 2k (πx)²ᵏ / (2k + 1)!, over x
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    small = (math.pi**2) * where(near, x, 0) * series
    return where(near, small, (cos(math.pi * x) - out) / where(near, 1.0, x))


# sin πx / πx.
sinc = smooth(
    "sinc",
    np.sinc,
    _sinc_number,
    partials=[_sinc_slope],
    formula={"x": "g × (cos(π × {x}) − {out}) / {x}, at 0 its limit 0"},
    namespaces="gradwalk special",
    doc="Sin(πx) / πx.",
)
