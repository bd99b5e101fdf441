"""What the functions of this folder are made of: polynomials, powers of two, numbers lane by lane.

Everything works on a `Vector` of float32 or float64, of any number of lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector

SINGLE = np.dtype(np.float32)
DOUBLE = np.dtype(np.float64)
# Calls per lane written one after another; more are a loop, whose every turn goes through memory.
MOST_WRITTEN_OUT = 8


class Format(NamedTuple):
    """The layout of a floating-point dtype."""

    dtype: np.dtype[Any]
    integer: np.dtype[Any]  # of the same size
    fraction_bits: int
    bias: int  # of the exponent

    @property
    def to_integer(self) -> float:
        """1.5 × 2ⁿ: the sum of a number with it holds the nearest integer in its last bits."""
        return 1.5 * 2.0**self.fraction_bits

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all its digits."""
        return 2.0 ** (1 - self.bias)

    def bits_of(self, number: float) -> int:
        """The bits of a positive number, as an integer."""
        return int(np.array(number, self.dtype).view(self.integer))


FORMATS = {
    SINGLE: Format(SINGLE, np.dtype(np.int32), 23, 127),
    DOUBLE: Format(DOUBLE, np.dtype(np.int64), 52, 1023),
}


def is_single(x: Vector) -> bool:
    """Whether it is float32."""
    return x.type.dtype == SINGLE


def format_of(x: Vector) -> Format:
    """The layout of a value's floats."""
    return FORMATS[x.type.dtype]


def polynomial(x: Vector, coefficients: Sequence[float]) -> Vector:
    """Horner's rule in fused steps; the coefficient of the highest power comes first."""
    total = x.fused(*coefficients[:2])
    for coefficient in coefficients[2:]:
        total = total.fused(x, coefficient)
    return total


def power_of_two(shifted: Vector) -> Vector:
    """2ⁿ from a float whose last bits are n + bias, as the sum with `to_integer` makes it."""
    layout = format_of(shifted)
    return (shifted.bits(layout.integer) << layout.fraction_bits).bits(layout.dtype)


def all_lanes(name: str, *operands: Vector) -> Vector:
    """A function of the C library, called once per lane."""
    first = operands[0]
    function, kind, number = first.function, first.type, Type(first.type.dtype)
    full = f"{name}f" if kind.element == "float" else name

    def one_lane(index: I64) -> Vector:
        given = [(kind.element, v.lane(index).text) for v in operands]
        return Vector(function, number, function.call(kind.element, full, *given))

    if kind.lanes == 1:
        return one_lane(0)
    out = Vector(function, kind, "poison")
    if kind.lanes <= MOST_WRITTEN_OUT:
        for index in range(kind.lanes):
            out = out.with_lane(index, one_lane(index))
        return out
    with function.loop(0, kind.lanes, carried=[out], at_least_once=True) as loop:
        (inside,) = loop.carried
        loop.carry(inside.with_lane(loop.index, one_lane(loop.index)))
    return loop.results[0]


def c_library_in_double(name: str) -> Callable[[Callable[..., Vector]], Callable[..., Vector]]:
    """Decorate a float32 function: in float64 it is the C library's function of this name."""

    def decorate(write: Callable[..., Vector]) -> Callable[..., Vector]:
        @functools.wraps(write)
        def function(*operands: Vector) -> Vector:
            return write(*operands) if is_single(operands[0]) else all_lanes(name, *operands)

        return function

    return decorate


def unless_any(condition: Vector, usual: Vector, otherwise: Callable[[], Vector]) -> Vector:
    """`usual`; but if the condition holds in any lane, what `otherwise` writes, for all lanes."""
    any_lane = condition.across("or")
    return usual.named(usual.function.either(any_lane, usual.type.text, usual.text, otherwise))


def through_double(function: Callable[..., Vector], *operands: Vector) -> Vector:
    """A float32 function computed in float64 and rounded once: twice the work, half an ulp.

    LLVM splits the vectors of doubles, which are twice as long as a register.
    """
    return function(*(v.to(DOUBLE) for v in operands)).to(SINGLE)


def in_parts(number: str, dtype: np.dtype[Any], count: int = 2) -> tuple[float, ...]:
    """A positive number with more digits than a float has, as a sum of floats, the largest first.

    Each but the last is rounded down, so all are positive: −0 − 0 · part is still −0.
    """
    rest = Fraction(number)
    parts = []
    for left in reversed(range(count)):
        part = dtype.type(float(rest))
        if left and Fraction(float(part)) > rest:
            part = np.nextafter(part, dtype.type(0))
        parts.append(float(part))
        rest -= Fraction(parts[-1])
    return tuple(parts)
