"""Halves and their bits, with integer instructions: not every processor has others for them.

A half in a register is a float. Rounding is to the nearest, of two equally near to the even one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.ops.core.dtypes import is_bfloat16

if TYPE_CHECKING:
    from gradwalk.compiler.backends.llvm.emit.vector import Vector

_INFINITY = 0x7F800000  # the bits of float32's
_TOO_LARGE = (127 + 16) << 23  # 2¹⁶: from there on a float16 is infinite
_SMALLEST_NORMAL = (127 - 14) << 23  # of float16
_HALF_STEP = (127 - 14 + 13) << 23  # a float whose last place is that of subnormal float16s


def from_bits(bits: Vector, half: np.dtype[Any]) -> Vector:
    """The floats that halves of these bits (int16) are."""
    wide = bits.to(np.int32)
    if is_bfloat16(half):
        return (wide << 16).bits(np.float32).labelled(half)
    size = (wide & 0x7FFF) << 13
    # The exponent of a subnormal is 0 as well, and the product makes it a normal number.
    scaled = (size.bits(np.float32) * 2.0**112).bits(np.int32)
    special = size.compare("ge", 0x7C00 << 13)
    value = special.choose(size | _INFINITY, scaled)
    return (value | ((wide & 0x8000) << 16)).bits(np.float32).labelled(half)


def to_bits(value: Vector, half: np.dtype[Any]) -> Vector:
    """The bits (int16) of the halves nearest to floats."""
    bits = value.labelled(np.float32).bits(np.int32)
    return (_bits_of_bfloat16 if is_bfloat16(half) else _bits_of_float16)(bits).to(np.int16)


def rounded(value: Vector, half: np.dtype[Any]) -> Vector:
    """The halves nearest to floats, as floats."""
    return from_bits(to_bits(value, half), half)


def _bits_of_bfloat16(bits: Vector) -> Vector:
    even = bits.unsigned_shift(16) & 1
    nearest = (bits + even + 0x7FFF).unsigned_shift(16)
    quiet_nan = bits.unsigned_shift(16) | 0x40
    return (bits & 0x7FFFFFFF).compare("gt", _INFINITY).choose(quiet_nan, nearest)


def _bits_of_float16(bits: Vector) -> Vector:
    size = bits & 0x7FFFFFFF
    even = size.unsigned_shift(13) & 1
    normal = (size + even + (((15 - 127) << 23) + 0xFFF)).unsigned_shift(13)
    # Adding a large number rounds at the last place of a subnormal.
    subnormal = (size.bits(np.float32) + 2.0**-1).bits(np.int32) - _HALF_STEP
    value = size.compare("lt", _SMALLEST_NORMAL).choose(subnormal, normal)
    infinite = size.compare("gt", _INFINITY).choose(size.constant(0x7E00), size.constant(0x7C00))
    value = size.compare("ge", _TOO_LARGE).choose(infinite, value)
    return value | (bits.unsigned_shift(16) & 0x8000)
