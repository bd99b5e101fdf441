"""What the functions of this folder are made of: polynomials, powers of two, numbers lane by lane.

Everything works on a `Value` of float32 or float64, of any number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value

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
        """1.5 × 2ⁿ so that the sum with it is rounded to an integer: the last bits are that one."""
        return 1.5 * 2.0**self.fraction_bits

    @property
    def smallest_normal(self) -> float:
        """Numbers below have fewer digits."""
        return 2.0 ** (1 - self.bias)

    def bits_of(self, number: float) -> int:
        """The bits of a positive number, as an integer."""
        return int(np.array(number, self.dtype).view(self.integer))


FORMATS = {
    SINGLE: Format(SINGLE, np.dtype(np.int32), 23, 127),
    DOUBLE: Format(DOUBLE, np.dtype(np.int64), 52, 1023),
}


def is_single(x: Value) -> bool:
    """Whether it is float32."""
    return x.kind.dtype == SINGLE


def format_of(x: Value) -> Format:
    """The layout of a value's floats."""
    return FORMATS[x.kind.dtype]


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule in fused steps; the coefficient of the highest power comes first."""
    total = x.fused(*coefficients[:2])
    for coefficient in coefficients[2:]:
        total = total.fused(x, coefficient)
    return total


def power_of_two(shifted: Value) -> Value:
    """2ⁿ from a float whose last bits are n + bias, as the sum with `to_integer` makes it."""
    layout = format_of(shifted)
    return (shifted.bits(layout.integer) << layout.fraction_bits).bits(layout.dtype)


def all_lanes(name: str, *operands: Value) -> Value:
    """A function of the C library, called once per lane."""
    first = operands[0]
    element = first.kind.element
    full = f"{name}f" if element == "float" else name

    def one_lane(index: int | str) -> str:
        given = [(element, v.lane(index).text) for v in operands]
        return first.function.call(element, full, *given)

    if first.kind.lanes == 1:
        return Value(first.function, first.kind, one_lane(0))
    number = Kind(first.kind.dtype)
    if first.kind.lanes <= MOST_WRITTEN_OUT:
        out = Value(first.function, first.kind, "poison")
        for index in range(first.kind.lanes):
            out = out.with_lane(index, Value(first.function, number, one_lane(index)))
        return out
    carried = [(first.kind.text, "poison")]
    lanes = str(first.kind.lanes)
    with first.function.loop("0", lanes, carried=carried, at_least_once=True) as loop:
        found = Value(first.function, first.kind, loop.carried[0])
        single = Value(first.function, number, one_lane(loop.index))
        loop.carry(found.with_lane(loop.index, single).text)
    return Value(first.function, first.kind, loop.results[0])


def unless_any(condition: Value, usual: Value, otherwise: Callable[[], Value]) -> Value:
    """`usual`; but if the condition holds in any lane, what `otherwise` writes, for all lanes."""
    function = usual.function
    before = function.block
    with function.when(condition.any()):
        rare = otherwise().text
        last = function.block
    text = function.set(f"phi {usual.kind.text} [{usual.text}, %{before}], [{rare}, %{last}]")
    return Value(function, usual.kind, text)


def through_double(function: Callable[..., Value], *operands: Value) -> Value:
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
