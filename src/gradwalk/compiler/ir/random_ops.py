"""The draws of philox.py as ops: what a compiled function calls where eager code draws.

Each is a call on the state of a generator, an int64 array [seed, offset], with `skip`, how many
blocks lie between the offset and its own. So element i depends on the state, `skip` and i alone,
and a kernel can compute it wherever it is needed (backends/llvm/emit/random_bits.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import bool_, int64
from gradwalk.ops.core.op import Op, define
from gradwalk.random.philox import PhiloxStream

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


def _stream(state: Array, skip: int) -> PhiloxStream:
    seed, offset = (int(n) for n in state.view(np.uint64))
    return PhiloxStream(seed, offset + skip)


def _drawn(*shapes: Shape, shape: Shape, **_: Any) -> Shape:
    return shape


random_uniform: Op = define(
    "random_uniform",
    lambda state, *, skip, shape, dtype, low, high: _stream(state, skip).uniform(
        shape, dtype, low, high
    ),
    vjp=[None],
    shape=_drawn,
)
random_normal: Op = define(
    "random_normal",
    lambda state, *, skip, shape, dtype, mean, std: _stream(state, skip).normal(
        shape, dtype, mean, std
    ),
    vjp=[None],
    shape=_drawn,
)
random_exponential: Op = define(
    "random_exponential",
    lambda state, *, skip, shape, dtype: _stream(state, skip).exponential(shape, dtype),
    vjp=[None],
    shape=_drawn,
)
random_bernoulli: Op = define(
    "random_bernoulli",
    lambda state, *, skip, shape, p: _stream(state, skip).bernoulli(p, shape),
    vjp=[None],
    shape=_drawn,
    gives=bool_,
)
random_bernoulli_each: Op = define(
    "random_bernoulli_each",
    lambda state, p, *, skip, shape: _stream(state, skip).bernoulli(p, shape),
    vjp=[None, None],
    shape=_drawn,
    gives=bool_,
)
random_integers: Op = define(
    "random_integers",
    lambda state, *, skip, shape, low, high: _stream(state, skip).integers(low, high, shape),
    vjp=[None],
    shape=_drawn,
    gives=int64,
)
random_permutation: Op = define(
    "random_permutation",
    lambda state, *, skip, shape: _stream(state, skip).permutation(*shape),
    vjp=[None],
    shape=_drawn,
    gives=int64,
)
# Of these each element can be computed by itself; an order is one of all its elements.
ELEMENTWISE_DRAWS = (
    random_uniform, random_normal, random_exponential, random_bernoulli, random_bernoulli_each,
    random_integers,
)  # fmt: skip
DRAWS = (*ELEMENTWISE_DRAWS, random_permutation)
