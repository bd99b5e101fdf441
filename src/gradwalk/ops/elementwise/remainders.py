"""Division with a remainder, interpolation, and the sign, infinities and NaN of floats.

Predicates such as `isnan` have no gradient; an element that one of them picks has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import (
    bool_,
    complex128,
    finfo,
    float64,
    is_complex_dtype,
    is_half,
    result_dtype,
)
from gradwalk.ops.core.factors_first import factors_first
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.core.public import FLOAT, IN_PLACE, METHOD, public
from gradwalk.ops.elementwise import arithmetic
from gradwalk.ops.elementwise.arithmetic import sign, trunc
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast


def _predicate(name: str, forward: np.ufunc, doc: str, number: Any = None) -> Op:
    return elementwise(
        name, forward, number, partials=[None], gives=bool_, on_complex=True, doc=doc, **METHOD
    )


isnan = _predicate("isnan", np.isnan, "True where x is NaN.", lambda x: x != x)
isinf = _predicate("isinf", np.isinf, "True where x is infinite.")
isfinite = _predicate("isfinite", np.isfinite, "True where x is neither infinite nor NaN.")

# The quotient rounded down; like PyTorch's, outside the graph.
floor_divide = elementwise(
    "floor_divide",
    np.floor_divide,
    partials=[None, None],
    symbol="//",
    doc="self / other rounded down; no gradient.",
    **IN_PLACE,
)
# remainder has the sign of y, like Python's %; fmod that of x, like C's.
remainder = elementwise(
    "remainder",
    np.remainder,
    vjp=[1, lambda g, x, y: -g * floor_divide(x, y)],
    symbol="mod",
    doc="The remainder with the sign of other.",
    **IN_PLACE,
)
fmod = elementwise(
    "fmod",
    np.fmod,
    vjp=[1, lambda g, x, y: -g * trunc(x / y)],
    doc="The remainder with the sign of self.",
    **IN_PLACE,
)

# |x| with the sign of y.
copysign: Op = elementwise(
    "copysign",
    np.copysign,
    partials=[lambda x, y: sign(x) * copysign(1.0, y), 0],
    doc="|self| with the sign of other.",
    **FLOAT,
)


def _heaviside_forward(x: Any, values: Any) -> Any:
    return np.where(np.equal(x, 0), values, np.greater(x, 0)).astype(np.result_type(x, values))


# 0 below zero, 1 above, `values` at zero; like PyTorch's, outside the graph.
heaviside = elementwise(
    "heaviside", _heaviside_forward, partials=[None, None],
    doc="0 below zero, 1 above, `values` at zero; no gradient.", **IN_PLACE,
)  # fmt: skip


def _nan_to_num_forward(
    x: Any, *, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    if hasattr(x, "dtype") and is_half(x.dtype):  # its own largest number, not that of float32
        limits = finfo(x.dtype)
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        wide = np.nan_to_num(x.astype(np.float32), nan=nan or 0.0, posinf=high, neginf=low)
        return wide.astype(x.dtype)
    return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


nan_to_num = elementwise(
    "nan_to_num", _nan_to_num_forward, vjp=[lambda g, x: where(isfinite(x), g, 0)],
    doc="Numbers in place of NaN (0) and of the infinities (the largest numbers).",
    on_complex=True, **IN_PLACE,
)  # fmt: skip


def _lerp_forward(start: Any, end: Any, weight: Any) -> Any:
    # From the nearer end, so that weight 1 gives exactly `end`.
    step = end - start
    return np.where(np.abs(weight) < 0.5, start + weight * step, end - step * (1 - weight))


# start + weight × (end − start).
lerp = elementwise(
    "lerp",
    _lerp_forward,
    partials=[lambda weight: 1 - weight, lambda weight: weight, lambda start, end: end - start],
    doc="self + weight × (end − self).",
    on_complex=True,
    **IN_PLACE,
)


# -- made of other ops ------------------------------------------------------------------------


@public(method=True, inplace=True)
@factors_first("value")
@rounds_once
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value × tensor1 × tensor2."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


@public(method=True, inplace=True)
@factors_first("value")
@rounds_once
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value × tensor1 / tensor2."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


@public()
def rsub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """other − alpha × input."""
    return arithmetic.sub(other, input, alpha=alpha)


@public(method=True, inplace=True)
def float_power(input: Any, exponent: Any) -> Any:
    """input to the power of `exponent`, computed in float64 whatever they hold, or in complex128.

    >>> import gradwalk as gw
    >>> gw.float_power(gw.tensor([1, 2, 3]), -2).dtype
    dtype('float64')
    """
    wide = complex128 if is_complex_dtype(result_dtype([input, exponent])) else float64
    base, power = (cast(x, dtype=wide) if hasattr(x, "dtype") else x for x in (input, exponent))
    return arithmetic.pow(base, power)
