"""Circular and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import is_complex_dtype
from gradwalk.ops.core.op import Op, elementwise, unary
from gradwalk.ops.core.public import FLOAT, public
from gradwalk.ops.elementwise.arithmetic import rsqrt
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import complex

sin = unary("sin", np.sin, lambda x: cos(x), "Sine.", on_complex=True)
cos: Op = unary("cos", np.cos, lambda x: -sin(x), "Cosine.", on_complex=True)
tan = unary("tan", np.tan, lambda out: 1 + out * out, "Tangent.", on_complex=True)
asin = unary("asin", np.arcsin, lambda x: rsqrt(1 - x * x), "Arc sine.", on_complex=True)
acos = unary("acos", np.arccos, lambda x: -rsqrt(1 - x * x), "Arc cosine.", on_complex=True)
atan = unary("atan", np.arctan, lambda g, x: g / (1 + x * x), "Arc tangent.", on_complex=True)
sinh = unary("sinh", np.sinh, lambda x: cosh(x), "Hyperbolic sine.", on_complex=True)
cosh: Op = unary("cosh", np.cosh, lambda x: sinh(x), "Hyperbolic cosine.", on_complex=True)
tanh = unary("tanh", np.tanh, lambda out: 1 - out * out, "Hyperbolic tangent.", on_complex=True)
asinh = unary(
    "asinh", np.arcsinh, lambda x: rsqrt(x * x + 1), "Inverse hyperbolic sine.", on_complex=True
)


def _acosh_slope(x: Any) -> Any:
    # Of a complex number with a negative real part, the root of x² − 1 has the opposite sign.
    if hasattr(x, "dtype") and is_complex_dtype(x.dtype):
        return rsqrt(x - 1) * rsqrt(x + 1)
    return rsqrt(x * x - 1)


acosh = unary("acosh", np.arccosh, _acosh_slope, "Inverse hyperbolic cosine.", on_complex=True)
atanh = unary(
    "atanh",
    np.arctanh,
    lambda g, x: g / (1 - x * x),
    "Inverse hyperbolic tangent.",
    on_complex=True,
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
    names="atan2 arctan2",
    doc="The angle of the point (other, self).",
    **FLOAT,
)
hypot = elementwise(
    "hypot",
    np.hypot,
    math.hypot,
    partials=[lambda x, out: x / out, lambda y, out: y / out],
    doc="√(self² + other²).",
    **FLOAT,
)


@public()
def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers of their size and angle: abs·cos(angle) + i·abs·sin(angle).

    >>> import gradwalk as gw
    >>> gw.polar(gw.tensor([2.0]), gw.tensor([0.0]))
    tensor([2.+0.j])
    """
    return complex(abs * cos(angle), abs * sin(angle))


_deg2rad = lambda x: x * (math.pi / 180)
_rad2deg = lambda x: x * (180 / math.pi)
deg2rad = unary(
    "deg2rad", _deg2rad, math.pi / 180, "Degrees as radians.", number=_deg2rad, linear=True
)
rad2deg = unary(
    "rad2deg", _rad2deg, 180 / math.pi, "Radians as degrees.", number=_rad2deg, linear=True
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


sinc = unary(
    "sinc",
    np.sinc,
    _sinc_slope,
    "Sin(πx) / πx.",
    number=_sinc_number,
    formula={"x": "g × (cos(π × {x}) − {out}) / {x}, at 0 its limit 0"},
    namespaces="gradwalk special",
)
