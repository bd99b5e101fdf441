"""Views with any strides over the memory of a contiguous tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.index.indexing import setitem
from gradwalk.ops.shape.reshaping import new_result, reshape


def _places(size: Shape, stride: Shape, offset: int) -> Any:
    """Where each element of the view lies in the flat tensor."""
    grids = np.indices(size, sparse=True)
    steps = (grid * step for grid, step in zip(grids, stride, strict=True))
    return np.broadcast_to(sum(steps, np.asarray(offset)), size)


def _strided_forward(x: Any, *, size: Shape, stride: Shape, offset: int) -> Any:
    flat = x.reshape(-1)
    view = np.lib.stride_tricks.as_strided(
        flat[offset:], size, [step * x.itemsize for step in stride], writeable=x.flags.writeable
    )
    if math.prod(size) > 1 and np.unique(_places(size, stride, offset)).size < view.size:
        view.flags.writeable = False  # elements that share a place
    return view


def _strided_add(g: Any, *, shape: Shape, size: Shape, stride: Shape, offset: int) -> Any:
    out = np.zeros(math.prod(shape), g.dtype)
    np.add.at(out, _places(size, stride, offset), g)
    return out.reshape(shape)


as_strided_op: Op = define(
    "as_strided",
    _strided_forward,
    vjp=[lambda g, x_shape, attrs: strided_add(g, shape=x_shape, **attrs)],
    shape=lambda x, *, size, stride, offset: size,
    linear=True,
    view=True,
)
strided_add: Op = define(
    "strided_add",
    _strided_add,
    vjp=[lambda g, size, stride, offset: as_strided_op(g, size=size, stride=stride, offset=offset)],
    shape=lambda g, *, shape, size, stride, offset: shape,
    linear=True,
)


def _own_offset(input: Any) -> int:
    """How many elements lie in memory before the first one of a tensor; 0 of a bare array, and of
    what has no memory of its own: inside vmap and traces."""
    in_memory = getattr(input, "_array", None).__class__ is np.ndarray
    return input.storage_offset() if in_memory else 0


def _behind(input: Any, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    """The tensor to take the elements from, and the offset in it: of a view that is not in order,
    or that does not reach as far, the tensor that it shows."""
    base = getattr(input, "_base", None)
    if base is None or not base.is_contiguous():
        return input, offset
    own = _own_offset(input)
    first = own if offset is None else int(offset)
    last = first + sum((int(n) - 1) * int(s) for n, s in zip(size, stride, strict=False))
    inside = own <= first and last < own + math.prod(input.shape)
    return (input, offset) if inside and input.is_contiguous() else (base, first)


def _checked(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> dict[str, Any]:
    """The attributes of the op, if the view lies inside the tensor."""
    offset = 0 if storage_offset is None else int(storage_offset) - _own_offset(input)
    sizes, steps = tuple(map(int, size)), tuple(map(int, stride))
    if len(sizes) != len(steps) or min((*sizes, *steps), default=0) < 0:
        raise ValueError(f"as_strided: size {sizes} and stride {steps} do not fit each other")
    last = offset + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    if math.prod(sizes) and not 0 <= offset <= last < math.prod(input.shape):
        raise ValueError(
            f"as_strided: size {sizes}, stride {steps} from {offset} on leave the "
            f"{math.prod(input.shape)} elements of the tensor"
        )
    if hasattr(input, "is_contiguous") and not input.is_contiguous():
        raise ValueError("as_strided takes a contiguous tensor: call .contiguous() first")
    return {"size": sizes, "stride": steps, "offset": offset}


@public(method=True, out=False)
def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """A view of the elements of a contiguous tensor, `stride` apart along each dimension.

    >>> import gradwalk as gw
    >>> gw.as_strided(gw.arange(4), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    shown, offset = _behind(input, size, stride, storage_offset)
    return as_strided_op(shown, **_checked(shown, size, stride, offset))


@public(method=True)
@new_result
def as_strided_scatter(
    input: Any,
    src: Any,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """A copy of `input` with `src` at the places that `as_strided` would show."""
    attrs = _checked(input, size, stride, storage_offset)
    if tuple(src.shape) != attrs["size"]:
        raise ValueError(f"as_strided_scatter: src has shape {tuple(src.shape)}, not {size}")
    flat, values = (reshape(x, shape=(math.prod(x.shape),)) for x in (input, src))
    places = _places(**attrs).reshape(-1)
    return reshape(setitem(flat, values, places, index=(("array", 0),)), shape=tuple(input.shape))
