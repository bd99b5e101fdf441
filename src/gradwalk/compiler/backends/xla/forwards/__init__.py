"""The forward of every op, on jax arrays: same operands and attributes, same numbers as NumPy's.

JAX is used in its 64-bit mode. A forward returns an array, or a tuple for an op with several
outputs; residuals, which only rules of NumPy arrays read, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from gradwalk.compiler.backends.xla.forwards import (
    attention,
    elementwise,
    index,
    linear,
    network,
    random,
    reduce,
    shape,
)
from gradwalk.compiler.backends.xla.forwards.promotion import is_plain
from gradwalk.compiler.functional.whole_ops import PLAIN
from gradwalk.ops.core.dtypes import float32, is_half
from gradwalk.ops.core.halves import MOVES, PRODUCTS, beside_halves, half_of, narrowed


def _rounding_once(name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that computes with halves in float32, and rounds its results."""

    def wrapped(*operands: Any, **attrs: Any) -> Any:
        if not any(hasattr(x, "dtype") and is_half(x.dtype) for x in operands):
            return forward(*operands, **attrs)
        half = half_of([x for x in operands if not is_plain(x)])
        result = forward(*map(_widened, beside_halves(name, operands, half)), **attrs)
        if half is None:
            return result
        return jax.tree.map(lambda x: narrowed(x, half), result)

    return forward if name in _AS_THEY_ARE else wrapped


def _widened(x: Any) -> Any:
    if hasattr(x, "dtype") and is_half(x.dtype):
        return lax.convert_element_type(x, float32)
    return x


# What moves halves, and what multiplies them or computes statistics: that adds in float32 itself.
_AS_THEY_ARE = (MOVES | PRODUCTS - {"lstm", "gru", "rnn"}) | {op.name for op in PLAIN}
_ALL: dict[str, Callable[..., Any]] = {
    **elementwise.FORWARDS,
    **reduce.FORWARDS,
    **shape.FORWARDS,
    **index.FORWARDS,
    **linear.FORWARDS,
    **attention.FORWARDS,
    **network.FORWARDS,
    **random.FORWARDS,
}
FORWARDS = {name: _rounding_once(name, forward) for name, forward in _ALL.items()}
