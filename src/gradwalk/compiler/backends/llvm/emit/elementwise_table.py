"""How each elementwise op of the op table becomes LLVM: one table, `EMITTERS`.

    emit(TABLE["add"], [x, 1], {}, x.type.dtype, function, lanes)  # a Vector

An emitter takes vectors of one dtype, the one that the op's rules make of its operands, and the
attributes; it rounds wherever NumPy rounds (`x * y + z` twice). Functions beyond arithmetic are in
`functions/`. An op that is not in the table runs in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.functions import (
    arithmetic,
    error,
    exponential,
    gamma,
    logarithm,
    trigonometric,
)
from gradwalk.compiler.backends.llvm.emit.ir_builder import IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import ELEMENTS, Type, Vector
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.ops.core.dtypes import (
    finfo,
    get_default_dtype,
    held_by,
    is_floating,
    is_half,
    result_dtype,
)
from gradwalk.ops.core.op import Op

Dtype = np.dtype[Any]
Emit = Callable[..., Vector]
# Kinds of dtypes, in NumPy's letters.
FLOATS, SIGNED, NUMBERS, ALL, WHOLE = "f", "fi", "fiu", "fiub", "iub"


class Emitter(NamedTuple):
    """What emits an op, for which kinds of dtypes, and whether that is a few instructions."""

    write: Emit
    kinds: str = ALL
    cheap: bool = True


class Literal(Vector):
    """A Python number as a vector: an emitter may look at it."""

    __slots__ = ("number",)

    def __init__(self, function: IRBuilder, kind: Type, number: float) -> None:
        super().__init__(function, kind, kind.constant(number))
        self.number = number


class _Typed(NamedTuple):
    """What the dtype rule reads of an operand."""

    dtype: Dtype
    shape: tuple[int, ...] = (1,)


_ONE_FLOAT = ({np.dtype(np.float32)}, {np.dtype(np.float64)})
# Attributes that an op on integers needs as integers.
_OF_THE_SAME_DTYPE = {
    "power": ("exponent",),
    "clip": ("min", "max"),
    "hardshrink": ("lambd",),
    "threshold": ("threshold", "value"),
}


def is_native(
    op: Op, operands: Sequence[Dtype | float], attrs: Mapping[str, Any] | None = None
) -> bool:
    """Whether an op can be emitted for operands of these dtypes; a number stands for itself.

    Without attributes the answer holds for suitable ones.
    """
    emitter = EMITTERS.get(op.name)
    if emitter is None or (attrs or {}).get("n", 0) > gamma.MOST_ORDER:
        return False
    if set(operands) in _ONE_FLOAT:  # nearly always
        return "f" in emitter.kinds
    dtypes = [d for d in operands if not isinstance(d, (int, float))]
    if any(np.dtype(d) not in ELEMENTS and not is_half(np.dtype(d)) for d in dtypes):
        return False
    given = [d if isinstance(d, (int, float)) else _Typed(np.dtype(d)) for d in operands]
    return _takes(op, _common(op, given), attrs or {})


def _takes(op: Op, common: Dtype, attrs: Mapping[str, Any]) -> bool:
    """Whether there is an emitter for operands of one dtype."""
    emitter = EMITTERS.get(op.name)
    if emitter is None or ("f" if is_half(common) else common.kind) not in emitter.kinds:
        return False
    if is_floating(common):
        return True
    # NumPy makes floats of integers if an attribute is one, against the dtype rule; it has no x⁻¹.
    limits = [attrs[name] for name in _OF_THE_SAME_DTYPE.get(op.name, ()) if name in attrs]
    whole = all(n is None or (n == int(n) and held_by(common, n) == n) for n in limits)
    return whole and not (op.name == "power" and attrs.get("exponent", 0) < 0)


def is_cheap(op: Op, attrs: Mapping[str, Any] | None = None) -> bool:
    """Whether computing an op again costs no more than keeping its result."""
    if op.name == "power" and attrs is not None:
        return attrs["exponent"] in (0, 1, 2, 3)
    return op.name in EMITTERS and EMITTERS[op.name].cheap


def emit(
    op: Op,
    args: Sequence[Vector | float],
    attrs: Mapping[str, Any],
    dtype: Any,
    function: IRBuilder,
    lanes: int,
) -> Vector:
    """Emit an op on vectors and Python numbers; `dtype` is that of the result."""
    dtype = np.dtype(dtype)
    attrs = {**op.defaults, **attrs}
    given = [_Typed(a.type.dtype) if isinstance(a, Vector) else a for a in args]
    common = dtype if op.gives is None and op.promotes else _common(op, given)
    if not _takes(op, common, attrs):
        raise NoKernel(f"{op.name} of {common} with {attrs} has no LLVM emitter")
    if op.gives is not None and common.kind in "iu":
        numbers = [a for a in args if not isinstance(a, Vector)]
        if any(held_by(common, number) != number for number in numbers):
            common = np.dtype(np.int64)  # an integer that uint8 cannot hold is compared exactly
    vectors = []
    for position, argument in enumerate(args):
        condition = isinstance(op.promotes, Sequence) and position not in op.promotes  # of `where`
        wanted = np.dtype(np.bool_) if condition else common
        if isinstance(argument, Vector):
            vectors.append(argument.to(wanted).spread(lanes))
        else:
            number = float(argument) if is_floating(wanted) else held_by(wanted, argument)
            vectors.append(Literal(function, Type(wanted, lanes), number))
    return EMITTERS[op.name].write(*vectors, **attrs).to(dtype)


def _common(op: Op, operands: Sequence[Any]) -> Dtype:
    """The dtype that the operands combine to: those that promote, or the only one."""
    if isinstance(op.promotes, Sequence):
        operands = [operands[position] for position in op.promotes]
    dtype = result_dtype(operands)
    return get_default_dtype() if op.to_float and not is_floating(dtype) else dtype


def _by_truth(truth: Emit, numbers: Emit) -> Emit:
    """One emitter for bools, another for numbers."""
    return lambda x, *others: (truth if x.type.dtype.kind == "b" else numbers)(x, *others)


# -- arithmetic ------------------------------------------------------------------------------------


def _pow(x: Vector, y: Vector) -> Vector:
    if not x.type.is_float:
        return arithmetic.integer_pow(x, y)
    return arithmetic.power(x, y.number) if isinstance(y, Literal) else arithmetic.pow(x, y)


def _power(x: Vector, exponent: float) -> Vector:
    """As NumPy's `power`: products and roots where it takes those."""
    if not x.type.is_float or exponent in (2, 3):
        return arithmetic.products(x, int(exponent))
    if exponent in (0.5, -0.5):
        root = x.intrinsic("sqrt")
        return root if exponent > 0 else 1.0 / root
    return arithmetic.power(x, exponent)


def _abs(x: Vector) -> Vector:
    if x.type.is_float:
        return x.absolute()
    return (x < 0).choose(-x, x) if x.type.dtype.kind == "i" else x


def _sign(x: Vector) -> Vector:
    zero = x + 0.0 if x.type.is_float else x  # also of −0; a NaN stays one
    return (x > 0).choose(x.constant(1), (x < 0).choose(x.constant(-1), zero))


def _rounding(name: str) -> Emit:
    return lambda x: x.intrinsic(name) if x.type.is_float else x


def _round(x: Vector, decimals: int) -> Vector:
    if not x.type.is_float or decimals == 0:
        return _rounding("rint")(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return (x * scale).intrinsic("rint") / scale
    return (x / scale).intrinsic("rint") * scale


# -- choosing --------------------------------------------------------------------------------------


def _extreme(beyond: str, limited: Emit, of_truth: Emit) -> Emit:
    """The larger (`beyond` is gt) or the smaller (lt) of two; a NaN on either side wins."""

    def write(x: Vector, y: Vector) -> Vector:
        if isinstance(x, Literal) and not isinstance(y, Literal):
            x, y = y, x
        if x.type.dtype.kind == "b":
            return of_truth(x, y)
        if not x.type.is_float or (isinstance(y, Literal) and not math.isnan(y.number)):
            return limited(x, y)
        return x.compare("ne", x).choose(x, x.compare(beyond, y).choose(x, y))

    return write


_maximum = _extreme("gt", Vector.at_least, lambda x, y: x | y)
_minimum = _extreme("lt", Vector.at_most, lambda x, y: x & y)


def _clip(x: Vector, min: float | None, max: float | None) -> Vector:
    if min is not None:
        x = _maximum(x, Literal(x.function, x.type, min))
    return x if max is None else _minimum(x, Literal(x.function, x.type, max))


def _hardtanh(x: Vector, min_val: float, max_val: float) -> Vector:
    return _clip(x, *(held_by(x.type.dtype, bound) for bound in (min_val, max_val)))


def _heaviside(x: Vector, values: Vector) -> Vector:
    step = (x > 0).to(x.type.dtype)
    return x.compare("eq", 0).choose(values, step)


def _nan_to_num(x: Vector, nan: float | None, posinf: float | None, neginf: float | None) -> Vector:
    if not x.type.is_float:
        return x
    largest = float(finfo(x.type.dtype).max)
    upper = largest if posinf is None else posinf
    lower = -largest if neginf is None else neginf
    out = x.compare("eq", math.inf).choose(x.constant(upper), x)
    out = x.compare("eq", -math.inf).choose(x.constant(lower), out)
    return x.compare("ne", x).choose(x.constant(0.0 if nan is None else nan), out)


def _lerp(start: Vector, end: Vector, weight: Vector) -> Vector:
    step = end - start
    if isinstance(weight, Literal):  # what is left of 1 is a Python number too
        far = end - step * (1 - weight.number)
        return start + weight * step if abs(weight.number) < 0.5 else far
    near = _abs(weight) < 0.5 if weight.type.is_float else weight.compare("eq", 0)
    return near.choose(start + weight * step, end - step * (1 - weight))


def _comparison(how: str) -> Emitter:
    return Emitter(lambda x, y: x.compare(how, y))


def _of_truth(write: Emit) -> Emitter:
    """An emitter on truth values."""
    return Emitter(lambda *operands: write(*(x.to(np.bool_) for x in operands)))


def _of_floats(test: Emit, of_others: bool) -> Emitter:
    """A test that integers all answer alike."""

    def write(x: Vector) -> Vector:
        kind = x.type.of(np.bool_)
        return test(x) if x.type.is_float else Vector(x.function, kind, kind.constant(of_others))

    return Emitter(write)


# -- functions made of others ----------------------------------------------------------------------


def _logaddexp(power: Emit, scale: float) -> Emit:
    """The logarithm of a sum of two powers; `scale` is log 2 in the base of the power."""

    def write(x: Vector, y: Vector) -> Vector:
        soft = _scaled(logarithm.log1p(power(-(x - y).absolute())), scale / math.log(2))
        return x.compare("eq", y).choose(x + scale, _maximum(x, y) + soft)

    return write


def _xlogy(x: Vector, y: Vector) -> Vector:
    zero = x.compare("eq", 0.0) & y.compare("eq", y)
    return zero.choose(x.constant(0.0), x * logarithm.log(y))


def _logit(x: Vector, eps: float | None) -> Vector:
    if eps is not None:
        x = _clip(x, eps, 1 - eps)
    return logarithm.log(x / (1.0 - x))


def _sinc(x: Vector) -> Vector:
    angle = x * math.pi
    zero = angle.compare("eq", 0.0)
    return zero.choose(x.constant(1.0), trigonometric.sin(angle) / angle)


# -- activations -----------------------------------------------------------------------------------


def _scaled(x: Vector, factor: float) -> Vector:
    """x × factor, and no instruction for a factor of 1."""
    return x if factor == 1 else x * factor


def _softplus(x: Vector, beta: float, threshold: float) -> Vector:
    """log(1 + e^(βx)) / β; x itself above the threshold."""
    steep = _scaled(x, beta)
    soft = logarithm.log1p(exponential.exp(-steep.absolute())) + steep.at_least(0.0)
    soft = soft if beta == 1 else soft / beta
    return (steep > threshold).choose(x, soft)


def _logsigmoid(x: Vector) -> Vector:
    """log σ(x), without overflow."""
    return x.at_most(0.0) - logarithm.log1p(exponential.exp(-x.absolute()))


def _elu(x: Vector, alpha: float, scale: float, input_scale: float) -> Vector:
    """x above 0, α (eˣ − 1) below, with the scales of celu and selu."""
    low = _scaled(exponential.expm1(_scaled(x, input_scale)), alpha * scale)
    return (x <= 0.0).choose(low, _scaled(x, scale))


def _six(x: Vector) -> Vector:
    """x + 3 limited to [0, 6]."""
    return (x + 3.0).at_least(0.0).at_most(6.0)


def _softshrink(x: Vector, lambd: float) -> Vector:
    """Towards 0 by λ, and 0 where that would cross it."""
    inside = (x < -lambd).choose(x + lambd, x * 0.0)
    return (x > lambd).choose(x - lambd, inside)


def _hardshrink(x: Vector, lambd: float) -> Vector:
    """0 where |x| ≤ λ."""
    return ((x >= -lambd) & (x <= lambd)).choose(x.constant(0), x)


def _threshold(x: Vector, threshold: float, value: float) -> Vector:
    """The value where x is not above the threshold."""
    return (x <= threshold).choose(x.constant(value), x)


# -- the table -------------------------------------------------------------------------------------


def _float(write: Emit) -> Emitter:
    return Emitter(write, FLOATS)


def _long(write: Emit, kinds: str = FLOATS) -> Emitter:
    return Emitter(write, kinds, cheap=False)


def _all_of(module: ModuleType, *names: str) -> dict[str, Emitter]:
    return {name: _long(getattr(module, name)) for name in names}


EMITTERS: dict[str, Emitter] = {
    "cast": Emitter(lambda x, dtype: x.to(dtype)),
    "zero": Emitter(lambda x: x.constant(0)),
    # arithmetic
    "add": Emitter(_by_truth(lambda x, y: x | y, lambda x, y: x + y)),
    "sub": Emitter(lambda x, y: x - y, NUMBERS),
    "neg": Emitter(lambda x: -x, NUMBERS),
    "mul": Emitter(_by_truth(lambda x, y: x & y, lambda x, y: x * y)),
    "div": _float(lambda x, y: x / y),
    "reciprocal": _float(lambda x: 1.0 / x),
    "square": Emitter(_by_truth(lambda x: x, lambda x: x * x)),
    "sqrt": _float(lambda x: x.intrinsic("sqrt")),
    "rsqrt": _float(lambda x: 1.0 / x.intrinsic("sqrt")),
    "abs": Emitter(_abs),
    "sign": Emitter(_by_truth(lambda x: x, _sign)),
    "floor": Emitter(_rounding("floor")),
    "ceil": Emitter(_rounding("ceil")),
    "trunc": Emitter(_rounding("trunc")),
    "frac": Emitter(lambda x: x - _rounding("trunc")(x), NUMBERS),
    "round": Emitter(_round, NUMBERS),
    "pow": _long(_pow, NUMBERS),
    "power": _long(_power, NUMBERS),
    "deg2rad": _float(lambda x: x * (math.pi / 180)),
    "rad2deg": _float(lambda x: x * (180 / math.pi)),
    # division with a remainder
    "div_floor": _long(arithmetic.floor_divide, NUMBERS),
    "floor_divide": _long(arithmetic.floor_divide, NUMBERS),
    "div_trunc": _long(arithmetic.divide_to_zero, NUMBERS),
    "remainder": _long(arithmetic.remainder, NUMBERS),
    "fmod": _long(arithmetic.fmod, NUMBERS),
    # choosing
    "where": Emitter(Vector.choose),
    "maximum": Emitter(_maximum),
    "minimum": Emitter(_minimum),
    "clip": Emitter(_clip, NUMBERS),
    "clamp_min": Emitter(_maximum),
    "clamp_max": Emitter(_minimum),
    "clip_between": Emitter(lambda x, min, max: _minimum(_maximum(x, min), max)),
    "copysign": _float(Vector.with_sign_of),
    "heaviside": Emitter(_heaviside),
    "nan_to_num": Emitter(_nan_to_num),
    "lerp": Emitter(_lerp, NUMBERS),
    # truth
    "equal": _comparison("eq"),
    "not_equal": _comparison("ne"),
    "less": _comparison("lt"),
    "less_equal": _comparison("le"),
    "greater": _comparison("gt"),
    "greater_equal": _comparison("ge"),
    "logical_and": _of_truth(lambda x, y: x & y),
    "logical_or": _of_truth(lambda x, y: x | y),
    "logical_xor": _of_truth(lambda x, y: x ^ y),
    "logical_not": _of_truth(lambda x: ~x),
    "isnan": _of_floats(lambda x: x.compare("ne", x), False),
    "isinf": _of_floats(lambda x: x.absolute().compare("eq", math.inf), False),
    "isfinite": _of_floats(lambda x: x.absolute() < math.inf, True),
    "bitwise_and": Emitter(lambda x, y: x & y, WHOLE),
    "bitwise_or": Emitter(lambda x, y: x | y, WHOLE),
    "bitwise_xor": Emitter(lambda x, y: x ^ y, WHOLE),
    "bitwise_not": Emitter(lambda x: ~x, WHOLE),
    # functions of the same names in functions/
    **_all_of(exponential, "exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid"),
    **_all_of(logarithm, "log", "log2", "log10", "log1p", "asinh", "acosh", "atanh"),
    **_all_of(trigonometric, "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    **_all_of(error, "erf", "erfc", "ndtr", "erfinv"),
    **_all_of(gamma, "lgamma", "digamma", "polygamma"),
    "hypot": _long(arithmetic.hypot),
    # functions made of those
    "logaddexp": _long(_logaddexp(exponential.exp, math.log(2))),
    "logaddexp2": _long(_logaddexp(exponential.exp2, 1.0)),
    "xlogy": _long(_xlogy),
    "logit": _long(_logit),
    "sinc": _long(_sinc),
    # activations
    "relu": Emitter(lambda x: x.at_least(0), NUMBERS),
    "leaky_relu": _float(lambda x, negative_slope: (x > 0.0).choose(x, x * negative_slope)),
    "softplus": _long(_softplus),
    "logsigmoid": _long(_logsigmoid),
    "silu": _long(lambda x: x * exponential.sigmoid(x)),
    "mish": _long(lambda x: x * exponential.tanh(_softplus(x, 1.0, 20.0))),
    "elu": _long(_elu),
    "hardtanh": Emitter(_hardtanh, NUMBERS),
    "hardsigmoid": _float(lambda x: _six(x) / 6.0),
    "hardswish": _float(lambda x: x * _six(x) / 6.0),
    "softshrink": _float(_softshrink),
    "hardshrink": Emitter(_hardshrink, SIGNED),
    "threshold": Emitter(_threshold, NUMBERS),
}
