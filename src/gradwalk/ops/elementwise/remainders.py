"""Division with a remainder, interpolation, and what floats have beside their value.

Signs, infinities, NaN: the predicates (`isnan`) have no gradient, what is picked by them has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bool_, float64
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.elementwise import arithmetic
from gradwalk.ops.elementwise.arithmetic import sign, trunc
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast

__all__ = [
    "addcdiv", "addcmul", "copysign", "float_power", "floor_divide", "fmod", "heaviside",
    "isfinite", "isinf", "isnan", "lerp", "nan_to_num", "remainder",
]  # fmt: skip

isnan = elementwise("isnan", np.isnan, lambda x: x != x, partials=[None], gives=bool_)
isinf = elementwise("isinf", np.isinf, partials=[None], gives=bool_)
isfinite = elementwise("isfinite", np.isfinite, partials=[None], gives=bool_)

# The quotient rounded down; like PyTorch's, outside the graph.
floor_divide = elementwise(
    "floor_divide",
    np.floor_divide,
    partials=[None, None],
    symbol="//",
    domain=((-4.0, 4.0), (0.5, 4.0)),
)
# What is left: with the sign of y (remainder, Python's %), with the sign of x (fmod, C's).
remainder = elementwise(
    "remainder",
    np.remainder,
    vjp=[1, lambda g, x, y: -g * floor_divide(x, y)],
    symbol="mod",
    domain=((0.6, 0.9), (1.0, 2.0)),
)
fmod = elementwise(
    "fmod",
    np.fmod,
    vjp=[1, lambda g, x, y: -g * trunc(x / y)],
    domain=((0.6, 0.9), (1.0, 2.0)),
)

# |x| with the sign of y.
copysign: Op = elementwise(
    "copysign",
    np.copysign,
    partials=[lambda x, y: sign(x) * copysign(1.0, y), 0],
    to_float=True,
    domain=((0.3, 3.0), (0.3, 3.0)),
)


def _heaviside_forward(x: Any, values: Any) -> Any:
    return np.where(np.equal(x, 0), values, np.greater(x, 0)).astype(np.result_type(x, values))


# 0 below zero, 1 above, `values` at zero; like PyTorch's, outside the graph.
heaviside = elementwise("heaviside", _heaviside_forward, partials=[None, None])


def _nan_to_num_forward(
    x: Any, *, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


nan_to_num = elementwise(
    "nan_to_num", _nan_to_num_forward, vjp=[lambda g, x: where(isfinite(x), g, 0)]
)


def _lerp_forward(start: Any, end: Any, weight: Any) -> Any:
    # From the nearer end, so that weight 1 gives exactly `end`.
    step = end - start
    return np.where(np.abs(weight) < 0.5, start + weight * step, end - step * (1 - weight))


# start + weight × (end − start).
lerp = elementwise(
    "lerp",
    _lerp_forward,
    partials=[lambda weight: 1 - weight, lambda weight: weight, lambda start, end: end - start],
)


# -- made of other ops ------------------------------------------------------------------------


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value × tensor1 × tensor2."""
    product = arithmetic.mul(tensor1, tensor2)
    return arithmetic.add(input, product if value == 1 else arithmetic.mul(product, value))


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value × tensor1 / tensor2."""
    quotient = arithmetic.div(tensor1, tensor2)
    return arithmetic.add(input, quotient if value == 1 else arithmetic.mul(quotient, value))


def float_power(input: Any, exponent: Any) -> Any:
    """input to the power of `exponent`, computed in float64 whatever they hold.

    >>> import gradwalk as gw
    >>> gw.float_power(gw.tensor([1, 2, 3]), -2).dtype
    dtype('float64')
    """
    from gradwalk.ops.methods.elementwise import raised

    base, power = (cast(x, dtype=float64) if hasattr(x, "dtype") else x for x in (input, exponent))
    return raised(base, power)
