"""Ops that only the compiler uses: checked indices, running extremes, and random numbers.

A random op takes the state of a generator, an int64 array [seed, offset], and `skip`, the number of
blocks between the offset and its own. So element i depends on the state, `skip` and i alone, and a
kernel can compute it wherever it is needed (backends/llvm/emit/random_bits.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bool_, int64
from gradwalk.ops.core.op import Op, define
from gradwalk.random.philox import PhiloxStream


def _forward(index: Any, *, length: int) -> Any:
    wrong = index[(index < -length) | (index >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong.min()} is out of range for a dimension of length {length}")
    return np.where(index < 0, index + length, index)


# An index (int64) from the end becomes one from the start; one out of range raises.
checked_index = Op("checked_index", _forward, None, [None], elementwise=True)


def _running(name: str, best: np.ufunc) -> Op:
    def forward(x: Any, *, axis: int) -> Any:
        return best.accumulate(x, axis=axis)

    return Op(name, forward, None, [None], elementwise=False, shape=lambda x, *, axis: x)


# The largest and the smallest of all elements up to each; NaN propagates.
running_max = _running("running_max", np.maximum)
running_min = _running("running_min", np.minimum)


# -- random numbers, where eager code draws (random/philox.py) -------------------------------------


Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


def _stream(state: Array, skip: int) -> PhiloxStream:
    seed, offset = (int(n) for n in state.view(np.uint64))
    return PhiloxStream(seed, offset + skip)


def _random(name: str, draw: Callable[..., Array], gives: Any = None) -> Op:
    """An op on the state, and perhaps on probabilities; none has a gradient."""
    inputs: int = draw.__code__.co_argcount
    return define(name, draw, vjp=[None] * inputs, shape=_given_shape, gives=gives)


def _given_shape(*shapes: Shape, shape: Shape, **_: Any) -> Shape:
    return shape


random_uniform = _random(
    "random_uniform",
    lambda state, *, skip, shape, dtype, low, high: _stream(state, skip).uniform(
        shape, dtype, low, high
    ),
)
random_normal = _random(
    "random_normal",
    lambda state, *, skip, shape, dtype, mean, std: _stream(state, skip).normal(
        shape, dtype, mean, std
    ),
)
random_exponential = _random(
    "random_exponential",
    lambda state, *, skip, shape, dtype: _stream(state, skip).exponential(shape, dtype),
)
random_bernoulli = _random(
    "random_bernoulli",
    lambda state, *, skip, shape, p: _stream(state, skip).bernoulli(p, shape),
    gives=bool_,
)
random_bernoulli_each = _random(
    "random_bernoulli_each",
    lambda state, p, *, skip, shape: _stream(state, skip).bernoulli(p, shape),
    gives=bool_,
)
random_integers = _random(
    "random_integers",
    lambda state, *, skip, shape, low, high: _stream(state, skip).integers(low, high, shape),
    gives=int64,
)
random_permutation = _random(
    "random_permutation",
    lambda state, *, skip, shape: _stream(state, skip).permutation(*shape),
    gives=int64,
)
# A kernel can compute each element of these by itself; a permutation needs all elements.
ELEMENTWISE_RANDOM = (
    random_uniform, random_normal, random_exponential, random_bernoulli, random_bernoulli_each,
    random_integers,
)  # fmt: skip
