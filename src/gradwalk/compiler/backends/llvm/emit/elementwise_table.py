"""How each elementwise op of the op table is written in LLVM: one table, `SPELLINGS`.

    spell(TABLE["add"], [x, 1], {}, x.kind.dtype, function, lanes)  # a Value

A spelling takes values of one dtype, the one that the op's rules make of its operands, and the
attributes; what NumPy rounds is rounded here (`x * y + z` twice). Functions beyond arithmetic are
in `functions/`. An op that is not in the table runs in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit import integer_arithmetic
from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.functions import (
    error,
    exponential,
    gamma,
    inverse_error,
    logarithm,
    networks,
    powers,
    remainders,
    trigonometric,
)
from gradwalk.compiler.backends.llvm.emit.functions.pieces import all_lanes
from gradwalk.compiler.backends.llvm.emit.vector_values import ELEMENTS, Kind, Value
from gradwalk.ops.core.dtypes import get_default_dtype, held_by, result_dtype
from gradwalk.ops.core.op import Op

Dtype = np.dtype[Any]
# Kinds of dtypes, in NumPy's letters.
FLOATS, SIGNED, NUMBERS, ALL, WHOLE = "f", "fi", "fiu", "fiub", "iub"


class Spelling(NamedTuple):
    """What writes an op, for which kinds of dtypes, and whether that is a few instructions."""

    write: Callable[..., Value]
    kinds: str = ALL
    cheap: bool = True


class Unspelled(Exception):
    """An op, or an op on this dtype, that is not in the table."""


class Number(Value):
    """A Python number as a value: a spelling may look at it."""

    __slots__ = ("number",)

    def __init__(self, function: Function, kind: Kind, number: float) -> None:
        super().__init__(function, kind, kind.constant(number))
        self.number = number


class _Operand(NamedTuple):
    """What the dtype rule asks of an operand."""

    dtype: Dtype
    shape: tuple[int, ...] = (1,)


def is_native(
    op: Op, operands: Sequence[Dtype | float], attrs: Mapping[str, Any] | None = None
) -> bool:
    """Whether an op can be written for operands of these dtypes; a number stands for itself.

    Without the attributes the answer is for those that suit.
    """
    spelling = SPELLINGS.get(op.name)
    if spelling is None or (attrs or {}).get("n", 0) > gamma.MOST_ORDER:
        return False
    if set(operands) in _ONE_FLOAT:  # nearly always
        return "f" in spelling.kinds
    dtypes = [d for d in operands if not isinstance(d, (int, float))]
    if any(np.dtype(d) not in ELEMENTS for d in dtypes):
        return False
    given = [d if isinstance(d, (int, float)) else _Operand(np.dtype(d)) for d in operands]
    return _takes(op, _common(op, given), attrs or {})


_ONE_FLOAT = ({np.dtype(np.float32)}, {np.dtype(np.float64)})
# Attributes that an op on integers needs as integers.
_OF_THE_SAME_DTYPE = {
    "power": ("exponent",),
    "clip": ("min", "max"),
    "hardshrink": ("lambd",),
    "threshold": ("threshold", "value"),
}


def _takes(op: Op, common: Dtype, attrs: Mapping[str, Any]) -> bool:
    """Whether there is a spelling for operands of one dtype."""
    spelling = SPELLINGS.get(op.name)
    if spelling is None or common.kind not in spelling.kinds:
        return False
    if common.kind == "f":
        return True
    # NumPy makes floats of integers if an attribute is one, against the dtype rule; x⁻¹ it refuses.
    limits = [attrs[name] for name in _OF_THE_SAME_DTYPE.get(op.name, ()) if name in attrs]
    whole = all(n is None or (n == int(n) and held_by(common, n) == n) for n in limits)
    return whole and not (op.name == "power" and attrs.get("exponent", 0) < 0)


def is_cheap(op: Op, attrs: Mapping[str, Any] | None = None) -> bool:
    """Whether writing an op again costs no more than keeping what it gave."""
    if op.name == "power" and attrs is not None:
        return attrs["exponent"] in (0, 1, 2, 3)
    return op.name in SPELLINGS and SPELLINGS[op.name].cheap


def spell(
    op: Op,
    args: Sequence[Value | float],
    attrs: Mapping[str, Any],
    dtype: Any,
    function: Function,
    lanes: int,
) -> Value:
    """Write an op on values and Python numbers; `dtype` is that of the result."""
    dtype = np.dtype(dtype)
    attrs = {**op.defaults, **attrs}
    given = [_Operand(a.kind.dtype) if isinstance(a, Value) else a for a in args]
    common = dtype if op.gives is None and op.promotes else _common(op, given)
    if not _takes(op, common, attrs):
        raise Unspelled(f"{op.name} of {common} with {attrs} has no spelling in LLVM")
    if op.gives is not None and common.kind in "iu" and not _all_held(common, args):
        common = np.dtype(np.int64)  # an integer that uint8 cannot hold is compared exactly
    values = []
    for position, argument in enumerate(args):
        condition = isinstance(op.promotes, Sequence) and position not in op.promotes  # of `where`
        wanted = np.dtype(np.bool_) if condition else common
        values.append(_as_value(argument, wanted, function, lanes))
    return SPELLINGS[op.name].write(*values, **attrs).to(dtype)


def _common(op: Op, operands: Sequence[Any]) -> Dtype:
    """The dtype that the operands combine to: those that promote, or the only one."""
    if isinstance(op.promotes, Sequence):
        operands = [operands[position] for position in op.promotes]
    found = result_dtype(operands)
    return get_default_dtype() if op.to_float and found.kind != "f" else found


def _all_held(dtype: Dtype, args: Sequence[Value | float]) -> bool:
    return all(isinstance(a, Value) or held_by(dtype, a) == a for a in args)


def _as_value(argument: Value | float, dtype: Dtype, function: Function, lanes: int) -> Value:
    if isinstance(argument, Value):
        return argument.to(dtype).spread(lanes)
    number = float(argument) if dtype.kind == "f" else held_by(dtype, argument)
    return Number(function, Kind(dtype, lanes), number)


# -- arithmetic ------------------------------------------------------------------------------------


def _is_bool(x: Value) -> bool:
    return x.kind.dtype.kind == "b"


def _add(x: Value, y: Value) -> Value:
    return x | y if _is_bool(x) else x + y


def _mul(x: Value, y: Value) -> Value:
    return x & y if _is_bool(x) else x * y


def _square(x: Value) -> Value:
    return x if _is_bool(x) else x * x


def _pow(x: Value, y: Value) -> Value:
    if not x.kind.is_float:
        return integer_arithmetic.pow(x, y)
    return powers.power(x, y.number) if isinstance(y, Number) else powers.pow(x, y)


def _power(x: Value, exponent: float) -> Value:
    """As `power` does it in NumPy: products and roots where it takes those."""
    if not x.kind.is_float or exponent in (2, 3):
        return powers.products(x, int(exponent))
    if exponent in (0.5, -0.5):
        root = x.intrinsic("sqrt")
        return root if exponent > 0 else 1.0 / root
    return powers.power(x, exponent)


def _abs(x: Value) -> Value:
    if x.kind.is_float:
        return x.absolute()
    return (x < 0).choose(-x, x) if x.kind.dtype.kind == "i" else x


def _sign(x: Value) -> Value:
    if _is_bool(x):
        return x
    zero = x + 0.0 if x.kind.is_float else x  # also of −0; a NaN stays one
    return (x > 0).choose(x.constant(1), (x < 0).choose(x.constant(-1), zero))


def _rounding(name: str) -> Callable[[Value], Value]:
    return lambda x: x.intrinsic(name) if x.kind.is_float else x


def _round(x: Value, decimals: int) -> Value:
    if not x.kind.is_float or decimals == 0:
        return _rounding("rint")(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return (x * scale).intrinsic("rint") / scale
    return (x / scale).intrinsic("rint") * scale


def _frac(x: Value) -> Value:
    return x - _rounding("trunc")(x)


def _sqrt(x: Value) -> Value:
    return x.intrinsic("sqrt")


# -- division with a remainder ---------------------------------------------------------------------


def _floor_divide(x: Value, y: Value) -> Value:
    return (
        remainders.floor_divide(x, y) if x.kind.is_float else integer_arithmetic.floor_divide(x, y)
    )


def _div_trunc(x: Value, y: Value) -> Value:
    return (x / y).intrinsic("trunc") if x.kind.is_float else integer_arithmetic.divide(x, y)


def _remainder(x: Value, y: Value) -> Value:
    return remainders.remainder(x, y) if x.kind.is_float else integer_arithmetic.remainder(x, y)


def _fmod(x: Value, y: Value) -> Value:
    return all_lanes("fmod", x, y) if x.kind.is_float else integer_arithmetic.fmod(x, y)


# -- choosing --------------------------------------------------------------------------------------


def _maximum(x: Value, y: Value) -> Value:
    """The larger; a NaN on either side wins."""
    if isinstance(x, Number) and not isinstance(y, Number):
        x, y = y, x
    if _is_bool(x):
        return x | y
    if not x.kind.is_float or (isinstance(y, Number) and y.number == y.number):
        return x.at_least(y)
    return x.compare("ne", x).choose(x, (x > y).choose(x, y))


def _minimum(x: Value, y: Value) -> Value:
    """The smaller; a NaN on either side wins."""
    if isinstance(x, Number) and not isinstance(y, Number):
        x, y = y, x
    if _is_bool(x):
        return x & y
    if not x.kind.is_float or (isinstance(y, Number) and y.number == y.number):
        return x.at_most(y)
    return x.compare("ne", x).choose(x, (x < y).choose(x, y))


def _clip(x: Value, min: float | None, max: float | None) -> Value:
    if min is not None:
        x = _maximum(x, Number(x.function, x.kind, min))
    return x if max is None else _minimum(x, Number(x.function, x.kind, max))


def _hardtanh(x: Value, min_val: float, max_val: float) -> Value:
    return _clip(x, *(held_by(x.kind.dtype, bound) for bound in (min_val, max_val)))


def _where(condition: Value, x: Value, y: Value) -> Value:
    return condition.choose(x, y)


def _heaviside(x: Value, values: Value) -> Value:
    step = (x > 0).to(x.kind.dtype)
    return x.compare("eq", 0).choose(values, step)


def _nan_to_num(x: Value, nan: float | None, posinf: float | None, neginf: float | None) -> Value:
    if not x.kind.is_float:
        return x
    largest = float(np.finfo(x.kind.dtype).max)
    upper = largest if posinf is None else posinf
    lower = -largest if neginf is None else neginf
    out = x.compare("eq", math.inf).choose(x.constant(upper), x)
    out = x.compare("eq", -math.inf).choose(x.constant(lower), out)
    return x.compare("ne", x).choose(x.constant(0.0 if nan is None else nan), out)


def _lerp(start: Value, end: Value, weight: Value) -> Value:
    step = end - start
    if isinstance(weight, Number):  # what is left of 1 is a Python number too
        far = end - step * (1 - weight.number)
        return start + weight * step if abs(weight.number) < 0.5 else far
    near = _abs(weight) < 0.5 if weight.kind.is_float else weight.compare("eq", 0)
    return near.choose(start + weight * step, end - step * (1 - weight))


def _truth(x: Value) -> Value:
    return x.to(np.bool_)


def _comparison(how: str) -> Callable[[Value, Value], Value]:
    return lambda x, y: x.compare(how, y)


def _of_floats(test: Callable[[Value], Value], of_others: bool) -> Callable[[Value], Value]:
    """A question that integers all answer alike."""

    def write(x: Value) -> Value:
        if x.kind.is_float:
            return test(x)
        kind = x.kind.of(np.bool_)
        return Value(x.function, kind, kind.constant(of_others))

    return write


# -- logarithms and more --------------------------------------------------------------------------


def _logaddexp(x: Value, y: Value) -> Value:
    soft = logarithm.log1p(exponential.exp(-(x - y).absolute()))
    return x.compare("eq", y).choose(x + math.log(2), _maximum(x, y) + soft)


def _logaddexp2(x: Value, y: Value) -> Value:
    soft = logarithm.log1p(exponential.exp2(-(x - y).absolute())) * (1 / math.log(2))
    return x.compare("eq", y).choose(x + 1.0, _maximum(x, y) + soft)


def _xlogy(x: Value, y: Value) -> Value:
    zero = x.compare("eq", 0.0) & y.compare("eq", y)
    return zero.choose(x.constant(0.0), x * logarithm.log(y))


def _logit(x: Value, eps: float | None) -> Value:
    if eps is not None:
        x = _clip(x, eps, 1 - eps)
    return logarithm.log(x / (1.0 - x))


def _sinc(x: Value) -> Value:
    angle = x * math.pi
    zero = angle.compare("eq", 0.0)
    return zero.choose(x.constant(1.0), trigonometric.sin(angle) / angle)


# -- the table -------------------------------------------------------------------------------------


def _float(write: Callable[..., Value]) -> Spelling:
    return Spelling(write, FLOATS)


def _long(write: Callable[..., Value]) -> Spelling:
    return Spelling(write, FLOATS, cheap=False)


SPELLINGS: dict[str, Spelling] = {
    "cast": Spelling(lambda x, dtype: x.to(dtype)),
    "zero": Spelling(lambda x: x.constant(0)),
    # arithmetic
    "add": Spelling(_add),
    "sub": Spelling(lambda x, y: x - y, NUMBERS),
    "neg": Spelling(lambda x: -x, NUMBERS),
    "mul": Spelling(_mul),
    "div": _float(lambda x, y: x / y),
    "reciprocal": _float(lambda x: 1.0 / x),
    "square": Spelling(_square),
    "sqrt": _float(_sqrt),
    "rsqrt": _float(lambda x: 1.0 / _sqrt(x)),
    "abs": Spelling(_abs),
    "sign": Spelling(_sign),
    "floor": Spelling(_rounding("floor")),
    "ceil": Spelling(_rounding("ceil")),
    "trunc": Spelling(_rounding("trunc")),
    "frac": Spelling(_frac, NUMBERS),
    "round": Spelling(_round, NUMBERS),
    "pow": Spelling(_pow, NUMBERS, cheap=False),
    "power": Spelling(_power, NUMBERS, cheap=False),
    "deg2rad": _float(lambda x: x * (math.pi / 180)),
    "rad2deg": _float(lambda x: x * (180 / math.pi)),
    # division with a remainder
    "div_floor": Spelling(_floor_divide, NUMBERS, cheap=False),
    "floor_divide": Spelling(_floor_divide, NUMBERS, cheap=False),
    "div_trunc": Spelling(_div_trunc, NUMBERS, cheap=False),
    "remainder": Spelling(_remainder, NUMBERS, cheap=False),
    "fmod": Spelling(_fmod, NUMBERS, cheap=False),
    # choosing
    "where": Spelling(_where),
    "maximum": Spelling(_maximum),
    "minimum": Spelling(_minimum),
    "clip": Spelling(_clip, NUMBERS),
    "clamp_min": Spelling(lambda x, min: _maximum(x, min)),
    "clamp_max": Spelling(lambda x, max: _minimum(x, max)),
    "clip_between": Spelling(lambda x, min, max: _minimum(_maximum(x, min), max)),
    "copysign": _float(lambda x, y: x.with_sign_of(y)),
    "heaviside": Spelling(_heaviside),
    "nan_to_num": Spelling(_nan_to_num),
    "lerp": Spelling(_lerp, NUMBERS),
    # truth
    "equal": Spelling(_comparison("eq")),
    "not_equal": Spelling(_comparison("ne")),
    "less": Spelling(_comparison("lt")),
    "less_equal": Spelling(_comparison("le")),
    "greater": Spelling(_comparison("gt")),
    "greater_equal": Spelling(_comparison("ge")),
    "logical_and": Spelling(lambda x, y: _truth(x) & _truth(y)),
    "logical_or": Spelling(lambda x, y: _truth(x) | _truth(y)),
    "logical_xor": Spelling(lambda x, y: _truth(x) ^ _truth(y)),
    "logical_not": Spelling(lambda x: ~_truth(x)),
    "isnan": Spelling(_of_floats(lambda x: x.compare("ne", x), False)),
    "isinf": Spelling(_of_floats(lambda x: x.absolute().compare("eq", math.inf), False)),
    "isfinite": Spelling(_of_floats(lambda x: x.absolute() < math.inf, True)),
    "bitwise_and": Spelling(lambda x, y: x & y, WHOLE),
    "bitwise_or": Spelling(lambda x, y: x | y, WHOLE),
    "bitwise_xor": Spelling(lambda x, y: x ^ y, WHOLE),
    "bitwise_not": Spelling(lambda x: ~x, WHOLE),
    # exponential functions and logarithms
    "exp": _long(exponential.exp),
    "exp2": _long(exponential.exp2),
    "expm1": _long(exponential.expm1),
    "sinh": _long(exponential.sinh),
    "cosh": _long(exponential.cosh),
    "tanh": _long(exponential.tanh),
    "sigmoid": _long(exponential.sigmoid),
    "log": _long(logarithm.log),
    "log2": _long(logarithm.log2),
    "log10": _long(logarithm.log10),
    "log1p": _long(logarithm.log1p),
    "asinh": _long(logarithm.asinh),
    "acosh": _long(logarithm.acosh),
    "atanh": _long(logarithm.atanh),
    "logaddexp": _long(_logaddexp),
    "logaddexp2": _long(_logaddexp2),
    "xlogy": _long(_xlogy),
    "logit": _long(_logit),
    # angles
    "sin": _long(trigonometric.sin),
    "cos": _long(trigonometric.cos),
    "tan": _long(trigonometric.tan),
    "asin": _long(trigonometric.asin),
    "acos": _long(trigonometric.acos),
    "atan": _long(trigonometric.atan),
    "atan2": _long(trigonometric.atan2),
    "hypot": _long(powers.hypot),
    "sinc": _long(_sinc),
    # special functions
    "erf": _long(error.erf),
    "erfc": _long(error.erfc),
    "ndtr": _long(error.ndtr),
    "erfinv": _long(inverse_error.erfinv),
    "lgamma": _long(powers.lgamma),
    "digamma": _long(gamma.digamma),
    "polygamma": _long(gamma.polygamma),
    # functions of networks
    "relu": Spelling(lambda x: x.at_least(0), NUMBERS),
    "leaky_relu": _float(networks.leaky_relu),
    "softplus": _long(networks.softplus),
    "logsigmoid": _long(networks.logsigmoid),
    "silu": _long(lambda x: x * exponential.sigmoid(x)),
    "mish": _long(lambda x: x * exponential.tanh(networks.softplus(x, 1.0, 20.0))),
    "elu": _long(networks.elu),
    "hardtanh": Spelling(_hardtanh, NUMBERS),
    "hardsigmoid": _float(lambda x: networks.six(x) / 6.0),
    "hardswish": _float(lambda x: x * networks.six(x) / 6.0),
    "softshrink": _float(networks.softshrink),
    "hardshrink": Spelling(networks.hardshrink, SIGNED),
    "threshold": Spelling(networks.threshold, NUMBERS),
}
