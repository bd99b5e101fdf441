"""Arithmetic, powers and rounding."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bool_, int64, result_dtype
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast

__all__ = [
    "abs", "add", "ceil", "div", "exp", "exp2", "expm1", "floor", "frac", "log", "log10", "log1p",
    "log2", "mul", "neg", "reciprocal", "round", "rsqrt", "sgn", "sign", "sqrt", "square", "sub",
    "true_divide", "trunc",
]  # fmt: skip


class Scaling(Op):
    """`add` and `sub`: PyTorch's take `alpha`, a factor of the second operand."""

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        if not attrs:
            return super().__call__(*args)
        args, attrs = self._by_name(args, attrs)
        alpha = attrs.pop("alpha", 1)
        if alpha != 1 and len(args) == 2:
            args = (args[0], _scaled(*args, alpha))
        return super().__call__(*args, **attrs)


def _scaled(x: Any, y: Any, alpha: float) -> Any:
    """alpha × y, in the dtype that x and y combine to: alpha itself does not promote."""
    if not hasattr(y, "dtype"):
        return mul(y, alpha)
    dtype = result_dtype([x, y])
    if isinstance(alpha, float) and dtype.kind != "f":
        raise TypeError(f"alpha = {alpha} would make a float of {dtype}; give an integer, or cast")
    product = mul(y if y.dtype.kind == dtype.kind else cast(y, dtype=dtype), alpha)
    return product if product.dtype.kind == dtype.kind else cast(product, dtype=dtype)


class Rounding(Op):
    """`div`: PyTorch's takes `rounding_mode`."""

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        if not attrs:
            return super().__call__(*args)
        args, attrs = self._by_name(args, attrs)
        mode = attrs.pop("rounding_mode", None)
        if mode not in (None, "trunc", "floor"):
            raise ValueError(f"rounding_mode is None, 'trunc' or 'floor', not {mode!r}")
        if mode is None:
            return super().__call__(*args, **attrs)
        return (div_floor if mode == "floor" else div_trunc)(*args, **attrs)


add = elementwise(
    "add", np.add, operator.add, partials=[1, 1], symbol="+", linear=True, kind=Scaling
)
sub = elementwise(
    "sub", np.subtract, operator.sub, partials=[1, -1], symbol="−", linear=True, kind=Scaling
)
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
    kind=Rounding,
)


def _div_trunc_forward(x: Any, y: Any) -> Any:
    quotient = np.trunc(np.true_divide(x, y))
    if np.result_type(x, y).kind == "f":
        return quotient
    return (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)  # exact beyond 2⁵³ as well


# The quotient rounded down, or towards zero: steps, like those below.
div_floor = elementwise(
    "div_floor", lambda x, y: np.floor_divide(x, y), partials=[0, 0], domain=((1.2, 1.6), (0.9, 1))
)
div_trunc = elementwise(
    "div_trunc", _div_trunc_forward, partials=[0, 0], domain=((1.2, 1.6), (0.9, 1))
)


zero = elementwise("zero", lambda x: np.zeros_like(x), lambda x: 0.0, partials=[None])


def _pow_forward(x: Any, y: Any) -> Any:
    try:
        return np.power(x, y)
    except ValueError:
        if np.result_type(x, y).kind != "i" or not np.less(y, 0).any():
            raise
        # NumPy refuses x⁻ⁿ of integers. As in PyTorch it is 0, but ±1 where x is 1 or −1.
        inverse = np.where(np.abs(x) == 1, np.power(x, np.abs(y) % 2), 0)
        return np.where(np.less(y, 0), inverse, np.power(x, np.maximum(y, 0)))


pow: Op = elementwise(
    "pow",
    _pow_forward,
    operator.pow,
    vjp=[
        # At y = 0 the slope is 0 also where 0 × x⁻¹ is not (x is 0 or NaN, so |x| > 0 does not
        # hold); only there, for the sake of d²/dxdy.
        lambda g, x, y: where((y != 0) | (abs(x) > 0), g * (y * pow(x, y - 1)), 0),
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


def _square_forward(x: Any) -> Any:
    return np.square(x) if x.dtype != bool_ else x.astype(int64)  # NumPy's would be int8


square = elementwise(
    "square",
    _square_forward,
    lambda x: x * x,
    partials=[lambda x: 2 * x],
    symbol="²",
    gives=lambda dtype: int64 if dtype == bool_ else dtype,
)
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
abs: Op = elementwise(
    "abs",
    np.abs,
    operator.abs,
    partials=[lambda x: sign(x)],
    domain=(0.2, 4.0),
)


def _sign_forward(x: Any) -> Any:
    return np.sign(x) if x.dtype != bool_ else x.copy()  # of booleans NumPy knows no sign


def _sign_number(x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


# Steps are flat: their gradient is zero wherever it exists, as in PyTorch.
sign: Op = elementwise("sign", _sign_forward, _sign_number, partials=[0], domain=(0.2, 4.0))
floor = elementwise(
    "floor", np.floor, lambda x: float(math.floor(x)), partials=[0], domain=(0.2, 0.8)
)
ceil = elementwise("ceil", np.ceil, lambda x: float(math.ceil(x)), partials=[0], domain=(0.2, 0.8))
trunc = elementwise(
    "trunc", np.trunc, lambda x: float(math.trunc(x)), partials=[0], domain=(0.2, 0.8)
)
frac = elementwise(
    "frac",
    lambda x: x - np.trunc(x),
    lambda x: x - math.trunc(x),
    partials=[1],
    domain=(0.2, 0.8),
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

    # Python rounds 0.15 by its exact value, to 0.1; arrays by 1.5, to 0.2, as in PyTorch.
    return builtins.round(x, 0) if decimals == 0 else float(np.round(x, decimals))


exp = elementwise("exp", np.exp, math.exp, partials=[lambda out: out], to_float=True)
exp2 = elementwise(
    "exp2", np.exp2, math.exp2, partials=[lambda out: out * math.log(2)], to_float=True
)
expm1 = elementwise("expm1", np.expm1, math.expm1, partials=[lambda out: out + 1], to_float=True)
log: Op = elementwise(
    "log", np.log, math.log, vjp=[lambda g, x: g / x], to_float=True, domain=(0.2, 4.0)
)
log1p = elementwise(
    "log1p", np.log1p, math.log1p, vjp=[lambda g, x: g / (1 + x)], to_float=True, domain=(-0.5, 4.0)
)
log2 = elementwise(
    "log2",
    np.log2,
    math.log2,
    vjp=[lambda g, x: g / (x * math.log(2))],
    to_float=True,
    domain=(0.2, 4.0),
)
log10 = elementwise(
    "log10",
    np.log10,
    math.log10,
    vjp=[lambda g, x: g / (x * math.log(10))],
    to_float=True,
    domain=(0.2, 4.0),
)
reciprocal = elementwise(
    "reciprocal",
    np.reciprocal,
    lambda x: 1 / x,
    partials=[lambda out: -(out * out)],
    to_float=True,
    domain=(0.3, 4.0),
)

# PyTorch's other names.
sgn = sign
true_divide = div
