"""Circular and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.core.public import IN_PLACE, SPECIAL
from gradwalk.ops.elementwise.arithmetic import rsqrt
from gradwalk.ops.elementwise.choice import where

sin = elementwise(
    "sin", np.sin, math.sin, partials=[lambda x: cos(x)], to_float=True,
    doc="Sine.", **IN_PLACE,
)  # fmt: skip
cos: Op = elementwise(
    "cos", np.cos, math.cos, partials=[lambda x: -sin(x)], to_float=True,
    doc="Cosine.", **IN_PLACE,
)  # fmt: skip
tan = elementwise(
    "tan", np.tan, math.tan, partials=[lambda out: 1 + out * out], to_float=True,
    domain=(-1.2, 1.2), doc="Tangent.", **IN_PLACE,
)  # fmt: skip
asin = elementwise(
    "asin",
    np.arcsin,
    math.asin,
    partials=[lambda x: rsqrt(1 - x * x)],
    to_float=True,
    domain=(-0.8, 0.8),
    doc="Arc sine.",
    names="asin arcsin",
    **IN_PLACE,
)
acos = elementwise(
    "acos",
    np.arccos,
    math.acos,
    partials=[lambda x: -rsqrt(1 - x * x)],
    to_float=True,
    domain=(-0.8, 0.8),
    doc="Arc cosine.",
    names="acos arccos",
    **IN_PLACE,
)
atan = elementwise(
    "atan", np.arctan, math.atan, vjp=[lambda g, x: g / (1 + x * x)], to_float=True,
    doc="Arc tangent.", names="atan arctan", **IN_PLACE,
)  # fmt: skip
sinh = elementwise(
    "sinh", np.sinh, math.sinh, partials=[lambda x: cosh(x)], to_float=True,
    doc="Hyperbolic sine.", **IN_PLACE,
)  # fmt: skip
cosh: Op = elementwise(
    "cosh", np.cosh, math.cosh, partials=[lambda x: sinh(x)], to_float=True,
    doc="Hyperbolic cosine.", **IN_PLACE,
)  # fmt: skip
tanh = elementwise(
    "tanh", np.tanh, math.tanh, partials=[lambda out: 1 - out * out], to_float=True,
    doc="Hyperbolic tangent.", **IN_PLACE,
)  # fmt: skip
asinh = elementwise(
    "asinh", np.arcsinh, math.asinh, partials=[lambda x: rsqrt(x * x + 1)], to_float=True,
    doc="Inverse hyperbolic sine.", names="asinh arcsinh", **IN_PLACE,
)  # fmt: skip
acosh = elementwise(
    "acosh",
    np.arccosh,
    math.acosh,
    partials=[lambda x: rsqrt(x * x - 1)],
    to_float=True,
    domain=(1.2, 4.0),
    doc="Inverse hyperbolic cosine.",
    names="acosh arccosh",
    **IN_PLACE,
)
atanh = elementwise(
    "atanh",
    np.arctanh,
    math.atanh,
    vjp=[lambda g, x: g / (1 - x * x)],
    to_float=True,
    domain=(-0.8, 0.8),
    doc="Inverse hyperbolic tangent.",
    names="atanh arctanh",
    **IN_PLACE,
)


def _square_sum(x: Any, y: Any) -> Any:
    """x² + y², and 1 at the origin, where the angle has no slope and gets the slope 0."""
    total = x * x + y * y
    return where(total == 0, 1.0, total)


# The angle of the point (y, x): as everywhere, the first operand is the height.
atan2 = elementwise(
    "atan2",
    np.arctan2,
    math.atan2,
    partials=[lambda x, y: y / _square_sum(x, y), lambda x, y: -x / _square_sum(x, y)],
    to_float=True,
    domain=((0.3, 3.0), (0.3, 3.0)),
    doc="The angle of the point (other, self).",
    names="atan2 arctan2",
    **IN_PLACE,
)
hypot = elementwise(
    "hypot",
    np.hypot,
    math.hypot,
    partials=[lambda x, out: x / out, lambda y, out: y / out],
    to_float=True,
    domain=((0.3, 3.0), (0.3, 3.0)),
    doc="√(self² + other²).",
    **IN_PLACE,
)
deg2rad = elementwise(
    "deg2rad",
    lambda x: x * (math.pi / 180),
    lambda x: x * (math.pi / 180),
    partials=[math.pi / 180],
    linear=True,
    to_float=True,
    doc="Degrees as radians.",
    **IN_PLACE,
)
rad2deg = elementwise(
    "rad2deg",
    lambda x: x * (180 / math.pi),
    lambda x: x * (180 / math.pi),
    partials=[180 / math.pi],
    linear=True,
    to_float=True,
    doc="Radians as degrees.",
    **IN_PLACE,
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
sinc = elementwise(
    "sinc", np.sinc, _sinc_number, partials=[_sinc_slope], to_float=True,
    formula={"x": "g × (cos(π × {x}) − {out}) / {x}, at 0 its limit 0"},
    doc="Sin(πx) / πx.", **SPECIAL,
)  # fmt: skip
