"""Changing shape: reshape, permute, expand, flip, join, split, pad, cast.

Ops take normal, static attributes (non-negative axes, full shapes), functions PyTorch's arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gradwalk.graph.abstract import is_array
from gradwalk.graph.versions import owner_of
from gradwalk.ops.core.dtypes import check_cast, result_dtype
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.public import other_names, public
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.shape.array_views import repeated, reshaped, transposed

P = ParamSpec("P")
R = TypeVar("R")

# -- users' arguments in normal form ---------------------------------------------------------


def normal_axis(dim: int, ndim: int) -> int:
    """A possibly negative axis as a non-negative one."""
    room = ndim or 1  # PyTorch allows dim 0 and -1 of a 0-d tensor
    try:
        index = dim.__index__()
    except AttributeError:
        raise TypeError(f"a dimension must be an integer, not {dim!r}") from None
    if not -room <= index < room:
        raise IndexError(
            f"dimension {index} is out of range for a tensor with {ndim} dimension(s): "
            f"use {-room} to {room - 1}"
        )
    return index + room if index < 0 else index


def normal_axes(dim: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """One or several axes as a tuple of distinct non-negative ones."""
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    axes = tuple(normal_axis(d, ndim) for d in dims)
    if len(set(axes)) != len(axes):
        raise OperandError(f"dimension listed twice in {tuple(dims)}")
    return axes if ndim else ()


def full_axes(x: Any, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The axes a reduction runs over: all of them for None or an empty list."""
    if not hasattr(x, "shape"):
        raise TypeError(
            f"expected a tensor or an array, not {type(x).__name__}; make one with "
            "gradwalk.tensor(...)"
        )
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(len(x.shape)))
    return normal_axes(dim, len(x.shape))


def sizes_of(sizes: tuple[Any, ...], size: Any = None) -> Shape:
    """`f(2, 3)`, `f((2, 3))` and `f(size=(2, 3))` all mean (2, 3)."""
    if size is not None:
        if sizes:
            raise TypeError(f"the sizes are given twice: as {sizes} and as {size}")
        sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return tuple(int(n) for n in sizes)


def _fill_in(shape: Shape, size: int) -> Shape:
    """Replace a -1 in a new shape by the size that fits."""
    if shape.count(-1) > 1:
        raise OperandError(f"only one dimension of {shape} may be -1")
    known = -math.prod(shape) if -1 in shape else math.prod(shape)
    fits = known and size % known == 0 if -1 in shape else known == size
    if not fits or any(n < -1 for n in shape):
        raise OperandError(f"shape {shape} does not fit {size} elements")
    return tuple(size // known if n == -1 else n for n in shape)


# -- the ops -----------------------------------------------------------------------------------

reshape: Op = define(
    "reshape",
    reshaped,
    vjp=[lambda g, x_shape: reshape(g, shape=x_shape)],
    shape=lambda x, *, shape: shape,
    linear=True,
    view=True,
)
permute: Op = define(
    "permute",
    transposed,
    vjp=[lambda g, axes: permute(g, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))],
    shape=lambda x, *, axes: tuple(x[i] for i in axes),
    linear=True,
    view=True,
)


def _expand_forward(x: Any, *, shape: Shape) -> Any:
    out = repeated(x, shape)
    # It is read-only, which an array without repeated elements need not be.
    return reshaped(x, shape=shape) if out.size == x.size else out


expand_op = define(
    "expand",
    _expand_forward,
    vjp=[1],  # the engine sums over the broadcast dimensions
    shape=lambda x, *, shape: shape,
    linear=True,
    broadcasts=True,
    view=True,
)
flip: Op = define(
    "flip",
    lambda x, *, axis: np.flip(x, axis).copy(),
    vjp=[lambda g, axis: flip(g, axis=axis)],
    shape=lambda x, *, axis: x,
    linear=True,
)
clone = define(
    "clone",
    lambda x: np.copy(x, order="C"),  # `contiguous` relies on that
    vjp=[1],
    shape=lambda x: x,
    linear=True,
    doc="A copy that gradients flow through.",
)
alias = define("alias", lambda x: x, vjp=[1], shape=lambda x: x, linear=True, view=True)


def _cast_forward(x: Any, *, dtype: np.dtype[Any]) -> Any:
    check_cast(x.dtype, dtype)
    return x.astype(dtype)


# In backward the engine casts back to the dtype of x.
_CAST_FACTS: dict[str, Any] = {"shape": lambda x, *, dtype: x, "keeps_order": True}
cast = define("cast", _cast_forward, vjp=[1], linear=True, **_CAST_FACTS)


def apart(made: Any, source: Any) -> Any:
    """`made`, copied if it shares the memory of `source`, because in PyTorch it never does."""
    arrays = [getattr(x, "_array", x) for x in (made, source)]
    shared = all(map(is_array, arrays)) and owner_of(arrays[0]) is owner_of(arrays[1])
    return clone(made) if shared else made


def unviewed(made: Any) -> Any:
    """A result that the caller alone has: a tensor like any other, although a reshape of something
    that nobody sees made it last."""
    if getattr(made, "_view", None) is not None:
        made._view = None
    return made


def new_result(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose result, or each of several, is `unviewed`."""

    @wraps(function)
    def made(*args: P.args, **keywords: P.kwargs) -> R:
        result = function(*args, **keywords)
        for part in result if isinstance(result, tuple) else (result,):
            unviewed(part)
        return result

    return made


def promoted(x: Any, *numbers: float | None) -> Any:
    """x, cast to the result dtype of x and some Python numbers; a plain number is returned."""
    if not hasattr(x, "dtype"):
        return x
    dtype = result_dtype([x, *(n for n in numbers if n is not None)])
    return x if x.dtype == dtype else cast(x, dtype=dtype)


def _joined_shape(*shapes: Shape, axis: int) -> Shape:
    total = sum(s[axis] for s in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _piece(g: Any, xs_shape: tuple[Shape, ...], position: int, axis: int) -> Any:
    start = sum(s[axis] for s in xs_shape[:position])
    return getitem_slice(g, axis, start, start + xs_shape[position][axis])


concatenate = define(
    "concatenate",
    lambda *xs, axis: np.concatenate(xs, axis),
    vjp=[_piece],
    shape=_joined_shape,
    linear=True,
    promotes=True,
)
split_op = define(
    "split",
    lambda x, *, sizes, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    vjp=[lambda g, axis: concatenate(*g, axis=axis)],
    outputs=("*pieces",),
    shape=lambda x, *, sizes, axis: tuple((*x[:axis], n, *x[axis + 1 :]) for n in sizes),
    linear=True,
    view=True,
)
pad_op = define(
    "pad",
    lambda x, *, widths, value: np.pad(x, widths, constant_values=value),
    vjp=[lambda g, widths, x_shape: _unpadded(g, widths, x_shape)],
    shape=lambda x, *, widths, value: tuple(
        n + before + after for n, (before, after) in zip(x, widths, strict=True)
    ),
    on_complex=True,
)


def _unpadded(g: Any, widths: tuple[tuple[int, int], ...], x_shape: Shape) -> Any:
    for axis, ((before, _), n) in enumerate(zip(widths, x_shape, strict=True)):
        g = getitem_slice(g, axis, before, before + n)
    return g


def getitem_slice(x: Any, axis: int, start: int, stop: int) -> Any:
    """x[..., start:stop, ...] along one axis."""
    from gradwalk.ops.index.indexing import getitem

    return getitem(x, index=(*(("slice", None, None, None),) * axis, ("slice", start, stop, None)))


# -- the functions of users --------------------------------------------------------------------


@public(names="reshape", method=True, out=False)
def reshape_to(input: Any, *sizes: Any, shape: Any = None) -> Any:
    """The same elements in another shape; one size may be -1."""
    return reshape(input, shape=_fill_in(sizes_of(sizes, shape), math.prod(input.shape)))


@public(names="permute", method=True, out=False)
def permute_to(input: Any, *axes_in_order: Any, dims: Any = None) -> Any:
    """Reorder the dimensions.

    >>> import gradwalk as gw
    >>> gw.permute(gw.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    axes = normal_axes(sizes_of(axes_in_order, dims), input.ndim)
    if len(axes) != input.ndim:
        raise OperandError(f"permute of {input.ndim} dimensions needs all of them, got {axes}")
    return permute(input, axes=axes)


@public(method=True, out=False)
def transpose(input: Any, dim0: Any, dim1: int | None = None) -> Any:
    """Swap two dimensions. Given one argument, the order of all of them, as NumPy's `transpose`."""
    if dim1 is None:
        return permute_to(input, tuple(dim0))
    axes = list(range(input.ndim))
    a, b = normal_axis(dim0, input.ndim), normal_axis(dim1, input.ndim)
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return permute(input, axes=tuple(axes))


def matrix_transpose(x: Any) -> Any:
    """Swap the last two dimensions (`x.mT`)."""
    if x.ndim < 2:
        raise OperandError(f".mT needs at least 2 dimensions, this has shape {tuple(x.shape)}")
    return transpose(x, -2, -1)


@public(namespaces="", method=True, out=False)
def reshape_as(input: Any, other: Any) -> Any:
    """The same elements in the shape of `other`."""
    return reshape_to(input, *other.shape)


@public(namespaces="", method=True, out=False)
def expand_as(input: Any, other: Any) -> Any:
    """Expand to the shape of `other`."""
    return expand(input, *other.shape)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """x repeated along new or length-1 dimensions; itself if it has that shape."""
    return x if x.shape == shape else expand_op(x, shape=shape)


@public(names="expand broadcast_to", method=True, out=False)
def expand(input: Any, *sizes: Any, size: Any = None) -> Any:
    """Repeat along new or length-1 dimensions, without copying; -1 keeps the size of one."""
    shape = sizes_of(sizes, size)
    lead = len(shape) - input.ndim
    if lead < 0 or any(n == -1 for n in shape[:lead]):
        raise OperandError(f"cannot expand shape {tuple(input.shape)} to {shape}")
    return expand_op(
        input, shape=tuple(input.shape[i - lead] if n == -1 else n for i, n in enumerate(shape))
    )


@public(method=True, numpy=True)
def squeeze(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """Drop dimensions of length 1: all of them, or those in `dim`."""
    axes = full_axes(input, dim) if dim is None else normal_axes(dim, input.ndim)
    kept = tuple(n for i, n in enumerate(input.shape) if not (i in axes and n == 1))
    return reshape(input, shape=kept)


@public(method=True, numpy=True)
def unsqueeze(input: Any, dim: int) -> Any:
    """Insert a dimension of length 1 at `dim`."""
    axis = normal_axis(dim, input.ndim + 1)
    return reshape(input, shape=(*input.shape[:axis], 1, *input.shape[axis:]))


@public(method=True, out=False)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    if not input.ndim:
        return reshape(input, shape=(1,))
    first, last = normal_axis(start_dim, input.ndim), normal_axis(end_dim, input.ndim)
    if first > last:
        raise OperandError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    if first == last:
        return input
    merged = math.prod(input.shape[first : last + 1])
    return reshape(input, shape=(*input.shape[:first], merged, *input.shape[last + 1 :]))


@public(names="flip", method=True, out=False)
def flip_over(input: Any, *axes: Any, dims: Any = None) -> Any:
    """Reverse the order of elements along `dims`."""
    if not axes and dims is None:
        raise TypeError("flip needs the dimensions to reverse: flip(0), or flip(dims=(0, 1))")
    return flip(input, axis=normal_axes(sizes_of(axes, dims), input.ndim))


@public(names="cat concat concatenate", numpy=True)
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Join along an existing dimension.

    >>> import gradwalk as gw
    >>> gw.cat([gw.zeros(2), gw.ones(1)])
    tensor([0., 0., 1.])
    """
    tensors = _several("cat", tensors)
    # As in PyTorch, an empty tensor of shape (0,) joins with any shape.
    full = [t for t in tensors if tuple(t.shape) != (0,)]
    if not full:
        return concatenate(*tensors, axis=0)
    if full and len(full) < len(tensors) and full[0].ndim > 1:
        dtype = result_dtype(tensors)
        tensors = [t if t.dtype == dtype else cast(t, dtype=dtype) for t in full]
    if any(not t.ndim for t in tensors):
        raise OperandError("cat joins along a dimension, and a 0-d tensor has none; use stack")
    return concatenate(*tensors, axis=normal_axis(dim, tensors[0].ndim))


@public(numpy=True)
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Join along a new dimension."""
    tensors = _several("stack", tensors)
    if len({tuple(t.shape) for t in tensors}) > 1:
        raise OperandError(f"stack needs equal shapes, got {[tuple(t.shape) for t in tensors]}")
    axis = normal_axis(dim, tensors[0].ndim + 1)
    return concatenate(*(unsqueeze(t, axis) for t in tensors), axis=axis)


def _several(name: str, tensors: Sequence[Any]) -> list[Any]:
    if hasattr(tensors, "shape"):
        raise TypeError(f"{name} takes a list or tuple of tensors, not one tensor")
    several = list(tensors)
    if not several:
        raise OperandError(f"{name} needs at least one tensor")
    for thing in several:
        if not hasattr(thing, "shape"):
            raise TypeError(f"{name} joins tensors, not a {type(thing).__name__}")
    return several


@public(method=True, out=False)
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Cut along `dim` into pieces of the listed sizes."""
    return split(input, list(split_sizes), dim)


@other_names(axis="dim")
def split_method(self: Any, split_size: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Cut along `dim` into pieces of one size, or of the listed sizes."""
    return split(self, split_size, dim)


@public(method=split_method, out=False)
def split(
    tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Any, ...]:
    """Cut along `dim` into pieces of one size (the last may be smaller) or of the given sizes."""
    axis = normal_axis(dim, tensor.ndim)
    length = tensor.shape[axis]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = tuple(int(n) for n in split_size_or_sections)
        if sum(sizes) != length:
            raise OperandError(f"split sizes {sizes} add up to {sum(sizes)}, not to {length}")
    else:
        size = operator.index(split_size_or_sections)  # type: ignore[arg-type]
        if size < 0 or size == 0 < length:
            raise OperandError(f"split size must be positive, got {size}")
        whole, rest = divmod(length, size or 1)
        sizes = (size,) * whole + ((rest,) if rest or not length else ())
    return split_op(tensor, sizes=sizes, axis=axis)


@public(method=True, numpy=True)
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Cut along `dim` into (at most) `chunks` pieces of equal size."""
    if chunks <= 0:
        raise OperandError(f"chunks must be positive, got {chunks}")
    length = input.shape[normal_axis(dim, input.ndim)]
    return split(input, -(-length // chunks) if length else [0] * chunks, dim)


@public()
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Pad; `pad` lists (before, after) from the last dimension backwards.

    Mode "constant" pads with `value`, "reflect" mirrors at the edge element, "replicate" repeats
    it, "circular" continues with the other end.
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"pad mode {mode!r} is not supported")
    if mode != "constant" and value is not None:
        raise OperandError(f"pad: mode {mode!r} takes no value")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise OperandError(
            f"pad needs (before, after) pairs, at most {input.ndim} of them, not {tuple(pad)}"
        )
    widths = [(0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        widths[input.ndim - 1 - i] = (int(pad[2 * i]), int(pad[2 * i + 1]))
    wider = [(max(before, 0), max(after, 0)) for before, after in widths]
    if mode in ("constant", "circular"):
        input = _narrowed(input, widths)
    if mode == "constant":
        return pad_op(input, widths=tuple(wider), value=0 if value is None else value)
    padded = input
    for axis, (before, after) in enumerate(wider):
        if before or after:
            padded = _continued(padded, axis, before, after, mode)
    # Cut after padding: the padding of one side may copy elements cut off on the other.
    return apart(padded if mode == "circular" else _narrowed(padded, widths), input)


def _narrowed(x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    """Negative padding cuts off; PyTorch allows it."""
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            start, stop = max(-before, 0), x.shape[axis] + min(after, 0)
            if start > stop:
                raise OperandError(f"pad: ({before}, {after}) cuts off more than {x.shape[axis]}")
            x = getitem_slice(x, axis, start, stop)
    return x


def _continued(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """x with elements of its own joined to both ends of one axis."""
    n = x.shape[axis]
    most = {"reflect": n - 1, "circular": n}.get(mode, max(before, after) if n else 0)
    if max(before, after) > most:
        raise OperandError(
            f"pad: mode {mode!r} can pad dimension {axis} of shape {tuple(x.shape)} by at most "
            f"{max(most, 0)}, not by ({before}, {after})"
        )
    if mode == "circular":
        head, tail = getitem_slice(x, axis, n - before, n), getitem_slice(x, axis, 0, after)
    elif mode == "reflect":
        head = flip(getitem_slice(x, axis, 1, before + 1), axis=(axis,))
        tail = flip(getitem_slice(x, axis, n - 1 - after, n - 1), axis=(axis,))
    else:
        edges = getitem_slice(x, axis, 0, 1), getitem_slice(x, axis, n - 1, n)
        head, tail = (
            broadcast_to(edge, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
            for edge, count in zip(edges, (before, after), strict=True)
        )
    parts = ([head] if before else []) + [x] + ([tail] if after else [])
    return concatenate(*parts, axis=axis)
