"""Element by element: arithmetic, comparisons, choices, activations, special functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwalk.compiler.backends.xla.forwards.promotion import common, is_float, promoting, wide
from gradwalk.ops.core.dtypes import held_by

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
_CUBE = 0.044715  # the constant of the tanh form of gelu

# -- division ------------------------------------------------------------------------------------


def _over(x: Any, y: Any, divide: Callable[[Any, Any], Any]) -> Any:
    """A quotient or remainder of integers: 0 where y is 0."""
    none = y == 0
    return jnp.where(none, 0, divide(x, jnp.where(none, 1, y))).astype(y.dtype)


def _floor_divide(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if not is_float(x, y):
        return _over(x, y, jnp.floor_divide)
    # From the exact remainder: floor(x / y) of a rounded x / y may be one too large.
    rest = jnp.fmod(x, y)
    steps = jnp.round((x - rest) / y - ((rest != 0) & ((y < 0) != (rest < 0))))
    steps = jnp.where(steps == 0, jnp.copysign(0.0, x / y), steps)
    return jnp.where(y == 0, x / y, steps).astype(rest.dtype)


def _remainder(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if not is_float(x, y):
        return jnp.remainder(x, y)
    rest = jnp.remainder(x, y)
    return jnp.where(rest == 0, jnp.copysign(rest, y), rest)  # a zero has the sign of y as well


def _div_trunc(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if is_float(x, y):
        # XLA would multiply by the reciprocal of a constant y, and 49 × (1 / 49) is less than 1.
        # So y is made to depend on x, for a NaN, which makes the quotient one anyway.
        return jnp.trunc(jnp.true_divide(x, jnp.where(jnp.isnan(x), x, y)))
    return _over(x, y, lambda a, b: lax.div(*jnp.broadcast_arrays(a, b)))


def _div(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if is_float(x, y):
        return jnp.true_divide(x, y)
    return jnp.true_divide(*(lax.convert_element_type(n, np.float64) for n in (x, y)))


# -- powers and rounding -------------------------------------------------------------------------


def _pow(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if is_float(x, y):
        return jnp.power(*(lax.convert_element_type(n, jnp.result_type(x, y)) for n in (x, y)))
    # x⁻ⁿ of integers is 0, but ±1 where x is 1 or −1.
    inverse = jnp.where(jnp.abs(x) == 1, jnp.where(y % 2 == 0, 1, x), 0)
    return jnp.where(y < 0, inverse, jnp.power(x, jnp.maximum(y, 0))).astype(x.dtype)


_POWERS: dict[float, Callable[[Any], Any]] = {
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    0.5: jnp.sqrt,
    -0.5: lambda x: 1 / jnp.sqrt(x),
}


def _power(x: Any, *, exponent: float) -> Any:
    known = _POWERS.get(exponent)
    return _pow(x, exponent) if known is None else known(x)


def _round(x: Any, *, decimals: int = 0) -> Any:
    if decimals == 0 or (decimals > 0 and not is_float(x)):
        return jnp.rint(x) if is_float(x) else x
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return jnp.rint(x * scale) / scale
    return (jnp.rint(x / scale) * scale).astype(x.dtype)


def _sign(x: Any) -> Any:
    """−1, 0 or 1; NumPy's sign of −0.0 is 0.0."""
    return x if x.dtype == bool else jnp.where(x == 0, jnp.zeros_like(x), jnp.sign(x))


# -- comparisons ---------------------------------------------------------------------------------


def _exact(number: Any, other: Any) -> Any:
    """An integer to compare with an array; one that int64 does not hold becomes an infinity."""
    if type(number) is not int:
        return number
    if is_float(other):
        return float(number)
    fits = -(2**63) <= number < 2**63
    return np.int64(number) if fits else math.copysign(math.inf, number)


def _comparing(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison with NumPy's promotion; that of uint8 with 300 is exact."""
    return lambda x, y: compare(*common(_exact(x, y), _exact(y, x)))


# -- choices -------------------------------------------------------------------------------------


def _bound(x: Any, number: float) -> float:
    """An integer as a bound of an integer array: one beyond its dtype is the end of that."""
    if type(number) is not int or x.dtype.kind not in "iu":
        return number
    ends = np.iinfo(x.dtype)
    return max(int(ends.min), min(int(ends.max), number))


def _clip(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    if min is not None:
        x = promoting(jnp.maximum)(x, _bound(x, min))
    return x if max is None else promoting(jnp.minimum)(x, _bound(x, max))


def _hardtanh(x: Any, *, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return _clip(x, min=held_by(x.dtype, min_val), max=held_by(x.dtype, max_val))


def _heaviside(x: Any, values: Any) -> Any:
    x, values = common(x, values)
    dtype = jnp.result_type(x, values)
    return jnp.where(x == 0, values, x > 0).astype(dtype)


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    start, end, weight = common(start, end, weight)
    # From the nearer end, so that weight 1 gives exactly `end`.
    step = end - start
    return jnp.where(jnp.abs(weight) < 0.5, start + weight * step, end - step * (1 - weight))


def _softshrink(x: Any, *, lambd: float = 0.5) -> Any:
    inner = jnp.where(x < -lambd, x + lambd, x * 0)
    return jnp.where(x > lambd, x - lambd, inner).astype(x.dtype)


# -- activations ---------------------------------------------------------------------------------


def _softplus(x: Any, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = x * beta
    soft = (jnp.log1p(jnp.exp(-jnp.abs(scaled))) + jnp.maximum(scaled, 0)) / beta
    return jnp.where(scaled > threshold, x, soft)


def _gelu_tanh(x: Any) -> Any:
    inner = (x * x * (_ROOT_TWO_OVER_PI * _CUBE) + _ROOT_TWO_OVER_PI) * x
    return (jnp.tanh(inner) + 1) * 0.5 * x


def _elu(x: Any, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    return jnp.where(x <= 0, jnp.expm1(x * input_scale) * (alpha * scale), x * scale)


# -- special functions ---------------------------------------------------------------------------


def _ndtr(x: Any) -> Any:
    return 0.5 * lax.erfc(x * -_ROOT_HALF)


def _digamma(x: Any) -> Any:
    return jnp.where(x == 0, jnp.copysign(math.inf, -x), lax.digamma(x))  # the pole between signs


def _zeta(s: int, x: Any) -> Any:
    return jnp.where(x == math.inf, 0.0, lax.zeta(jnp.full_like(x, s), x))


def _slope_of_cot(n: int) -> Any:
    """The derivative of order n of cot, a polynomial in cot: its coefficients, the highest first.

    Each further derivative is −(1 + cot²) times that of the polynomial.
    """
    slope = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        slope = -np.polynomial.Polynomial([1.0, 0.0, 1.0]) * slope.deriv()
    return slope.coef[::-1]


def _polygamma(x: Any, *, n: int) -> Any:
    if n == 0:
        return _digamma(x)
    # Reflected to the right half, where the series of zeta is short; left of −8 it would be wrong.
    left = x < 0.5
    sign = (-1.0) ** (n + 1)
    size = (math.factorial(n) if n <= 170 else math.inf) * _zeta(n + 1, jnp.where(left, 1 - x, x))
    cot = 1 / jnp.tan(math.pi * (x - jnp.round(x)))
    slope = jnp.polyval(_slope_of_cot(n).astype(x.dtype), cot) * math.pi ** (n + 1)
    out = jnp.where(left, -slope - size, sign * size)
    return jnp.where(left & (x == jnp.floor(x)), sign * math.inf, out)  # the poles


def _xlogy(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    return jnp.where((x == 0) & ~jnp.isnan(y), 0, x * jnp.log(y))


def _logit(x: Any, *, eps: float | None = None) -> Any:
    x = x if eps is None else jnp.clip(x, eps, 1 - eps)
    return jnp.log(x / (1 - x))


# -- the table -----------------------------------------------------------------------------------

_PROMOTING: dict[str, Callable[..., Any]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "atan2": jnp.arctan2,
    "hypot": jnp.hypot,
    "logaddexp": jnp.logaddexp,
    "logaddexp2": jnp.logaddexp2,
    "fmod": jnp.fmod,
    "copysign": jnp.copysign,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "clamp_min": jnp.maximum,
    "clamp_max": jnp.minimum,
    "clip_between": lambda x, min, max: jnp.minimum(jnp.maximum(x, min), max),
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "equal": jnp.equal,
    "not_equal": jnp.not_equal,
    "less": jnp.less,
    "less_equal": jnp.less_equal,
    "greater": jnp.greater,
    "greater_equal": jnp.greater_equal,
}


def _gelu(x: Any) -> Any:
    return x * _ndtr(x)


def _value_and_gradient(name: str, function: Callable[[Any], Any]) -> dict[str, Any]:
    """An activation, and its gradient from x alone, both rounded once.

    The barrier keeps XLA from saving what the forward computed for the gradient: reading x again is
    cheaper than writing and reading that, which may be wider than x.
    """

    def value(x: Any) -> Any:
        return function(wide(x)).astype(x.dtype)

    def gradient(g: Any, x: Any) -> Any:
        again = wide(lax.optimization_barrier(x))
        _, slope = jax.jvp(function, (again,), (jnp.ones_like(again),))
        return (wide(g) * slope).astype(g.dtype)

    return {f"{name}_forward": value, f"{name}_backward": gradient}


FORWARDS: dict[str, Callable[..., Any]] = {
    **{name: promoting(function) for name, function in _PROMOTING.items()},
    **{name: _comparing(function) for name, function in _COMPARISONS.items()},
    # arithmetic
    "neg": jnp.negative,
    "div": _div,
    "div_floor": _floor_divide,
    "div_trunc": _div_trunc,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "zero": jnp.zeros_like,
    "pow": _pow,
    "power": _power,
    "square": lambda x: jnp.square(x) if x.dtype != bool else x.astype(np.int64),
    "sqrt": jnp.sqrt,
    "rsqrt": lambda x: 1 / jnp.sqrt(x),
    "abs": jnp.abs,
    "sign": _sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "trunc": jnp.trunc,
    "frac": lambda x: x - jnp.trunc(x),
    "round": _round,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "log10": jnp.log10,
    "reciprocal": jnp.reciprocal,
    # trigonometry
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "tanh": jnp.tanh,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "sinc": jnp.sinc,
    # special functions
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erfinv": lax.erf_inv,
    "ndtr": _ndtr,
    "lgamma": lax.lgamma,
    "digamma": _digamma,
    "polygamma": _polygamma,
    "xlogy": _xlogy,
    "logit": _logit,
    # predicates and logic
    "isnan": jnp.isnan,
    "isinf": jnp.isinf,
    "isfinite": jnp.isfinite,
    "logical_and": jnp.logical_and,
    "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
    "logical_not": jnp.logical_not,
    "bitwise_not": jnp.bitwise_not,
    # choices
    "where": lambda condition, x, y: jnp.where(condition, *common(x, y)),
    "clip": _clip,
    "heaviside": _heaviside,
    "nan_to_num": lambda x, *, nan=None, posinf=None, neginf=None: jnp.nan_to_num(
        x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf
    ),
    "lerp": _lerp,
    # activations
    "sigmoid": lax.logistic,
    "relu": lambda x: jnp.maximum(x, 0),
    "leaky_relu": lambda x, *, negative_slope=0.01: jnp.where(x > 0, x, x * negative_slope),
    "softplus": _softplus,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    **{
        name: each
        for like, function in {"gelu": _gelu, "gelu_tanh": _gelu_tanh}.items()
        for name, each in _value_and_gradient(like, function).items()
    },
    "silu": lambda x: x * lax.logistic(x),
    "mish": lambda x: x * jnp.tanh(_softplus(x)),
    "logsigmoid": lambda x: jnp.minimum(x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x))),
    "elu": _elu,
    "hardtanh": _hardtanh,
    "hardsigmoid": lambda x: jnp.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * jnp.clip(x + 3, 0, 6) / 6,
    "softshrink": _softshrink,
    "hardshrink": lambda x, *, lambd=0.5: jnp.where(
        (x >= -lambd) & (x <= lambd), jnp.zeros_like(x), x
    ),
    "threshold": lambda x, *, threshold=0.0, value=0.0: jnp.where(
        x <= threshold, x.dtype.type(value), x
    ),
}
