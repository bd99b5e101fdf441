"""sin, cos, tan and their inverses.

x = n π/2 + r with |r| ≤ π/4 (a little more for large x); n modulo 4 says which of ±sin r, ±cos r is
wanted. π/2 is taken to three float32, which is exact enough up to |x| = 100,000. A vector with a
larger number in it goes through the C library, number by number, as in NumPy.

The inverses are computed in float64; in float64 itself all of them are the C library's.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    SINGLE,
    all_lanes,
    c_library_in_double,
    format_of,
    in_parts,
    is_single,
    polynomial,
    through_double,
    unless_any,
)
from gradwalk.compiler.backends.llvm.emit.vector import Vector

LARGEST = 1e5
HALF_PI = "1.57079632679489661923132169163975144209858469968755291"
QUARTER_TURN = {SINGLE: in_parts(HALF_PI, SINGLE, 3), DOUBLE: in_parts(HALF_PI, DOUBLE)}
# sin r = r + r z q(z) and cos r = 1 − z/2 + z² q(z) with z = r²
SIN = (-0.0001951809972524643, 0.008332188241183758, -0.16666655242443085)
COS = (2.4432552891084924e-05, -0.0013887310633435845, 0.04166664555668831)
# The same in float64, from 0 to 2π: the coefficients of fdlibm
SIN_DOUBLE = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
    -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
COS_DOUBLE = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
    2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip
# For tan, in float64 with an error of 1e-13
SIN_EXACT = (
    -2.474931089657776e-08, 2.755516790671371e-06, -0.0001984126277983985, 0.00833333332283103,
    -0.16666666666609345, 0.9999999999999949,
)  # fmt: skip
COS_EXACT = (
    -2.716005097938146e-07, 2.4798730889913257e-05, -0.0013888879371514546, 0.041666666522388776,
    -0.4999999999919265, 0.9999999999999257,
)  # fmt: skip
# arctan t = t q(t²) for 0 ≤ t ≤ 1, in float64 with an error of 6e-11
ARCTAN = (
    -0.0006675804298108763, 0.004755748616846914, -0.0158842361485638, 0.03390226565543979,
    -0.05402101073975943, 0.07231781132094883, -0.0897539983268146, 0.11092192118386761,
    -0.14283847808913144, 0.19999903388679088, -0.3333333135030635, 0.9999999999318802,
)  # fmt: skip


def _quarter_turns(x: Vector) -> tuple[Vector, Vector]:
    """n modulo 4 in the last two bits of an integer, and r."""
    layout = format_of(x)
    base = layout.to_integer
    shifted = x.fused(2 / math.pi, base)
    n = shifted - base
    r = x
    for part in QUARTER_TURN[x.type.dtype]:
        r = n.fused(-part, r)
    return shifted.bits(layout.integer), r


def _sine(x: Vector, turns: int, name: str) -> Vector:
    """sin(x + turns · π/2), float32."""
    n, r = _quarter_turns(x)
    out = _sine_after(n + turns if turns else n, r)
    return unless_any(x.absolute() > LARGEST, out, lambda: all_lanes(name, x))


def _sine_after(n: Vector, r: Vector) -> Vector:
    """sin(n · π/2 + r)."""
    z = r * r
    if is_single(r):
        sine = r.fused(polynomial(z, SIN) * z, r).with_sign_of(r)  # of −0
        cosine = polynomial(z, (*COS, -0.5, 1.0))
    else:
        sine = r.fused(polynomial(z, SIN_DOUBLE) * z, r)
        cosine = polynomial(z, COS_DOUBLE).fused(z * z, z.fused(-0.5, 1.0))
    size = (n & 1).compare("ne", 0).choose(cosine, sine)
    negative = (n & 2) << (8 * r.type.dtype.itemsize - 2)  # the sign bit
    return (size.bits(n.type.dtype) ^ negative).bits(r.type.dtype)


def sine_of_turn(x: Vector, cosine: Vector) -> Vector:
    """sin x, or where the truth value is true cos x, for 0 ≤ x ≤ 2π, in float32 or float64."""
    n, r = _quarter_turns(x)
    return _sine_after(n + cosine.to(n.type.dtype), r)


@c_library_in_double("sin")
def sin(x: Vector) -> Vector:
    """The sine; 24 instructions in float32, and 3 to see whether x is large."""
    return _sine(x, 0, "sin")


@c_library_in_double("cos")
def cos(x: Vector) -> Vector:
    """The cosine."""
    return _sine(x, 1, "cos")


@c_library_in_double("tan")
def tan(x: Vector) -> Vector:
    """The tangent: sin r / cos r or −cos r / sin r."""

    def in_double(x: Vector) -> Vector:
        n, r = _quarter_turns(x)
        z = r * r
        sine, cosine = polynomial(z, SIN_EXACT) * r, polynomial(z, COS_EXACT)
        odd = (n & 1).compare("ne", 0)
        return odd.choose(-cosine, sine) / odd.choose(sine, cosine)

    return unless_any(
        x.absolute() > LARGEST, through_double(in_double, x), lambda: all_lanes("tan", x)
    )


# -- inverses --------------------------------------------------------------------------------------


def _angle(height: Vector, width: Vector) -> Vector:
    """The angle of the point (width, height), both ≥ 0, not both 0, not both infinite."""
    steep = height > width
    t = steep.choose(width, height) / steep.choose(height, width)
    flat = polynomial(t * t, ARCTAN) * t
    return steep.choose(math.pi / 2 - flat, flat)


def _other_leg(x: Vector) -> Vector:
    """√(1 − x²)."""
    return ((1.0 - x) * (x + 1.0)).intrinsic("sqrt")


@c_library_in_double("asin")
def asin(x: Vector) -> Vector:
    """The angle with this sine."""
    size = through_double(lambda x: _angle(x, _other_leg(x)), x.absolute())
    return size.with_sign_of(x)


@c_library_in_double("acos")
def acos(x: Vector) -> Vector:
    """The angle with this cosine."""

    def in_double(x: Vector) -> Vector:
        acute = _angle(_other_leg(x), x.absolute())
        return (x < 0.0).choose(math.pi - acute, acute)

    return through_double(in_double, x)


@c_library_in_double("atan")
def atan(x: Vector) -> Vector:
    """The angle with this tangent."""
    size = through_double(lambda x: _angle(x, x.constant(1.0)), x.absolute())
    return size.with_sign_of(x)


@c_library_in_double("atan2")
def atan2(y: Vector, x: Vector) -> Vector:
    """The angle of the point (x, y), from −π to π; signs of zeros count."""
    height, width = y.absolute(), x.absolute()
    # 0/0 is the angle of (1, 0), inf/inf that of (1, 1)
    equal = height.compare("eq", width)
    one = x.constant(1.0)
    width = equal.choose(one, width)
    height = equal.choose((height > 0.0).choose(one, height), height)
    negative = x.bits(format_of(x).integer) < 0

    def in_double(height: Vector, width: Vector) -> Vector:
        acute = _angle(height, width)
        return negative.choose(math.pi - acute, acute)

    return through_double(in_double, height, width).with_sign_of(y)
