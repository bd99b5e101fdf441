"""The forward of every op, on jax arrays: same operands and attributes, same numbers as NumPy's.

JAX is used in its 64-bit mode. A forward returns an array, or a tuple for an op with several
outputs; residuals, which only rules of NumPy arrays read, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

FORWARDS: dict[str, Callable[..., Any]] = {
    **elementwise.FORWARDS,
    **reduce.FORWARDS,
    **shape.FORWARDS,
    **index.FORWARDS,
    **linear.FORWARDS,
    **attention.FORWARDS,
    **network.FORWARDS,
    **random.FORWARDS,
}
