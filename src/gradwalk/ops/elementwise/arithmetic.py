"""Arithmetic, powers and rounding."""

from __future__ import annotations

import math
import operator
from numbers import Number
from typing import Any, ClassVar

import numpy as np

from gradwalk.ops.core.dtypes import (
    bool_,
    float32,
    float64,
    has_gradients,
    int64,
    is_floating,
    result_dtype,
)
from gradwalk.ops.core.halves import as_half, half_of
from gradwalk.ops.core.op import Op, elementwise, unary
from gradwalk.ops.core.out import written
from gradwalk.ops.core.public import IN_PLACE, SPECIAL, Change, public
from gradwalk.ops.elementwise import complex_numbers
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast, clone, promoted


class Scaling(Op):
    """`add` and `sub`: PyTorch's take `alpha`, a factor of the second operand."""

    options: ClassVar[dict[str, Any]] = {"alpha": 1}

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        if len(args) == 3 and isinstance(args[1], Number):  # PyTorch's first order
            args, attrs = (args[0], args[2]), {"alpha": args[1], **attrs}
        if not attrs:
            return super().__call__(*args)
        args, attrs = self._by_name(args, attrs)
        alpha = attrs.pop("alpha", 1)
        if alpha != 1 and len(args) == 2:
            args = (args[0], _scaled(*args, alpha))
        return super().__call__(*args, **attrs)

    def change(self, x: Any, other: Any, alpha: float = 1) -> Any:
        """`Op.change`; in place, the sum must fit the dtype of x whatever alpha is."""
        return self, (x, other if alpha == 1 else other * alpha), {}


def _scaled(x: Any, y: Any, alpha: float) -> Any:
    """alpha × y, in the dtype that x and y combine to: alpha itself does not promote."""
    if not hasattr(y, "dtype"):
        return mul(y, alpha)
    dtype = result_dtype([x, y])
    if isinstance(alpha, float) and not has_gradients(dtype):
        raise TypeError(f"alpha = {alpha} would make a float of {dtype}; give an integer, or cast")
    product = mul(y if y.dtype.kind == dtype.kind else cast(y, dtype=dtype), alpha)
    return product if product.dtype.kind == dtype.kind else cast(product, dtype=dtype)


class Rounding(Op):
    """`div`: PyTorch's takes `rounding_mode`."""

    options: ClassVar[dict[str, Any]] = {"rounding_mode": None}

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        if not attrs:
            return super().__call__(*args)
        if "out" in attrs:
            return written(attrs.pop("out"), self(*args, **attrs))
        op, args, attrs = self.change(*args, **attrs)
        return Op.__call__(op, *args, **attrs)

    def change(self, *args: Any, rounding_mode: str | None = None, **attrs: Any) -> Any:
        """`Op.change`; a mode chooses another op."""
        modes = {None: self, "trunc": div_trunc, "floor": div_floor}
        if rounding_mode not in modes:
            raise ValueError(f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
        operands, attrs = self._by_name(args, attrs)
        halves = rounding_mode == "trunc" and half_of(operands) is not None
        if halves and _elements(operands[1]) > 1:
            # The quotient of halves is a half before it is cut; by a number it is not.
            # In place, an operand is overwritten, which the rule of the quotient must not see.
            copies = (clone(x) if hasattr(x, "shape") else x for x in operands)
            return trunc, (Op.__call__(self, *copies, **attrs),), {}
        return modes[rounding_mode], operands, attrs


def _elements(y: Any) -> int:
    return math.prod(getattr(y, "shape", ()))


add = elementwise(
    "add", np.add, operator.add, partials=[1, 1], symbol="+", linear=True, kind=Scaling,
    doc="self + alpha × other.", **IN_PLACE,
)  # fmt: skip
sub = elementwise(
    "sub", np.subtract, operator.sub, partials=[1, -1], symbol="−", linear=True, kind=Scaling,
    doc="self − alpha × other.", names="sub subtract", **IN_PLACE,
)  # fmt: skip
neg = unary(
    "neg", np.negative, -1, "−x.", number=operator.neg, symbol="−", linear=True, to_float=False
)
mul = elementwise(
    "mul",
    np.multiply,
    operator.mul,
    partials=[lambda y: y, lambda x: x],
    symbol="×",
    multilinear=True,
    names="mul multiply",
    doc="self × other.",
    **IN_PLACE,
)
div = elementwise(
    "div",
    np.true_divide,
    operator.truediv,
    # x / y again instead of `out`: so a quotient may be changed in place, as in PyTorch.
    vjp=[lambda g, y: g / y, lambda g, x, y: -g * (x / y / y)],
    symbol="/",
    to_float=True,
    on_complex=True,
    kind=Rounding,
    doc='self / other, rounded with mode "trunc" or "floor".',
    names="div divide true_divide",
    **IN_PLACE,
)


def _div_trunc_forward(x: Any, y: Any) -> Any:
    quotient = np.trunc(np.true_divide(x, y))
    if is_floating(np.result_type(x, y)):
        return quotient
    # Exact beyond 2⁵³ as well. The least integer has no absolute value: what a floor is too low by
    # where a remainder is left is added instead.
    down = np.floor_divide(x, y)
    low = (np.less(x, 0) != np.less(y, 0)) & np.not_equal(np.remainder(x, y), 0)
    return (down + low).astype(np.result_type(x, y), copy=False)


# The quotient rounded down, or towards zero: steps, like those below.
div_floor = elementwise("div_floor", lambda x, y: np.floor_divide(x, y), partials=[0, 0])
div_trunc = elementwise("div_trunc", _div_trunc_forward, partials=[0, 0])


zero = elementwise(
    "zero", lambda x: np.zeros_like(x), lambda x: 0.0, partials=[None], on_complex=True
)


def _pow_forward(x: Any, y: Any) -> Any:
    try:
        return np.power(x, y)
    except ValueError:
        if np.result_type(x, y).kind != "i" or not np.less(y, 0).any():
            raise
        # NumPy refuses x⁻ⁿ of integers. As in PyTorch it is 0, but ±1 where x is 1 or −1.
        inverse = np.where(np.abs(x) == 1, np.power(x, np.abs(y) % 2), 0)
        return np.where(np.less(y, 0), inverse, np.power(x, np.maximum(y, 0)))


def _complex_log(x: Any, y: Any) -> Any:
    """log x as a complex number. The sum makes x one; of one it would change −0 to 0, and so the
    side of the cut."""
    kind = getattr(getattr(x, "dtype", None), "kind", "f")
    return log(x if kind == "c" else x + zero(y))


# Apart from pow below because it asks for the sign of y, which complex numbers do not have.
complex_pow: Op = elementwise(
    "complex_pow",
    np.power,
    vjp=[
        lambda g, x, y: where(y == 0, 0, g * (y * complex_pow(x, y - 1))),
        lambda g, x, y, out: where(
            (x == 0) & (complex_numbers.real_part(y) >= 0), 0, g * (out * _complex_log(x, y))
        ),
    ],
    on_complex=True,
)
pow_op: Op = elementwise(
    "pow",
    _pow_forward,
    operator.pow,
    vjp=[
        # At y = 0 the slope is 0 also where 0 × x⁻¹ is not (x is 0 or NaN, so |x| > 0 does not
        # hold); only there, for the sake of d²/dxdy.
        lambda g, x, y: where((y != 0) | (abs(x) > 0), g * (y * pow_op(x, y - 1)), 0),
        lambda g, x, y, out: where((x == 0) & (y >= 0), 0, g * (out * log(x))),
    ],
    symbol="^",
    on_complex=complex_pow,
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


# `power` is xⁿ with a constant n, one input; `pow_op` is xʸ with two.
power = elementwise(
    "power", _power_forward, _power_number, partials=[_power_slope], symbol="^", on_complex=True
)


def _pow_in_place(x: Any, exponent: Any) -> Change:
    whole = getattr(getattr(x, "dtype", None), "kind", "f") in "biu"
    if isinstance(exponent, int) or (isinstance(exponent, float) and not whole):
        return power, (x,), {"exponent": as_half(exponent, getattr(x, "dtype", None))}
    return pow_op, (x, exponent), {}


@public(method=True, inplace=_pow_in_place)
def pow(input: Any, exponent: Any) -> Any:
    """x ** exponent: the op with one input if the exponent is a number, else the one with two."""
    if isinstance(exponent, (int, float)):
        dtype = getattr(input, "dtype", None)
        if dtype in (float32, float64):  # which a number neither widens nor is rounded to
            return power(input, exponent=exponent)
        return power(promoted(input, exponent), exponent=as_half(exponent, dtype))
    numbers = complex in (type(input), type(exponent))  # beside real tensors, too
    return (complex_pow if numbers else pow_op)(input, exponent)


square = elementwise(
    "square",
    lambda x: np.square(x) if x.dtype != bool_ else x.astype(int64),  # NumPy's would be int8
    lambda x: x * x,
    partials=[lambda x: 2 * x],
    symbol="²",
    gives=lambda dtype: int64 if dtype == bool_ else dtype,
    on_complex=True,
    doc="x².",
    **IN_PLACE,
)
sqrt = unary("sqrt", np.sqrt, lambda g, out: g / (2 * out), "√x.", symbol="√", on_complex=True)
rsqrt = unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda out: -0.5 * out * out * out,
    "1/√x.",
    number=lambda x: 1 / math.sqrt(x),
    on_complex=True,
)
abs: Op = unary(
    "abs",
    np.abs,
    lambda x: sign(x),
    "|x|.",
    number=operator.abs,
    to_float=False,
    on_complex=complex_numbers.modulus,
)


def _sign_number(x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


# Steps are flat: their gradient is zero wherever it exists, as in PyTorch.
sign: Op = elementwise(
    "sign",
    lambda x: np.sign(x) if x.dtype != bool_ else x.copy(),  # NumPy has no sign of booleans
    _sign_number,
    partials=[0],
    doc="−1, 0 or 1; its gradient is zero.",
    names="sign sgn",
    on_complex=complex_numbers.direction,
    **IN_PLACE,
)
# Python's integers have no −0.0: the sign of a number is that of its rounded one.
floor = elementwise(
    "floor", np.floor, lambda x: math.copysign(math.floor(x), x), partials=[0],
    doc="The integer below; its gradient is zero.", **IN_PLACE,
)  # fmt: skip
ceil = elementwise(
    "ceil", np.ceil, lambda x: math.copysign(math.ceil(x), x), partials=[0],
    doc="The integer above; its gradient is zero.", **IN_PLACE,
)  # fmt: skip
trunc = elementwise(
    "trunc", np.trunc, lambda x: math.copysign(math.trunc(x), x), partials=[0],
    doc="The integer towards zero; its gradient is zero.", names="trunc fix", **IN_PLACE,
)  # fmt: skip
frac = elementwise(
    "frac",
    lambda x: x - np.trunc(x),
    lambda x: x - math.copysign(math.trunc(x), x),
    partials=[1],
    doc="The fractional part: x − trunc(x).",
    **IN_PLACE,
)


round = elementwise(
    "round",
    lambda x, *, decimals=0: np.round(x, decimals).astype(x.dtype, copy=False),
    lambda x, decimals=0: _round_number(x, decimals),
    partials=[0],
    doc="Nearest integer, halves to even; its gradient is zero.",
    **SPECIAL,
)


def _round_number(x: float, decimals: int) -> float:
    import builtins

    # Python rounds 0.15 by its exact value, to 0.1; arrays by 1.5, to 0.2, as in PyTorch.
    return builtins.round(x, 0) if decimals == 0 else float(np.round(x, decimals))


_BOTH = "gradwalk special"


def _complex_log1p_forward(x: Any) -> Any:
    """NumPy's loses the real part near 0: it takes the logarithm of |1 + x| itself."""
    near = np.abs(x) < 0.5
    part = np.where(near, x, 0)
    out = np.array(np.log1p(x))
    out.real = np.where(near, np.log1p(part.real * (2 + part.real) + part.imag**2) / 2, out.real)
    return out


exp = unary("exp", np.exp, lambda out: out, "eˣ.", on_complex=True)
exp2 = unary(
    "exp2", np.exp2, lambda out: out * math.log(2), "2ˣ.", on_complex=True, namespaces=_BOTH
)
expm1 = unary(
    "expm1",
    np.expm1,
    lambda out: out + 1,
    "eˣ − 1, exact near 0.",
    on_complex=True,
    namespaces=_BOTH,
)
log: Op = unary("log", np.log, lambda g, x: g / x, "Natural logarithm.", on_complex=True)
log1p = unary(
    "log1p",
    np.log1p,
    lambda g, x: g / (1 + x),
    "Log(1 + x), exact near 0.",
    on_complex=elementwise(
        "complex_log1p",
        _complex_log1p_forward,
        vjp=[lambda g, x: g / (1 + x)],
        on_complex=True,
    ),
    namespaces=_BOTH,
)
log2 = unary(
    "log2", np.log2, lambda g, x: g / (x * math.log(2)), "Logarithm to base 2.", on_complex=True
)
log10 = unary(
    "log10", np.log10, lambda g, x: g / (x * math.log(10)), "Logarithm to base 10.", on_complex=True
)
reciprocal = unary(
    "reciprocal",
    np.reciprocal,
    lambda out: -(out * out),
    "1/x.",
    number=lambda x: 1 / x,
    on_complex=True,
)
