"""Comparing tensors as a whole or with a tolerance, and predicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import get_default_dtype, is_complex_dtype, is_floating
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.choice import logical_not, where
from gradwalk.ops.elementwise.complex_numbers import imag
from gradwalk.ops.elementwise.remainders import copysign, isfinite, isnan
from gradwalk.ops.reduce.reduction import all, any
from gradwalk.ops.shape.reshaping import cast, reshape


@public(method=True, out=False)
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and the same elements; `eq` compares each element.

    >>> import gradwalk as gw
    >>> gw.equal(gw.tensor([1, 2]), gw.tensor([1, 2])), gw.equal(gw.ones(2), gw.ones(3))
    (True, False)
    """
    same_shape = tuple(input.shape) == tuple(other.shape)
    return same_shape and bool(all(input == other))


@public(method=True)
def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """|input − other| ≤ atol + rtol × |other|, element by element.

    >>> import gradwalk as gw
    >>> gw.isclose(gw.tensor([1.0, 2.0]), gw.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    one, two = (getattr(x, "dtype", type(x).__name__) for x in (input, other))
    if one != two or not hasattr(input, "dtype"):
        raise TypeError(f"isclose compares tensors of one dtype, not {one} and {two}")
    if rtol < 0 or atol < 0:
        raise ValueError(f"rtol and atol must not be negative, and are {rtol} and {atol}")
    if not rtol and not atol:
        same = input == other
        return same | (isnan(input) & isnan(other)) if equal_nan else same
    if input.dtype.kind in "biu":  # whose differences may not fit their dtype
        input, other = (cast(x, dtype=get_default_dtype()) for x in (input, other))
    apart = abs(input - other)
    close = (input == other) | (isfinite(apart) & (apart <= abs(other) * rtol + atol))
    return close | (isnan(input) & isnan(other)) if equal_nan else close


@public(method=True, out=False)
def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`).

    >>> import gradwalk as gw
    >>> gw.allclose(gw.tensor([1.0]), gw.tensor([1.0 + 1e-7]))
    True
    """
    return bool(all(isclose(input, other, rtol, atol, equal_nan)))


@public()
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each element is one of `test_elements`.

    >>> import gradwalk as gw
    >>> gw.isin(gw.tensor([1, 2, 3]), gw.tensor([2, 4]))
    tensor([False,  True, False])
    """
    if not hasattr(test_elements, "shape"):
        among = elements == test_elements
    elif not hasattr(elements, "shape"):
        among = any(elements == test_elements)
    else:
        listed = reshape(test_elements, shape=(math.prod(test_elements.shape),))
        among = any(reshape(elements, shape=(*elements.shape, 1)) == listed, -1)
    return logical_not(among) if invert else among


@public(method=True)
def isposinf(input: Any) -> Any:
    """True where it is +inf."""
    return input == math.inf


@public(method=True)
def isneginf(input: Any) -> Any:
    """True where it is −inf."""
    return input == -math.inf


@public(method=True)
def isreal(input: Any) -> Any:
    """True where the imaginary part is zero; of real tensors everywhere."""
    if is_complex_dtype(input.dtype):
        return imag(input) == 0
    return (input == input) | isnan(input)


@public(method=True)
def signbit(input: Any) -> Any:
    """True where the sign is negative, also that of −0.0."""
    return (copysign(1.0, input) if is_floating(input.dtype) else input) < 0


@public(method=True)
def fmax(input: Any, other: Any) -> Any:
    """The larger, element by element; NaN only where both are.

    >>> import gradwalk as gw
    >>> gw.fmax(gw.tensor([1.0, gw.nan]), gw.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    return where((input >= other) | isnan(other), input, other)


@public(method=True)
def fmin(input: Any, other: Any) -> Any:
    """The smaller, element by element; NaN only where both are."""
    return where((input <= other) | isnan(other), input, other)


@public(method=True)
def positive(input: Any) -> Any:
    """Itself: +x."""
    return +input


@public(out=False)
def numel(input: Any) -> int:
    """The number of elements."""
    return math.prod(input.shape)


@public(out=False)
def is_floating_point(input: Any) -> bool:
    """Whether the elements are floats."""
    return bool(is_floating(input.dtype))


@public(out=False)
def is_signed(input: Any) -> bool:
    """Whether the elements can be negative."""
    return bool(input.is_signed())


@public(method=True, out=False)
def is_complex(input: Any) -> bool:
    """Whether the elements are complex numbers."""
    return is_complex_dtype(input.dtype)


@public(method=True, out=False)
def is_nonzero(input: Any) -> bool:
    """Whether the only element is not zero."""
    return bool(input)


@public(method=True, out=False)
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


@public(out=False)
def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that operands of these shapes broadcast to.

    >>> import gradwalk as gw
    >>> gw.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return np.broadcast_shapes(*(s if isinstance(s, int) else tuple(s) for s in shapes))
