"""Python's // and % of floats, as NumPy computes them: from C's fmod, which is exact."""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.pieces import all_lanes
from gradwalk.compiler.backends.llvm.emit.vector_values import Value


def floor_divide(x: Value, y: Value) -> Value:
    """The quotient rounded down; by zero it is inf or NaN."""
    left = all_lanes("fmod", x, y)
    exact = (x - left) / y
    quotient = _has_other_sign(left, y).choose(exact - 1.0, exact)
    floor = quotient.intrinsic("floor")
    floor = (quotient - floor > 0.5).choose(floor + 1.0, floor)
    simple = x / y
    zero = x.constant(0.0).with_sign_of(simple)
    out = quotient.compare("eq", 0.0).choose(zero, floor)
    return y.compare("eq", 0.0).choose(simple, out)


def remainder(x: Value, y: Value) -> Value:
    """What is left, with the sign of y; by zero it is NaN."""
    left = all_lanes("fmod", x, y)
    zero = x.constant(0.0).with_sign_of(y)
    moved = _has_other_sign(left, y).choose(left + y, left)
    out = left.compare("eq", 0.0).choose(zero, moved)
    return y.compare("eq", 0.0).choose(x.constant(math.nan), out)


def _has_other_sign(left: Value, y: Value) -> Value:
    return left.compare("ne", 0.0) & ((y < 0.0) ^ (left < 0.0))
