"""Operands of one dtype, chosen as NumPy does.

JAX has rules of its own: int64 with float32 is float32 there, and a result of Python numbers gives
way to any other dtype later on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


def common(*operands: Any) -> tuple[Any, ...]:
    """The operands in their common dtype; a Python number beside an array stays one."""
    dtypes = {x.dtype for x in operands if not is_plain(x)}
    if len(dtypes) == 1 and jnp.issubdtype(next(iter(dtypes)), jnp.floating):
        return operands
    dtype = np.result_type(*(_weak(x) if is_plain(x) else x.dtype for x in operands))
    return tuple(lax.convert_element_type(x, dtype) for x in operands)


def is_plain(x: Any) -> bool:
    """Whether an operand is a Python number; inside a jitted function it is an array of its own."""
    return not hasattr(x, "dtype") or bool(getattr(x, "weak_type", False))


def _weak(x: Any) -> Any:
    """A Python number, or one of the kind that an array stands for."""
    return x.dtype.type(0).item() if hasattr(x, "dtype") else x


def promoting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of operands in their common dtype."""
    return lambda *operands: function(*common(*operands))


def is_float(*operands: Any) -> bool:
    """Whether an operand is an array of floats."""
    return any(jnp.issubdtype(x.dtype, jnp.floating) for x in operands if hasattr(x, "dtype"))


def wide(x: Any) -> Any:
    """Halves in float32: sums and functions of them are computed so, and rounded once."""
    return lax.convert_element_type(x, jnp.float32) if x.dtype.itemsize < 4 else x
