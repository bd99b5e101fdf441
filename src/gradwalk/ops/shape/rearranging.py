"""Rearranging elements: diagonals, triangles, windows, tiles, rolls, and cutting into parts.

Two pairs of ops are each other's transpose: `diagonal` and `diagonal_put`, `windows` and
`windows_add`. The other functions are made of slices, joins and reshapes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.graph.abstract import is_unknown
from gradwalk.ops.core.dtypes import int64
from gradwalk.ops.core.op import Op, Shape, UnknownShapeError, define
from gradwalk.ops.core.public import public, public_as, split_names
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.elementwise.choice import bitwise_and, where
from gradwalk.ops.index.indexing import getitem, index_select
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.shape.reshaping import (
    apart,
    broadcast_to,
    cast,
    cat,
    clone,
    flip,
    getitem_slice,
    new_result,
    normal_axes,
    normal_axis,
    permute,
    reshape,
    sizes_of,
    split_op,
    transpose,
    unsqueeze,
)

# -- diagonals -----------------------------------------------------------------------------------


def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


def _diagonal_view(x: Any, offset: int, axes: tuple[int, int]) -> Any:
    view = np.diagonal(x, offset, *axes)
    if x.flags.writeable:
        view.flags.writeable = True  # NumPy forbids writing; we track views ourselves
    return view


def _diagonal_shape(x: Shape, *, offset: int, axes: tuple[int, int]) -> Shape:
    kept = tuple(n for i, n in enumerate(x) if i not in axes)
    return (*kept, _diagonal_length(x[axes[0]], x[axes[1]], offset))


def _diagonal_put_forward(g: Any, *, shape: Shape, offset: int, axes: tuple[int, int]) -> Any:
    out = np.zeros(shape, g.dtype)
    _diagonal_view(out, offset, axes)[...] = g
    return out


diagonal_op: Op = define(
    "diagonal",
    lambda x, *, offset, axes: _diagonal_view(x, offset, axes),
    vjp=[lambda g, x_shape, attrs: diagonal_put(g, shape=x_shape, **attrs)],
    shape=_diagonal_shape,
    linear=True,
    view=True,
)
diagonal_put: Op = define(
    "diagonal_put",
    _diagonal_put_forward,
    vjp=[lambda g, offset, axes: diagonal_op(g, offset=offset, axes=axes)],
    shape=lambda g, *, shape, offset, axes: shape,
    linear=True,
)


def two_axes(name: str, dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    first, second = normal_axis(dim1, ndim), normal_axis(dim2, ndim)
    if first == second or ndim < 2:
        raise OperandError(f"{name} needs two different dimensions, got {dim1} and {dim2}")
    return first, second


@public(method=True, out=False)
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal over two dimensions, as a view; it becomes the last dimension.

    >>> import gradwalk as gw
    >>> gw.diagonal(gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    axes = two_axes("diagonal", dim1, dim2, input.ndim)
    return diagonal_op(input, offset=int(offset), axes=axes)


@public(method=True)
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices over `dim1` and `dim2` with the last dimension of `input` on their diagonal."""
    axes = two_axes("diag_embed", dim1, dim2, input.ndim + 1)
    side = input.shape[-1] + abs(offset)
    sizes = iter(input.shape[:-1])
    shape = tuple(side if i in axes else next(sizes) for i in range(input.ndim + 1))
    return diagonal_put(input, shape=shape, offset=int(offset), axes=axes)


@public(method=True)
def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector as the diagonal of a matrix; of a matrix, its diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise OperandError(f"diag takes a vector or a matrix, not shape {tuple(input.shape)}")
    return clone(diagonal_op(input, offset=int(diagonal), axes=(0, 1)))


def _triangle(name: str, x: Any, kept: Any) -> Any:
    if x.ndim < 2:
        raise OperandError(f"{name} needs at least 2 dimensions, this has shape {tuple(x.shape)}")
    mask = kept(x.shape[-2], x.shape[-1])
    return bitwise_and(x, mask) if x.dtype.kind == "b" else where(mask, x, 0)


@public(method=True, inplace=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of matrices, zero above the given diagonal.

    >>> import gradwalk as gw
    >>> gw.tril(gw.ones(2, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    return _triangle("tril", input, lambda n, m: np.tri(n, m, diagonal, dtype=bool))


@public(method=True, inplace=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of matrices, zero below the given diagonal."""
    return _triangle("triu", input, lambda n, m: ~np.tri(n, m, diagonal - 1, dtype=bool))


# -- windows -------------------------------------------------------------------------------------


def _windows_forward(x: Any, *, axis: int, size: int, step: int) -> Any:
    # Read-only where they overlap.
    windows = np.lib.stride_tricks.sliding_window_view(
        x, size, axis, writeable=x.flags.writeable and step >= size
    )
    return windows[(slice(None),) * axis + (slice(None, None, step),)]


def _windows_add_forward(g: Any, *, shape: Shape, axis: int, size: int, step: int) -> Any:
    out = np.zeros(shape, g.dtype)
    before = (slice(None),) * axis
    reach = (g.shape[axis] - 1) * step + 1
    for start in range(size):
        out[(*before, slice(start, start + reach, step))] += g[..., start]
    return out


windows_op: Op = define(
    "windows",
    _windows_forward,
    vjp=[lambda g, x_shape, attrs: windows_add(g, shape=x_shape, **attrs)],
    shape=lambda x, *, axis, size, step: (
        *x[:axis],
        (x[axis] - size) // step + 1,
        *x[axis + 1 :],
        size,
    ),
    linear=True,
    view=True,
)
windows_add: Op = define(
    "windows_add",
    _windows_add_forward,
    vjp=[lambda g, axis, size, step: windows_op(g, axis=axis, size=size, step=step)],
    shape=lambda g, *, shape, axis, size, step: shape,
    linear=True,
)


@public(names="unfold", namespaces="", method=True, out=False)
def windows(input: Any, dimension: int, size: int, step: int) -> Any:
    """All windows of `size` elements, `step` apart, along a dimension: a view."""
    axis = normal_axis(dimension, input.ndim)
    vector = input if input.ndim else reshape(input, shape=(1,))
    if not 0 <= size <= vector.shape[axis] or step <= 0:
        raise OperandError(
            f"unfold: windows of {size}, {step} apart, do not fit dimension {dimension} of shape "
            f"{tuple(input.shape)}"
        )
    if not input.ndim:  # one window, without a dimension that counts windows
        return getitem_slice(vector, 0, 0, size)
    return windows_op(input, axis=axis, size=int(size), step=int(step))


# -- the order of dimensions and elements --------------------------------------------------------


@public(method=True, out=False)
def ravel(input: Any) -> Any:
    """All elements in one dimension: a view if they lie in memory in order, else a copy."""
    flat = reshape(input, shape=(math.prod(input.shape),))
    in_order = not hasattr(input, "is_contiguous") or input.is_contiguous()
    return flat if in_order else apart(flat, input)


@public(method=True, numpy=True)
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One dimension seen as several; one size may be -1.

    >>> import gradwalk as gw
    >>> gw.unflatten(gw.zeros(2, 6), 1, (3, -1)).shape
    (2, 3, 2)
    """
    axis = normal_axis(dim, input.ndim)
    length, wanted = input.shape[axis], sizes_of((sizes,))
    known = math.prod(n for n in wanted if n != -1)
    full = tuple((length // known if known else 0) if n == -1 else n for n in wanted)
    if wanted.count(-1) > 1 or math.prod(full) != length or min(full, default=-1) < 0:
        raise OperandError(f"unflatten: sizes {wanted} do not fit a dimension of length {length}")
    return reshape(input, shape=(*input.shape[:axis], *full, *input.shape[axis + 1 :]))


@public(names="movedim moveaxis", method=True, out=False)
def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Move dimensions to new places; the others keep their order."""
    old, new = normal_axes(source, input.ndim), normal_axes(destination, input.ndim)
    if len(old) != len(new):
        raise OperandError(f"movedim: {source} and {destination} differ in length")
    placed = dict(zip(new, old, strict=True))
    rest = (i for i in range(input.ndim) if i not in old)
    return permute(
        input, axes=tuple(placed[i] if i in placed else next(rest) for i in range(input.ndim))
    )


swapdims = public(names="swapdims", method=True, out=False)(transpose)


@public(method=True, out=False)
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Swap two dimensions: NumPy's name for `transpose`."""
    return transpose(input, axis0, axis1)


@public(method=True)
def fliplr(input: Any) -> Any:
    """Reverse the columns."""
    if input.ndim < 2:
        raise OperandError(f"fliplr needs at least 2 dimensions, got shape {tuple(input.shape)}")
    return flip(input, axis=(1,))


@public(method=True)
def flipud(input: Any) -> Any:
    """Reverse the rows."""
    if not input.ndim:
        raise OperandError("flipud needs at least 1 dimension")
    return flip(input, axis=(0,))


@public(method=True)
@new_result
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Turn the plane of two dimensions by k × 90°, from the first towards the second."""
    if len(dims) != 2:
        raise OperandError(f"rot90 turns a plane of 2 dimensions, got {tuple(dims)}")
    first, second = two_axes("rot90", dims[0], dims[1], input.ndim)
    turns = k % 4
    if turns == 0:
        return clone(input)
    if turns == 2:
        return flip(input, axis=(first, second))
    turned = flip(input, axis=(second if turns == 1 else first,))
    return transpose(turned, first, second)


@public(method=True)
@new_result
def roll(input: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """Shift elements along dimensions; elements that leave at one end enter at the other.

    >>> import gradwalk as gw
    >>> gw.roll(gw.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    steps = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    if dims is None or (isinstance(dims, tuple) and not dims):
        if len(steps) != 1:
            raise OperandError(f"roll without dims takes one shift, got {steps}")
        return reshape(roll(ravel(input), steps, (0,)), shape=tuple(input.shape))
    axes = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(steps) != len(axes):
        raise OperandError(f"roll needs one shift per dimension, got {steps} and {tuple(axes)}")
    out = input
    for step, dim in zip(steps, axes, strict=True):
        axis = normal_axis(dim, input.ndim)
        if not input.ndim:
            raise IndexError(f"roll along {dim}: a 0-d tensor has no dimensions; leave dims out")
        length = input.shape[axis]
        cut = -step % length if length else 0
        if cut:
            head = getitem_slice(out, axis, 0, cut)
            out = cat([getitem_slice(out, axis, cut, length), head], axis)
    return clone(out) if out is input else out


# -- repeating -----------------------------------------------------------------------------------


@public(method=True)
def tile(input: Any, *times: Any, dims: Any = None) -> Any:
    """Repeat the whole tensor along each dimension; missing numbers in front are 1.

    >>> import gradwalk as gw
    >>> gw.tile(gw.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = sizes_of(times, dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@public(namespaces="", method=True)
def repeat(input: Any, *sizes: Any, repeats: Any = None) -> Any:
    """Repeat the whole tensor a number of times along each dimension."""
    times = sizes_of(sizes, repeats)
    if len(times) < input.ndim or any(n < 0 for n in times):
        raise OperandError(
            f"repeat needs a number for each of {input.ndim} dimension(s), not {times}"
        )
    shape = (1,) * (len(times) - input.ndim) + tuple(input.shape)
    # Insert a dimension before each one and repeat along it: only the last step copies.
    lifted = reshape(input, shape=tuple(n for length in shape for n in (1, length)))
    spread = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    whole = tuple(n * length for n, length in zip(times, shape, strict=True))
    return apart(reshape(broadcast_to(lifted, spread), shape=whole), input)


def concrete(x: Any, name: str) -> Any:
    """The numbers of a tensor, for a result whose shape depends on them; raise for a symbol."""
    numbers = x.detach().cpu().numpy() if hasattr(x, "detach") else x
    if not isinstance(numbers, (np.ndarray, np.generic)):
        raise UnknownShapeError(
            f"the shape of {name} depends on numbers, which a symbol does not have"
        )
    return numbers


@public(method=True, numpy=True)
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Repeat every element (along `dim`; flat without it), each `repeats` times.

    With one argument, that argument is the repeats, and the result holds indices of elements.
    """
    if repeats is None:
        times = concrete(input, "repeat_interleave")
        index = np.repeat(np.arange(times.size), times)
        return getitem(np.arange(times.size) + input * 0, index, index=(("array", 0),))
    source = input
    if dim is None:
        input, dim = ravel(input), 0
    axis = normal_axis(dim, input.ndim)
    if not hasattr(repeats, "shape") and not isinstance(repeats, (tuple, list)):
        lifted = unsqueeze(input, axis + 1)
        spread = tuple(int(repeats) if i == axis + 1 else n for i, n in enumerate(lifted.shape))
        merged = (*input.shape[:axis], input.shape[axis] * int(repeats), *input.shape[axis + 1 :])
        return apart(reshape(broadcast_to(lifted, spread), shape=merged), source)
    if isinstance(repeats, (tuple, list)):
        repeats = np.asarray(repeats, np.int64)
    if output_size is not None and is_unknown(repeats):
        ends = cumsum(broadcast_to(cast(repeats, dtype=int64), (input.shape[axis],)), 0)
        places = np.arange(output_size).reshape(-1, 1)
        return index_select(input, axis, sum(cast(ends <= places, dtype=int64), 1))
    times = np.broadcast_to(concrete(repeats, "repeat_interleave"), input.shape[axis])
    return index_select(input, axis, np.repeat(np.arange(input.shape[axis]), times))


# -- joining and cutting -------------------------------------------------------------------------


def _lifted(t: Any, ndim: int) -> Any:
    """A tensor with dimensions of length 1: up to two in front, a third at the end."""
    missing = min(ndim, 2) - t.ndim
    t = reshape(t, shape=(1,) * missing + tuple(t.shape)) if missing > 0 else t
    return t if t.ndim >= ndim else unsqueeze(t, -1)


def _atleast(ndim: int, doc: str) -> Callable[..., Any]:
    """The public function that lifts one tensor, or each of several, to a rank."""

    @public_as(f"atleast_{ndim}d", doc)
    def lift(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return _lifted(tensors[0], ndim)
        return tuple(_lifted(t, ndim) for t in (tensors[0] if len(tensors) == 1 else tensors))

    return lift


atleast_1d = _atleast(1, "Tensors with at least one dimension.")
atleast_2d = _atleast(2, "Tensors with at least two dimensions; a vector becomes a row.")
atleast_3d = _atleast(3, "Tensors with at least three dimensions; the third is the last.")


@public()
def hstack(tensors: Sequence[Any]) -> Any:
    """Join side by side: vectors end to end, others along the second dimension."""
    parts = atleast_1d(tuple(tensors))
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@public(names="vstack row_stack")
def vstack(tensors: Sequence[Any]) -> Any:
    """Join on top of each other; vectors are rows."""
    return cat(atleast_2d(tuple(tensors)), 0)


@public()
def dstack(tensors: Sequence[Any]) -> Any:
    """Join along the third dimension."""
    return cat(atleast_3d(tuple(tensors)), 2)


@public(method=True, numpy=True)
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dimension, which is dropped."""
    if not input.ndim:
        raise OperandError("unbind needs at least 1 dimension")
    axis = normal_axis(dim, input.ndim)
    shape = (*input.shape[:axis], *input.shape[axis + 1 :])
    if not input.shape[axis]:
        return ()
    # One split, not a select each: the gradient is then one join instead of a sum.
    pieces = split_op(input, sizes=(1,) * input.shape[axis], axis=axis)
    return tuple(reshape(piece, shape=shape) for piece in pieces)


@public(method=True, numpy=True)
@split_names
def tensor_split(
    input: Any, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Any, ...]:
    """Cut into a number of parts of nearly equal size, or at the given indices."""
    axis = normal_axis(dim, input.ndim)
    length = input.shape[axis] if input.ndim else 0
    if not input.ndim:
        raise OperandError("tensor_split needs at least 1 dimension")
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        ends = [slice(None, int(i)).indices(length)[1] for i in indices_or_sections]
        starts = [0, *ends]
        return tuple(
            getitem_slice(input, axis, start, max(start, stop))
            for start, stop in zip(starts, [*ends, length], strict=True)
        )
    count = operator.index(indices_or_sections)  # type: ignore[arg-type]
    if count <= 0:
        raise OperandError(f"tensor_split: the number of parts must be positive, got {count}")
    size, larger = divmod(length, count)
    return split_op(input, sizes=(size + 1,) * larger + (size,) * (count - larger), axis=axis)


@public(method=True, numpy=True)
def select(input: Any, dim: int, index: int) -> Any:
    """One slice along a dimension, which is dropped: a view."""
    axis = normal_axis(dim, input.ndim)
    return getitem(input, index=(*(("slice", None, None, None),) * axis, index.__index__()))


@public(method=True, numpy=True)
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` slices along a dimension from `start` on: a view."""
    axis = normal_axis(dim, input.ndim)
    size = input.shape[axis]
    if getattr(start, "ndim", 0) or getattr(getattr(start, "dtype", None), "kind", "i") not in "iu":
        raise TypeError(f"narrow starts at an integer or a 0-d tensor of one, not at {start!r}")
    first = start.__index__()
    first = first + size if first < 0 else first
    if not 0 <= first <= size or not 0 <= length <= size - first:
        raise OperandError(
            f"narrow: {length} element(s) from {start} on do not fit a dimension of {size}"
        )
    return getitem_slice(input, axis, first, first + length)
