"""Arithmetic, powers and rounding."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradwalk.ops.choice import where
from gradwalk.ops.op import Op, elementwise

__all__ = [
    "abs", "add", "div", "exp", "expm1", "floor", "log", "log1p", "mul", "neg", "round",
    "rsqrt", "sign", "sqrt", "square", "sub",
]  # fmt: skip

add = elementwise("add", np.add, operator.add, partials=[1, 1], symbol="+", linear=True)
sub = elementwise("sub", np.subtract, operator.sub, partials=[1, -1], symbol="−", linear=True)
neg = elementwise("neg", np.negative, operator.neg, partials=[-1], symbol="−", linear=True)
mul = elementwise(
    "mul",
    np.multiply,
    operator.mul,
    partials=[lambda y: y, lambda x: x],
    symbol="×",
    multilinear=True,
)
div = elementwise(
    "div",
    np.true_divide,
    operator.truediv,
    # x / y again instead of `out`: so a quotient may be changed in place, as in PyTorch.
    vjp=[lambda g, y: g / y, lambda g, x, y: -g * (x / y / y)],
    symbol="/",
    to_float=True,
    domain=((-4.0, 4.0), (0.5, 4.0)),
)


zero = elementwise("zero", lambda x: np.zeros_like(x), lambda x: 0.0, partials=[None])
pow: Op = elementwise(
    "pow",
    np.power,
    operator.pow,
    vjp=[
        # At y = 0 the slope is 0 also where 0 × x⁻¹ is not; only there, for the sake of d²/dxdy.
        lambda g, x, y: where((y == 0) & ((x == 0) | (x != x)), 0, g * (y * pow(x, y - 1))),
        lambda g, x, y, out: where((x == 0) & (y >= 0), 0, g * (out * log(x))),
    ],
    symbol="^",
    domain=((0.3, 3.0), (-2.0, 3.0)),
)


def _power_forward(x: Any, *, exponent: float) -> Any:
    # The common exponents as products and roots: np.power is many times slower, no more exact.
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent == 0.5:
        return np.sqrt(x)
    if exponent == -0.5:
        return 1 / np.sqrt(x)
    return np.power(x, exponent)


def _power_number(x: float, exponent: float) -> float:
    if exponent == 0.5:
        return math.sqrt(x)
    if exponent == -0.5:
        return 1 / math.sqrt(x)
    return x**exponent


def _power_slope(x: Any, exponent: float) -> Any:
    if exponent == 0:
        return zero(x)  # also at x = 0, where 0 * x ** -1 would be NaN
    if exponent == 1:
        return 1
    if exponent == 2:
        return 2 * x
    return exponent * power(x, exponent=exponent - 1)


# `power` is xⁿ with a constant n, one input; `pow` is xʸ with two.
power = elementwise(
    "power",
    _power_forward,
    _power_number,
    partials=[_power_slope],
    symbol="^",
    domain=(0.3, 3.0),
)

square = elementwise("square", np.square, lambda x: x * x, partials=[lambda x: 2 * x], symbol="²")
sqrt = elementwise(
    "sqrt",
    np.sqrt,
    math.sqrt,
    vjp=[lambda g, out: g / (2 * out)],
    symbol="√",
    to_float=True,
    domain=(0.2, 4.0),
)
rsqrt = elementwise(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda x: 1 / math.sqrt(x),
    partials=[lambda out: -0.5 * out * out * out],
    to_float=True,
    domain=(0.2, 4.0),
)
abs = elementwise(
    "abs",
    np.abs,
    operator.abs,
    partials=[lambda x: sign(x)],
    domain=(0.2, 4.0),
)


def _sign_number(x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


# Steps are flat: their gradient is zero wherever it exists, as in PyTorch.
sign: Op = elementwise("sign", np.sign, _sign_number, partials=[0], domain=(0.2, 4.0))
floor = elementwise(
    "floor", np.floor, lambda x: float(math.floor(x)), partials=[0], domain=(0.2, 0.8)
)


def _round_forward(x: Any, *, decimals: int = 0) -> Any:
    return np.round(x, decimals)


round = elementwise(
    "round",
    _round_forward,
    lambda x, decimals=0: _round_number(x, decimals),
    partials=[0],
    domain=(0.1, 0.4),
)


def _round_number(x: float, decimals: int) -> float:
    import builtins

    return float(builtins.round(x, decimals))


exp = elementwise("exp", np.exp, math.exp, partials=[lambda out: out], to_float=True)
expm1 = elementwise("expm1", np.expm1, math.expm1, partials=[lambda out: out + 1], to_float=True)
log: Op = elementwise(
    "log", np.log, math.log, vjp=[lambda g, x: g / x], to_float=True, domain=(0.2, 4.0)
)
log1p = elementwise(
    "log1p", np.log1p, math.log1p, vjp=[lambda g, x: g / (1 + x)], to_float=True, domain=(-0.5, 4.0)
)
