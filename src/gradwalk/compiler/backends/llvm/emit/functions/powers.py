"""Powers, hypot and lgamma."""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    all_lanes,
    c_library_in_double,
    is_single,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.division import is_signed
from gradwalk.compiler.backends.llvm.emit.functions.exponential import exp
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.vector import Vector

MOST_PRODUCTS = 64  # largest whole exponent that is taken as products


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
    if not is_signed(x):
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


def lgamma(x: Vector) -> Vector:
    """log |Γ(x)|, the C library's; float32 through float64."""
    return all_lanes("lgamma", x.to(DOUBLE)).to(x.type.dtype)
