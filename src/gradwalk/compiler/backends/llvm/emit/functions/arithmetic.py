"""Powers, hypot, and division with a remainder, with NumPy's answers.

Floats are divided with a remainder through C's fmod, which is exact. Integers have answers where C
has none: by zero everything is 0, and the smallest number by −1 is itself, with remainder 0,
because its negative is no number of the dtype.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    all_lanes,
    c_library_in_double,
    is_single,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.exponential import exp
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.vector import Vector

MOST_PRODUCTS = 64  # largest whole exponent that is taken as products


def _is_signed(x: Vector) -> bool:
    """Whether lanes are signed integers."""
    return x.type.dtype.kind == "i"


@c_library_in_double("pow")
def pow(x: Vector, y: Vector) -> Vector:
    """xʸ with C's rules for zeros, infinities and negative x; float32 through float64."""
    size = x.absolute()
    out = through_double(lambda x, y: exp(log(x) * y), size, y)
    # log 1 × inf is NaN, and so is log 0 × 0; y = NaN is left alone here.
    one = x.constant(1.0)
    out = (size.compare("eq", 1.0) & y.compare("eq", y)).choose(one, out)
    out = (x.compare("eq", 1.0) | y.compare("eq", 0.0)).choose(one, out)
    whole = y.compare("eq", y.intrinsic("rint"))
    half = y * 0.5
    odd = whole & half.compare("ne", half.intrinsic("rint"))
    out = odd.choose(out.with_sign_of(x), out)
    undefined = (x < 0.0) & (x > -math.inf) & ~whole
    return undefined.choose(x.constant(math.nan), out)


def integer_pow(x: Vector, y: Vector) -> Vector:
    """xʸ of integers by repeated squaring; x⁻ⁿ is 0, but ±1 where x is 1 or −1."""
    function = x.function
    negative = y < 0
    start = [x.constant(1), x, negative.choose(y.constant(0), y)]
    bits = 8 * x.type.dtype.itemsize
    with function.loop(0, bits, carried=start, at_least_once=True) as loop:
        out, square, exponent = loop.carried
        odd = (exponent & 1).compare("ne", 0)
        out = odd.choose(out * square, out)
        loop.carry(out, square * square, exponent.unsigned_shift(1))
    out = loop.results[0]
    if not _is_signed(x):
        return out
    odd = (y & 1).compare("ne", 0)
    inverse = x.compare("eq", -1).choose(odd.choose(x, x.constant(1)), x.constant(0))
    inverse = x.compare("eq", 1).choose(x, inverse)
    return negative.choose(inverse, out)


def products(x: Vector, exponent: int) -> Vector:
    """xⁿ for n ≥ 0 by repeated squaring, rounded after each product."""
    out: Vector | None = None
    square = x
    while exponent:
        if exponent & 1:
            out = square if out is None else out * square
        exponent >>= 1
        if exponent:
            square = square * square
    return x.constant(1) if out is None else out


def power(x: Vector, exponent: float) -> Vector:
    """xⁿ for a constant n.

    In float32 a whole n means products in float64, rounded once at the end; in float64 itself
    many products would lose digits.
    """
    most = MOST_PRODUCTS if is_single(x) else 4
    if not math.isfinite(exponent) or exponent != int(exponent) or abs(exponent) > most:
        return pow(x, x.constant(exponent))
    whole = int(exponent)
    if whole in (-1, 0, 1, 2):
        return 1.0 / x if whole == -1 else products(x, whole)
    if not is_single(x):
        return products(x, whole) if whole > 0 else pow(x, x.constant(exponent))
    if whole < 0:
        return through_double(lambda x: 1.0 / products(x, -whole), x)
    return through_double(lambda x: products(x, whole), x)


@c_library_in_double("hypot")
def hypot(x: Vector, y: Vector) -> Vector:
    """√(x² + y²), without overflow in between."""
    out = through_double(lambda x, y: (x * x + y * y).intrinsic("sqrt"), x, y)
    infinite = x.absolute().compare("eq", math.inf) | y.absolute().compare("eq", math.inf)
    return infinite.choose(x.constant(math.inf), out)  # also beside a NaN


# -- division --------------------------------------------------------------------------------------


def _of_integers(name: str, x: Vector, y: Vector) -> Vector:
    """LLVM's division instruction, by 1 where it has no answer; by zero the result is 0."""
    zero = unsafe = y.compare("eq", 0)
    if _is_signed(x):
        smallest = x.compare("eq", -(1 << (8 * x.type.dtype.itemsize - 1)))
        unsafe = zero | (smallest & y.compare("eq", -1))
    divisor = unsafe.choose(y.constant(1), y)
    result = x.instruction(f"{'s' if _is_signed(x) else 'u'}{name}", divisor)
    return zero.choose(x.constant(0), result)


def divide_to_zero(x: Vector, y: Vector) -> Vector:
    """The quotient rounded towards 0."""
    return (x / y).intrinsic("trunc") if x.type.is_float else _of_integers("div", x, y)


def fmod(x: Vector, y: Vector) -> Vector:
    """What is left, with the sign of x."""
    return all_lanes("fmod", x, y) if x.type.is_float else _of_integers("rem", x, y)


def _has_other_sign(left: Vector, y: Vector) -> Vector:
    """Whether something is left, with another sign than that of y."""
    some = left.compare("ne", 0)
    return some & ((y < 0.0) ^ (left < 0.0) if y.type.is_float else (left ^ y) < 0)


def floor_divide(x: Vector, y: Vector) -> Vector:
    """The quotient rounded down; floats by zero are inf or NaN."""
    if not x.type.is_float:
        quotient = divide_to_zero(x, y)
        if not _is_signed(x):
            return quotient
        return _has_other_sign(fmod(x, y), y).choose(quotient - 1, quotient)
    left = fmod(x, y)
    exact = (x - left) / y
    quotient = _has_other_sign(left, y).choose(exact - 1.0, exact)
    floor = quotient.intrinsic("floor")
    floor = (quotient - floor > 0.5).choose(floor + 1.0, floor)
    simple = x / y
    zero = x.constant(0.0).with_sign_of(simple)
    out = quotient.compare("eq", 0.0).choose(zero, floor)
    return y.compare("eq", 0.0).choose(simple, out)


def remainder(x: Vector, y: Vector) -> Vector:
    """What is left, with the sign of y; floats by zero are NaN."""
    left = fmod(x, y)
    if not x.type.is_float:
        return _has_other_sign(left, y).choose(left + y, left) if _is_signed(x) else left
    zero = x.constant(0.0).with_sign_of(y)
    moved = _has_other_sign(left, y).choose(left + y, left)
    out = left.compare("eq", 0.0).choose(zero, moved)
    return y.compare("eq", 0.0).choose(x.constant(math.nan), out)
