"""exp and its relatives: exp2, expm1, sigmoid, tanh, sinh, cosh.

eˣ = 2ⁿ · eʳ with n the integer nearest to x / log 2, so |r| ≤ log 2 / 2, and eʳ a polynomial. The
coefficients are minimax fits rounded one after another (the rest fitted again after each).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    SINGLE,
    c_library_in_double,
    format_of,
    in_parts,
    is_single,
    polynomial,
    power_of_two,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.vector import Vector

LOG_2 = "0.693147180559945309417232121458176568"


class Exponential(NamedTuple):
    """Coefficients and ranges of one dtype."""

    log_2: tuple[float, ...]  # to twice as many digits
    curve: tuple[float, ...]  # q in eʳ = 1 + r + r² q(r), the highest power first
    zero_below: float  # from here on eˣ is 0
    infinite_above: float
    settled: float  # 1 + e⁻ˣ is 1 from here on
    room: int  # powers of two between the smallest normal number and the smallest of all, or more


# q in eʳ = 1 + r + r² q(r)
CURVE_SINGLE = (
    0.0013820999301970005, 0.00836867094039917, 0.04166826233267784, 0.1666652113199234,
    0.4999999403953552,
)  # fmt: skip
CURVE_DOUBLE = (
    2.5020074850572813e-08, 2.763090755114223e-07, 2.755752164644174e-06, 2.4801491030993337e-05,
    0.00019841269581196487, 0.0013888888945921057, 0.008333333333458665, 0.04166666666651975,
    0.16666666666666471, 0.5000000000000012,
)  # fmt: skip
CONSTANTS = {
    SINGLE: Exponential(
        in_parts(LOG_2, SINGLE),
        CURVE_SINGLE,
        zero_below=-104.0,
        infinite_above=89.0,
        settled=20.0,
        room=32,
    ),
    DOUBLE: Exponential(
        in_parts(LOG_2, DOUBLE),
        CURVE_DOUBLE,
        zero_below=-746.0,
        infinite_above=710.0,
        settled=40.0,
        room=64,
    ),
}
# 2ᶠ = 1 + f q(f) for |f| ≤ ½, float32
POWER = (
    0.0001532928872620687, 0.0013390971580520272, 0.00961849931627512, 0.05550359562039375,
    0.24022647738456726, 0.6931471824645996,
)  # fmt: skip


def reduced(x: Vector, offset: int) -> tuple[Vector, Vector]:
    """x = n log 2 + r: a float with n + offset in its last bits, and r."""
    high, low = CONSTANTS[x.type.dtype].log_2
    base = format_of(x).to_integer + offset
    shifted = x.fused(1 / math.log(2), base)
    n = shifted - base
    return shifted, n.fused(-low, n.fused(-high, x))


def near_zero(r: Vector) -> Vector:
    """eʳ for |r| ≤ log 2 / 2."""
    return polynomial(r, (*CONSTANTS[r.type.dtype].curve, 1.0, 1.0))


def near_zero_less_one(r: Vector) -> Vector:
    """eʳ − 1 for |r| ≤ log 2 / 2, with a small error relative to itself."""
    return (polynomial(r, CONSTANTS[r.type.dtype].curve) * r).fused(r, r)


def _scaled(value: Vector, shifted: Vector) -> Vector:
    """value · 2ⁿ, rounded once where that is subnormal; `shifted` holds n + twice the bias.

    In two steps, since 2ⁿ may be no number of this dtype where the product is one.
    """
    layout = format_of(value)
    exponent = shifted.bits(layout.integer)
    half = exponent.unsigned_shift(1)
    for part in (half, exponent - half):
        value = value * (part << layout.fraction_bits).bits(layout.dtype)
    return value


def exp(x: Vector) -> Vector:
    """eˣ; 18 instructions in float32."""
    constants = CONSTANTS[x.type.dtype]
    x = x.at_least(constants.zero_below).at_most(constants.infinite_above)
    shifted, r = reduced(x, 2 * format_of(x).bias)
    return _scaled(near_zero(r), shifted)


def exp2(x: Vector) -> Vector:
    """2ˣ."""
    layout = format_of(x)
    x = x.at_least(1 - layout.bias - layout.fraction_bits - 2.0).at_most(layout.bias + 2.0)
    base = layout.to_integer + 2 * layout.bias
    shifted = x + base
    rest = x - (shifted - base)
    if is_single(x):
        return _scaled(polynomial(rest, (*POWER, 1.0)), shifted)
    return _scaled(near_zero(rest * math.log(2)), shifted)


def expm1(x: Vector) -> Vector:
    """eˣ − 1 = 2ⁿ (eʳ − 1) + (2ⁿ − 1), exact also near 0."""
    constants, layout = CONSTANTS[x.type.dtype], format_of(x)
    limited = x.at_least(-constants.settled).at_most(constants.infinite_above)
    shifted, r = reduced(limited, layout.bias - 1)
    half = power_of_two(shifted)  # 2ⁿ / 2: for the largest x, 2ⁿ is too large
    out = near_zero_less_one(r).fused(half, half - 0.5)
    tiny = x.absolute() < 2.0 ** (-layout.fraction_bits - 2)
    return tiny.choose(x, out + out)  # −0 is itself, and subnormal numbers have no half


def sigmoid(x: Vector) -> Vector:
    """1 / (1 + e⁻ˣ); 17 instructions in float32.

    Both terms of the quotient are taken 2⁻³² times (2⁻⁶⁴ in float64): then e⁻ˣ does not overflow
    where the result is subnormal, and its power of two needs no second step.
    """
    constants, layout = CONSTANTS[x.type.dtype], format_of(x)
    x = x.at_least(constants.zero_below).at_most(constants.settled)
    shifted, r = reduced(-x, layout.bias - constants.room)
    small = 2.0**-constants.room
    power = power_of_two(shifted)
    return small / (near_zero_less_one(r).fused(power, small) + power)


# float32: tanh x = x + x³ q(x²) for 0 ≤ x < 0.55
TANH = (0.016437863931059837, -0.05267200618982315, 0.1332072913646698, -0.3333294689655304)
# float64: tanh x = x + x³ P(x²) / Q(x²) for x < 0.625, S. Moshier's Cephes library (tanh.c)
TANH_P = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
TANH_Q = (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3)


def tanh(x: Vector) -> Vector:
    """1 − 2 / (e²ˣ + 1), near 0 a polynomial or a quotient of two; 26 instructions in float32.

    Shorter by seven instructions, but 2.5 ulp from the truth, is t / (t + 2) with t = e²ˣ − 1.
    """
    size = x.absolute()
    twice = size.at_most(CONSTANTS[x.type.dtype].settled / 2)
    shifted, r = reduced(twice + twice, format_of(x).bias)
    denominator = near_zero(r).fused(power_of_two(shifted), 1.0)
    square = size * size
    cube = size * square
    if is_single(x):
        near = cube.fused(polynomial(square, TANH), size)
        out = (size < 0.55).choose(near, 1.0 - 2.0 / denominator)
    else:  # one division for both
        is_near = size < 0.625
        above = is_near.choose(cube * polynomial(square, TANH_P), x.constant(-2.0))
        below = is_near.choose(polynomial(square, TANH_Q), denominator)
        out = is_near.choose(size, x.constant(1.0)) + above / below
    return out.with_sign_of(x)


@c_library_in_double("sinh")
def sinh(x: Vector) -> Vector:
    """(eˣ − e⁻ˣ) / 2."""

    def in_double(x: Vector) -> Vector:
        less_one = expm1(x)
        return 0.5 * (less_one + less_one / (less_one + 1.0))

    # Beyond 90 the float32 is infinite, and the quotient above would be NaN.
    return through_double(in_double, x.absolute().at_most(90.0)).with_sign_of(x)


@c_library_in_double("cosh")
def cosh(x: Vector) -> Vector:
    """(eˣ + e⁻ˣ) / 2."""

    def in_double(x: Vector) -> Vector:
        grown = exp(x)
        return 0.5 * (grown + 1.0 / grown)

    return through_double(in_double, x.absolute().at_most(90.0))
