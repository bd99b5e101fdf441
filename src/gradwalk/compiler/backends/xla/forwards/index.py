"""Reading and writing elements by index, mask or row number.

Indices are taken as they are, negative ones from the end: what is out of range was refused before.
Arrays of JAX cannot be changed, so a write through a view is a chain of writes, the innermost
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwalk.compiler.backends.xla.forwards import shape as shaping
from gradwalk.ops.index.indexing import Index, place, to_numpy_index

Shape = tuple[int, ...]
Arrays = tuple[Any, ...]


def _is(part: Any, kind: str) -> bool:
    return isinstance(part, tuple) and part[0] == kind


def _parts(index: Index, kind: str) -> int:
    return sum(_is(part, kind) for part in index)


def _getitem(x: Any, *indices: Any, index: Index) -> Any:
    part, subscript = place(x, index, indices)
    return part.at[subscript].get(mode="clip")


# -- writing -------------------------------------------------------------------------------------


def _fitted(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value as it is assigned to elements of a dtype; leading axes of length 1 mean nothing."""
    value = lax.convert_element_type(value, dtype)
    lead = next((i for i, n in enumerate(value.shape) if n != 1), value.ndim)
    return value.reshape(value.shape[lead:])


def _change(x: Any, index: Index, indices: Arrays, write: Callable[[Any], Any]) -> Any:
    """x with write(part) in the place of the part that the integers of an index select."""
    # np.s_[...] is its own subscript: place() tells which one it applies to x first.
    first, _ = place(np.s_, index, indices)
    return write(x) if first is np.s_ else x.at[first].set(write(x[first]))


def _without_integers(index: Index, indices: Arrays) -> Index:
    """What is left of an index once place() has applied its integers."""
    if place(np.s_, index, indices)[0] is np.s_:
        return index
    return tuple(part for part in index if not isinstance(part, int))


def _setitem(x: Any, value: Any, *indices: Any, index: Index) -> Any:
    value = _fitted(value, x.dtype)
    rest = _without_integers(index, indices)
    subscript = to_numpy_index(rest, indices)
    if _parts(rest, "mask") == 1 and not _parts(rest, "array"):
        return _change(x, index, indices, lambda part: _set_mask(part, value, rest, indices))
    if _parts(rest, "array") and value.ndim:
        return _change(x, index, indices, lambda part: _set_last(part, value, subscript))
    return _change(x, index, indices, lambda part: part.at[subscript].set(value))


def _set_mask(x: Any, value: Any, index: Index, indices: Arrays) -> Any:
    """x[index] = value for an index with one mask: a choice, whose shape is known beforehand."""
    position = next(i for i, part in enumerate(index) if _is(part, "mask"))
    before, (_, number, rank), after = index[:position], index[position], index[position + 1 :]
    mask = indices[number]
    whole = (*before, *(("slice", None, None, None),) * rank, *after)
    block = x[to_numpy_index(whole, ())]
    behind = len(after) if "..." in before else block.ndim - len(before) - rank
    if value.ndim > behind:  # one row per True element, in their order; or one for all
        axis = value.ndim - behind - 1
        if not value.shape[axis]:
            return x
        turn = jnp.cumsum(mask.reshape(-1)).reshape(mask.shape) - 1
        value = value.at[(slice(None),) * axis + (jnp.maximum(turn, 0),)].get(mode="clip")
    chosen = jnp.where(mask.reshape(mask.shape + (1,) * behind), value, block)
    return x.at[to_numpy_index(whole, ())].set(chosen)


def _numbered(x: Any, subscript: Arrays) -> tuple[Any, Any]:
    """The number of each write to x[subscript], and for each element of x that of its last one.

    The maximum does not depend on the order of writes, which XLA may choose; -1 means no write.
    """
    target = jnp.zeros(x.shape, bool).at[subscript].get(mode="clip").shape
    numbers = jnp.arange(math.prod(target)).reshape(target)
    return numbers, jnp.full(x.shape, -1, np.int64).at[subscript].max(numbers)


def _set_last(x: Any, value: Any, subscript: Arrays) -> Any:
    """x[subscript] = value, where of several writes to one element the last one wins."""
    numbers, last = _numbered(x, subscript)
    flat = jnp.broadcast_to(value, numbers.shape).reshape(-1)
    if not flat.size:
        return x
    return jnp.where(last < 0, x, flat.at[jnp.maximum(last, 0)].get(mode="clip"))


def _winners(x: Any, *indices: Any, index: Index) -> Any:
    part, subscript = place(jnp.zeros(x.shape, bool), index, indices)
    numbers, last = _numbered(part, subscript)
    return last.at[subscript].get(mode="clip") == numbers


def _put(g: Any, *indices: Any, index: Index, shape: Shape) -> Any:
    if not indices:
        return _spread(g, index, shape)
    out = jnp.zeros(shape, g.dtype)
    if not _parts(index, "array"):
        return _setitem(out, g, *indices, index=index)
    subscript = to_numpy_index(_without_integers(index, indices), indices)
    if g.dtype == bool:  # True + True is True
        return _change(out, index, indices, lambda part: part.at[subscript].max(g))
    return _change(out, index, indices, lambda part: part.at[subscript].add(g))


def _spread(g: Any, index: Index, shape: Shape) -> Any:
    """Zeros with g where integers and slices point: padding, which XLA fuses, unlike a scatter."""
    spans = _spans(index, shape)
    x = g.reshape([len(span) for span in spans])
    x = jnp.flip(x, [axis for axis, span in enumerate(spans) if span.step < 0])
    widths = []
    for span, length in zip(spans, shape, strict=True):
        low, high = (min(span[0], span[-1]), max(span[0], span[-1])) if span else (0, -1)
        widths.append((low, length - 1 - high, abs(span.step) - 1 if span else 0))
    return lax.pad(x, jnp.zeros((), g.dtype), widths)


def _spans(index: Index, shape: Shape) -> list[range]:
    """The places along each axis that an index of integers and slices selects."""
    parts = [part for part in index if part is not None]
    at = parts.index("...") if "..." in parts else len(parts)
    missing = len(shape) - sum(part != "..." for part in parts)
    full = [*parts[:at], *[("slice", None, None, None)] * missing, *parts[at + 1 :]]
    return [
        range(n)[slice(*part[1:])] if isinstance(part, tuple) else range(part % n, part % n + 1)
        for part, n in zip(full, shape, strict=True)
    ]


# -- a change through a view ---------------------------------------------------------------------


def _set_piece(x: Any, piece: Any, which: int, *, sizes: tuple[int, ...], axis: int) -> Any:
    start = sum(sizes[:which])
    return x.at[(slice(None),) * axis + (slice(start, start + sizes[which]),)].set(piece)


def _set_windows(x: Any, windows: Any, *, axis: int, size: int, step: int) -> Any:
    places = shaping.window_places(windows.shape[axis], axis, size, step)
    return x.at[places].set(jnp.moveaxis(windows, -1, axis + 1))


# How x changes if what a view op made of it is replaced: (x, the new part, output, attributes).
_REPLACED: dict[str, Callable[..., Any]] = {
    "alias": lambda x, part, _: part,
    "reshape": lambda x, part, _, *, shape: part.reshape(x.shape),
    "expand": lambda x, part, _, *, shape: part.reshape(x.shape),  # no element is repeated
    "permute": lambda x, part, _, *, axes: jnp.transpose(part, np.argsort(axes)),
    "getitem": lambda x, part, _, *, index: _setitem(x, part, index=index),
    "split": _set_piece,
    "diagonal": lambda x, part, _, **attrs: shaping.set_diagonal(x, part, **attrs),
    "windows": lambda x, part, _, **attrs: _set_windows(x, part, **attrs),
}


def _write_view(base: Any, value: Any, *, chain: tuple[Any, ...]) -> Any:
    if not chain:
        return jnp.broadcast_to(_fitted(value, base.dtype), base.shape)
    (op, attrs, which), *rest = chain
    view = _getitem if op.name == "getitem" else shaping.FORWARDS[op.name]
    made = view(base, **attrs)
    part = _write_view(made[which] if op.multiple else made, value, chain=tuple(rest))
    return _REPLACED[op.name](base, part, which, **attrs)


# -- rows of a table, and the last axis ------------------------------------------------------------


def _sum_rows(y: Any, indices: Any, *, count: int, skip: int | None) -> Any:
    out = jnp.zeros((count, *y.shape[indices.ndim :]), y.dtype).at[indices].add(y)
    return out if skip is None else out.at[skip].set(0)


def _scatter_last(y: Any, indices: Any, *, length: int, apart: bool) -> Any:
    rows = math.prod(y.shape[:-1])
    offsets = jnp.arange(rows).reshape(*y.shape[:-1], 1) * length
    out = jnp.zeros(rows * length, y.dtype).at[(indices + offsets).reshape(-1)]
    flat = y.reshape(-1)
    written = out.set(flat, unique_indices=True) if apart else out.add(flat)
    return written.reshape(*y.shape[:-1], length)


FORWARDS: dict[str, Callable[..., Any]] = {
    "getitem": _getitem,
    "setitem": _setitem,
    "put": _put,
    "winners": _winners,
    "write_view": _write_view,
    "embedding": lambda weight, indices, *, padding_idx: weight.at[indices].get(mode="clip"),
    "sum_rows": _sum_rows,
    "gather_last": lambda x, indices, *, apart: jnp.take_along_axis(x, indices, -1, mode="clip"),
    "scatter_last": _scatter_last,
    "checked_index": lambda index, *, length: jnp.clip(
        jnp.where(index < 0, index + length, index), 0, length - 1
    ),
}
