"""Choosing between values: where, maximum, minimum, clip, and the comparisons.

Masking rules put `g` inside `where`. `g * mask` would turn inf × 0 into NaN.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bool_, constant, is_half
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.core.public import IN_PLACE, METHOD, Change, public
from gradwalk.ops.shape.reshaping import promoted

_BITS = {np.dtype("f4"): np.dtype("i4"), np.dtype("f8"): np.dtype("i8")}
_MANY = 4096  # elements; above this, bits are faster than branches


def masked(condition: Any, x: Any, keep: bool) -> Any:
    """x where the condition is `keep`, else 0.

    np.where branches on every element, and an irregular mask causes mispredictions; a mask of
    bits is ten times faster.
    """
    fit = x.shape == condition.shape and x.dtype in _BITS and condition.dtype == bool_
    if x.size < _MANY or not fit:
        zero = constant(0, x.dtype)
        return np.where(condition, x, zero) if keep else np.where(condition, zero, x)
    ones = condition.view(np.int8)
    mask = np.negative(ones) if keep else ones - np.int8(1)  # all bits set where x is kept
    bits = mask.astype(_BITS[x.dtype])
    bits &= x.view(bits.dtype)
    return bits.view(x.dtype)


def _where_forward(condition: Any, x: Any, y: Any) -> Any:
    mask = condition.__class__ is np.ndarray
    if x.__class__ is int and y.__class__ is np.ndarray:
        if x == 0 and mask:
            return masked(condition, y, keep=False)
        x = constant(x, y.dtype)  # NumPy is faster with an array
    elif y.__class__ is int and x.__class__ is np.ndarray:
        if y == 0 and mask:
            return masked(condition, x, keep=True)
        y = constant(y, x.dtype)
    return np.where(condition, x, y)


where: Op = elementwise(
    "where",
    _where_forward,
    lambda condition, x, y: x if condition else y,
    vjp=[
        None,
        lambda g, condition: where(condition, g, 0),
        lambda g, condition: where(condition, 0, g),
    ],
    promotes=(1, 2),
    on_complex=True,
)


# NaN wins, as in NumPy. At a tie both inputs get half; a NaN lets the gradient through.
maximum = elementwise(
    "maximum",
    np.maximum,
    lambda x, y: x if x > y or x != x else y,
    vjp=[
        lambda g, x, y: where(x == y, g * 0.5, where(x < y, 0, g)),
        lambda g, x, y: where(x == y, g * 0.5, where(y < x, 0, g)),
    ],
    symbol="max",
    doc="The larger, element by element.",
    **METHOD,
)
minimum = elementwise(
    "minimum",
    np.minimum,
    lambda x, y: x if x < y or x != x else y,
    vjp=[
        lambda g, x, y: where(x == y, g * 0.5, where(x > y, 0, g)),
        lambda g, x, y: where(x == y, g * 0.5, where(y > x, 0, g)),
    ],
    symbol="min",
    doc="The smaller, element by element.",
    **METHOD,
)


def _clip_number(x: float, min: float | None = None, max: float | None = None) -> float:
    if min is not None and x < min:
        x = min
    if max is not None and x > max:
        x = max
    return x


def _clip_rule(g: Any, x: Any, min: float | None, max: float | None) -> Any:
    lower = -math.inf if min is None else min
    upper = math.inf if max is None else max
    return where((x >= lower) & (x <= upper), g, 0)  # the bounds themselves pass the gradient


clip_op = elementwise(
    "clip",
    lambda x, *, min=None, max=None: np.clip(x, min, max),
    _clip_number,
    vjp=[_clip_rule],
)


# Bounds that are tensors have gradients: a bound receives those of the elements it replaced.
clamp_min = elementwise(
    "clamp_min",
    lambda x, min: np.maximum(x, min),
    lambda x, min: x if x > min or x != x else min,
    vjp=[lambda g, x, min: where(x >= min, g, 0), lambda g, x, min: where(x < min, g, 0)],
    doc="Limit from below.",
    **IN_PLACE,
)
clamp_max = elementwise(
    "clamp_max",
    lambda x, max: np.minimum(x, max),
    lambda x, max: x if x < max or x != x else max,
    vjp=[lambda g, x, max: where(x <= max, g, 0), lambda g, x, max: where(x > max, g, 0)],
    doc="Limit from above.",
    **IN_PLACE,
)
clip_between = elementwise(
    "clip_between",
    lambda x, min, max: np.minimum(np.maximum(x, min), max),
    vjp=[
        lambda g, x, min, max: where((x >= min) & (x <= max), g, 0),
        lambda g, x, min, max: where((min < max) & (x < min), g, 0),
        lambda g, x, min, max: where((x > max) | (max < min), g, 0),
    ],
)


def _bound(x: Any, number: Any) -> Any:
    """A bound as halves hold it: an element that is equal to it passes the gradient."""
    kind = getattr(x, "dtype", None)
    if number is None or kind is None or not is_half(kind):
        return number
    return float(kind.type(number))


def _clip_in_place(x: Any, min: Any = None, max: Any = None) -> Change:
    bounds = [bound for bound in (min, max) if isinstance(bound, float)]
    if bounds and getattr(getattr(x, "dtype", None), "kind", "f") in "biu":
        raise TypeError(f"clip in place of {x.dtype} to {bounds[0]} would not fit its integers")
    return _clipping(x, min, max)


def _clipping(x: Any, min: Any = None, max: Any = None) -> Change:
    if min is None and max is None:
        raise ValueError("clip needs min, max or both")
    if not hasattr(min, "_apply") and not hasattr(max, "_apply"):
        return clip_op, (x,), {"min": _bound(x, min), "max": _bound(x, max)}
    if max is None:
        return clamp_min, (x, min), {}
    return (clamp_max, (x, max), {}) if min is None else (clip_between, (x, min, max), {})


@public(names="clip clamp", method=True, inplace=_clip_in_place, numpy=True)
def clip(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limit to [min, max], numbers or tensors; the bounds themselves pass the gradient.

    >>> import gradwalk as gw
    >>> gw.clip(gw.tensor([-2.0, 0.5, 2.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    op, operands, attrs = _clipping(input, min, max)
    return op(promoted(input, *attrs.values()), *operands[1:], **attrs)


# -- comparisons and logic: no gradient ----------------------------------------------------------


def _logic(forward: np.ufunc, number: Any, symbol: str, doc: str, **facts: Any) -> Op:
    """Define an op of booleans, or one that returns booleans, under the name of its ufunc."""
    name = facts.pop("name", forward.__name__)
    facts = {"gives": bool_, "partials": [None] * forward.nin, **facts}
    return elementwise(name, forward, number, symbol=symbol, doc=doc, **facts, **IN_PLACE)


equal = _logic(np.equal, operator.eq, "=", "self == other.", names="eq", on_complex=True)
not_equal = _logic(
    np.not_equal, operator.ne, "≠", "self != other.", names="ne not_equal", on_complex=True
)
less = _logic(np.less, operator.lt, "<", "self < other.", names="lt less")
less_equal = _logic(np.less_equal, operator.le, "≤", "self <= other.", names="le less_equal")
greater = _logic(np.greater, operator.gt, ">", "self > other.", names="gt greater")
greater_equal = _logic(
    np.greater_equal, operator.ge, "≥", "self >= other.", names="ge greater_equal"
)
logical_and = _logic(
    np.logical_and,
    lambda x, y: bool(x and y),
    "and",
    "True where both are non-zero.",
    on_complex=True,
)
logical_or = _logic(
    np.logical_or, lambda x, y: bool(x or y), "or", "True where one is non-zero.", on_complex=True
)
logical_xor = _logic(
    np.logical_xor,
    lambda x, y: bool(x) != bool(y),
    "xor",
    "True where exactly one is non-zero.",
    on_complex=True,
)
logical_not = _logic(
    np.logical_not, lambda x: not x, "not", "True where x is zero.", on_complex=True
)
bitwise_and = _logic(np.bitwise_and, operator.and_, "and", "self & other.", gives=None)
bitwise_or = _logic(np.bitwise_or, operator.or_, "or", "self | other.", gives=None)
bitwise_xor = _logic(np.bitwise_xor, operator.xor, "xor", "self ^ other.", gives=None)
bitwise_not = _logic(
    np.bitwise_not,
    lambda x: not x if type(x) is bool else ~x,
    "~",
    "~self.",
    name="bitwise_not",
    gives=None,
)
