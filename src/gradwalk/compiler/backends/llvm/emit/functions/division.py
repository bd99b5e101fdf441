"""Division with a remainder, with NumPy's answers.

Floats go through C's fmod, which is exact. Integers have answers where C has none: by zero
everything is 0, and the smallest number by −1 is itself, with remainder 0, because its negative is
no number of the dtype.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import all_lanes
from gradwalk.compiler.backends.llvm.emit.vector import Vector


def is_signed(x: Vector) -> bool:
    """Whether lanes are signed integers."""
    return x.type.dtype.kind == "i"


def _of_integers(name: str, x: Vector, y: Vector) -> Vector:
    """LLVM's division instruction, by 1 where it has no answer; by zero the result is 0."""
    zero = unsafe = y.compare("eq", 0)
    if is_signed(x):
        smallest = x.compare("eq", -(1 << (8 * x.type.dtype.itemsize - 1)))
        unsafe = zero | (smallest & y.compare("eq", -1))
    divisor = unsafe.choose(y.constant(1), y)
    result = x.instruction(f"{'s' if is_signed(x) else 'u'}{name}", divisor)
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
        if not is_signed(x):
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
        return _has_other_sign(left, y).choose(left + y, left) if is_signed(x) else left
    zero = x.constant(0.0).with_sign_of(y)
    moved = _has_other_sign(left, y).choose(left + y, left)
    out = left.compare("eq", 0.0).choose(zero, moved)
    return y.compare("eq", 0.0).choose(x.constant(math.nan), out)
