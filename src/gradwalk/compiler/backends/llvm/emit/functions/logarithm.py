"""log and its relatives: log2, log10, log1p, asinh, acosh, atanh.

x = 2ⁿ · (1 + f) with 2/3 ≤ 1 + f < 4/3, so log x = n log 2 + log(1 + f). In float32 the latter is
f − f²/2 + f³ q(f); in float64 it is 2 artanh s with s = f / (2 + f), an odd series that needs half
the terms. The coefficients are minimax fits.
"""

from __future__ import annotations

import math

import numpy as np

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    SINGLE,
    c_library_in_double,
    format_of,
    in_parts,
    is_single,
    polynomial,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.exponential import LOG_2
from gradwalk.compiler.backends.llvm.emit.vector import Vector

SPLIT_LOG_2 = in_parts(LOG_2, DOUBLE)
LOG2_E = in_parts("1.44269504088896340735992468100189214", SINGLE)
LOG10_E = in_parts("0.434294481903251827651128918916605082", SINGLE)
LOG10_2 = in_parts("0.301029995663981195213738894724493027", SINGLE)

# float32: log(1 + f) = f − f²/2 + f³ q(f)
CURVE = (
    -0.1287408024072647, 0.13986706733703613, -0.12188415229320526, 0.1400534063577652,
    -0.16680178046226501, 0.20010444521903992, -0.2499980479478836, 0.3333321511745453,
)  # fmt: skip
# float64: 2 artanh s = s (2 + z q(z)) with z = s²
SERIES = (
    0.13840696413029469, 0.13173939304306556, 0.15391092296762424, 0.18181666449333264,
    0.22222224287660078, 0.285714285558946, 0.4000000000005649, 0.666666666666666,
)  # fmt: skip


def _exponent(bits: Vector, layout_of: Vector, extra: Vector | float = 0.0) -> Vector:
    """n + extra as a float, from an integer that holds n + bias above the fraction."""
    layout = format_of(layout_of)
    one = 2.0**layout.fraction_bits  # its last bit counts ones
    counted = bits.unsigned_shift(layout.fraction_bits) | layout.bits_of(one)
    return counted.bits(layout.dtype) - (one + layout.bias) + extra


def _split(x: Vector) -> tuple[Vector, Vector]:
    """n and f for a positive x, subnormal ones included."""
    layout = format_of(x)
    digits = float(layout.fraction_bits)
    subnormal = x < layout.smallest_normal
    bits = subnormal.choose(x * 2.0**digits, x).bits(layout.integer)
    low = layout.bits_of(2 / 3)
    moved = bits + (layout.bits_of(1.0) - low)
    n = _exponent(moved, x, subnormal.choose(x.constant(-digits), x.constant(0.0)))
    fraction = (moved & ((1 << layout.fraction_bits) - 1)) + low
    return n, fraction.bits(layout.dtype) - 1.0


def _curve(f: Vector) -> Vector:
    """q in log(1 + f) = f + f² q, float32, for −1/3 ≤ f ≤ 1/3."""
    return polynomial(f, (*CURVE, -0.5))


def _sum(n: Vector, f: Vector) -> Vector:
    """n log 2 + log(1 + f)."""
    if is_single(n):
        return n.fused(math.log(2), _curve(f).fused(f * f, f))
    high, low = SPLIT_LOG_2
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * f * f
    # 2 artanh s = f − (f²/2 − s (f²/2 + z q(z))): the terms but f are small, and so their errors
    rest = s * polynomial(z, SERIES).fused(z, half_square)
    return n.fused(high, f - (half_square - n.fused(low, rest)))


def _with_limits(x: Vector, out: Vector) -> Vector:
    """−inf at 0, NaN below, and x itself where it is inf or NaN."""
    out = (x < math.inf).choose(out, x)
    edge = x.compare("eq", 0.0).choose(x.constant(-math.inf), x.constant(math.nan))
    return (x <= 0.0).choose(edge, out)


def log(x: Vector) -> Vector:
    """The natural logarithm; 30 instructions in float32."""
    return _with_limits(x, _sum(*_split(x)))


@c_library_in_double("log2")
def log2(x: Vector) -> Vector:
    """The logarithm to base 2, exact for powers of two."""
    n, f = _split(x)
    high, low = LOG2_E
    small = (_curve(f) * (f * f)).fused(high, f * low)
    return _with_limits(x, n + f.fused(high, small))


@c_library_in_double("log10")
def log10(x: Vector) -> Vector:
    """The logarithm to base 10."""
    n, f = _split(x)
    high, low = LOG10_E
    small = (_curve(f) * (f * f)).fused(high, f.fused(low, n * LOG10_2[1]))
    return _with_limits(x, n.fused(LOG10_2[0], f.fused(high, small)))


def log1p(x: Vector) -> Vector:
    """log(1 + x), exact also near 0: n is that of 1 + x, but f is made of x itself."""
    layout = format_of(x)
    one, low = layout.bits_of(1.0), layout.bits_of(2 / 3)
    moved = (x + 1.0).bits(layout.integer) + (one - low)
    n_bits = (moved & ~((1 << layout.fraction_bits) - 1)) - one  # n, where an exponent stands
    down = (one - n_bits).at_least(0).bits(layout.dtype)  # 2⁻ⁿ, or 0 if that is subnormal
    f = (x.bits(layout.integer) - n_bits).bits(layout.dtype) + (down - 1.0)  # x 2⁻ⁿ + 2⁻ⁿ − 1
    out = _with_limits(x + 1.0, _sum(_exponent(moved, x), f))
    return (x.absolute() < 2.0 ** (-layout.fraction_bits - 2)).choose(x, out)


@c_library_in_double("asinh")
def asinh(x: Vector) -> Vector:
    """log(x + √(x² + 1)) of |x|, with the sign of x."""

    def in_double(x: Vector) -> Vector:
        square = x * x
        return log1p(x + square / ((square + 1.0).intrinsic("sqrt") + 1.0))

    size = x.absolute()
    out = through_double(in_double, size.at_most(float(np.finfo(SINGLE).max)))
    # An infinite square would make a NaN of the quotient.
    return size.compare("eq", math.inf).choose(size, out).with_sign_of(x)


@c_library_in_double("acosh")
def acosh(x: Vector) -> Vector:
    """log(x + √(x² − 1)), with x − 1 in place of x so that nothing cancels near 1."""

    def in_double(x: Vector) -> Vector:
        above = x - 1.0
        return log1p(above + (above * (x + 1.0)).intrinsic("sqrt"))

    return through_double(in_double, (x >= 1.0).choose(x, x.constant(math.nan)))


@c_library_in_double("atanh")
def atanh(x: Vector) -> Vector:
    """½ log((1 + x) / (1 − x))."""
    return through_double(lambda x: 0.5 * log1p((x + x) / (1.0 - x)), x)
