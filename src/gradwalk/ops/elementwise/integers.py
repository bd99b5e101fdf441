"""Shifted bits, common divisors, and the parts of a float: its exponent and its neighbours."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import category, int32, is_complex_dtype, is_floating
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Op, define, elementwise
from gradwalk.ops.core.public import IN_PLACE, public
from gradwalk.ops.elementwise import arithmetic
from gradwalk.ops.elementwise.arithmetic import exp2
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast

MantissaExponent = namedtuple("MantissaExponent", "mantissa exponent")


def _of_integers(name: str, forward: Any, doc: str, **facts: Any) -> Op:
    def checked(x: Any, y: Any) -> Any:
        if category(np.result_type(x, y)) != 1:
            raise TypeError(f"{name} takes integers, not {np.result_type(x, y)}")
        return forward(x, y)

    return elementwise(name, checked, partials=[None, None], doc=doc, **facts, **IN_PLACE)


def _shifted(shift: Any, beyond: Any) -> Any:
    """A shift; bits that are moved by more than there are leave `beyond`, as in PyTorch."""

    def forward(x: Any, y: Any) -> Any:
        bits = np.result_type(x, y).itemsize * 8
        valid = np.greater_equal(y, 0) & np.less(y, bits)
        return np.where(valid, shift(x, np.where(valid, y, 0)), beyond(x)).astype(
            np.result_type(x, y)
        )

    return forward


bitwise_left_shift = _of_integers(
    "bitwise_left_shift", _shifted(np.left_shift, np.zeros_like), "self << other.", symbol="<<"
)
bitwise_right_shift = _of_integers(
    "bitwise_right_shift",
    _shifted(np.right_shift, lambda x: -np.less(x, 0).astype(np.int8)),
    "self >> other.",
    symbol=">>",
)
gcd = _of_integers("gcd", np.gcd, "The greatest common divisor.")
lcm = _of_integers("lcm", np.lcm, "The least common multiple.")

# The next float from x towards y.
nextafter = elementwise(
    "nextafter",
    lambda x, y: np.nextafter(x, y),
    vjp=[lambda g, x, y: where(x == y, 0, g), 0],
    doc="The next float after self towards other.",
    **IN_PLACE,
)
frexp_op = define(
    "frexp",
    lambda x: tuple(np.frexp(x)),
    vjp=[lambda g, exponent: g[0] * exp2(-exponent)],
    outputs=("mantissa", "exponent"),
    shape=lambda x: (x, x),
    gives=(None, int32),
)


@public(method=True)
def frexp(input: Any) -> MantissaExponent:
    """The mantissa from ½ to 1 and the power of two: mantissa × 2^exponent is `input`.

    >>> import gradwalk as gw
    >>> gw.frexp(gw.tensor([6.0]))
    MantissaExponent(mantissa=tensor([0.7500]), exponent=tensor([3], dtype=gradwalk.int32))
    """
    if not is_floating(input.dtype):
        raise TypeError(f"frexp takes floats, not {input.dtype}")
    return MantissaExponent(*frexp_op(input))


@public(method=True, inplace=True)
@rounds_once
def ldexp(input: Any, other: Any) -> Any:
    """input × 2^other.

    >>> import gradwalk as gw
    >>> gw.ldexp(gw.tensor([1.0, 3.0]), gw.tensor([1, 2]))
    tensor([ 2., 12.])
    """
    number = not hasattr(other, "dtype")
    if number or category(other.dtype) > 1 or is_complex_dtype(input.dtype):
        return input * arithmetic.pow_op(2.0, other)
    base = input if is_floating(input.dtype) else input * 1.0
    # In two steps, since 2^other overflows before the product does.
    exponent = cast(other, dtype=base.dtype)
    step = arithmetic.floor(exponent / 2)
    return base * exp2(step) * exp2(exponent - step)
