"""The shape, the order and the dtype of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwalk.compiler.backends.xla.forwards.promotion import common, is_float

Shape = tuple[int, ...]


def _cast(x: Any, *, dtype: np.dtype[Any]) -> Any:
    if is_float(x) and dtype.kind in "iu" and dtype.itemsize < 8:
        # A float beyond a short integer wraps around, as in NumPy; XLA would stop at its limit.
        x = lax.convert_element_type(x, np.int64)
    return lax.convert_element_type(x, dtype)


def _pad(x: Any, *, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    return lax.pad(x, x.dtype.type(value), [(before, after, 0) for before, after in widths])


# -- diagonals -----------------------------------------------------------------------------------


def diagonal_places(length: int, offset: int) -> tuple[Any, Any]:
    """The rows and columns of a diagonal."""
    along = np.arange(length)
    return along + max(-offset, 0), along + max(offset, 0)


def set_diagonal(x: Any, value: Any, *, offset: int, axes: tuple[int, int]) -> Any:
    """x with its diagonal over two axes replaced; the value has it as its last axis."""
    places = diagonal_places(value.shape[-1], offset)
    matrices = jnp.moveaxis(x, axes, (-2, -1)).at[(..., *places)].set(value, unique_indices=True)
    return jnp.moveaxis(matrices, (-2, -1), axes)


def _diagonal_put(g: Any, *, shape: Shape, offset: int, axes: tuple[int, int]) -> Any:
    return set_diagonal(jnp.zeros(shape, g.dtype), g, offset=offset, axes=axes)


# -- windows -------------------------------------------------------------------------------------


def window_places(count: int, axis: int, size: int, step: int) -> tuple[Any, ...]:
    """The subscript that reads `count` windows along an axis, their elements on the next one."""
    return (slice(None),) * axis + (np.arange(count)[:, None] * step + np.arange(size),)


def _windows(x: Any, *, axis: int, size: int, step: int) -> Any:
    count = (x.shape[axis] - size) // step + 1
    return jnp.moveaxis(x[window_places(count, axis, size, step)], axis + 1, -1)


def _windows_add(g: Any, *, shape: Shape, axis: int, size: int, step: int) -> Any:
    places = window_places(g.shape[axis], axis, size, step)
    return jnp.zeros(shape, g.dtype).at[places].add(jnp.moveaxis(g, -1, axis + 1))


FORWARDS: dict[str, Callable[..., Any]] = {
    "cast": _cast,
    "reshape": lambda x, *, shape: jnp.reshape(x, shape),
    "permute": lambda x, *, axes: jnp.transpose(x, axes),
    "expand": lambda x, *, shape: jnp.broadcast_to(x, shape),
    "flip": lambda x, *, axis: jnp.flip(x, axis),
    "clone": jnp.copy,
    "alias": lambda x: x,
    "concatenate": lambda *xs, axis: jnp.concatenate(common(*xs), axis),
    "split": lambda x, *, sizes, axis: tuple(lax.split(x, sizes, axis)),
    "pad": _pad,
    "diagonal": lambda x, *, offset, axes: jnp.diagonal(x, offset, *axes),
    "diagonal_put": _diagonal_put,
    "windows": _windows,
    "windows_add": _windows_add,
}
