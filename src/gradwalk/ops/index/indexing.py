"""Indexing: getitem and setitem with every NumPy index kind, gather, scatter_add and friends.

Index arrays and masks are inputs of the ops, never attributes. The fixed part of an index is
the attribute `index`, a tuple with one entry per subscript:

    3                        an integer
    ("slice", a, b, step)    a slice
    None, "..."              a new axis, the ellipsis
    ("array", 0)             the first of the index arrays
    ("mask", 0, 2)           the first of them, a boolean one over two dimensions
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.graph.abstract import is_unknown
from gradwalk.ops.core.dtypes import bool_, is_floating, unsigned
from gradwalk.ops.core.op import Op, Shape, UnknownShapeError, define
from gradwalk.ops.core.public import Change, public, public_change
from gradwalk.ops.elementwise.arithmetic import add, zero
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import conj
from gradwalk.ops.index.rows_added import rows_added
from gradwalk.ops.shape.reshaping import (
    apart,
    broadcast_to,
    clone,
    getitem_slice,
    new_result,
    normal_axis,
    reshape,
)

Index = tuple[Any, ...]


def to_numpy_index(index: Index, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The attribute form back to what NumPy takes."""
    subscript: list[Any] = []
    for part in index:
        if part == "...":
            subscript.append(Ellipsis)
        elif isinstance(part, tuple):
            subscript.append(slice(*part[1:]) if part[0] == "slice" else arrays[part[1]])
        else:
            subscript.append(part)
    if "..." not in index:
        subscript.append(Ellipsis)  # so that x[0] is a 0-d view instead of a NumPy scalar
    return tuple(subscript)


def place(x: Any, index: Index, arrays: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The part of x that the integers of an index select, and the subscript for the rest.

    Beside an index array, NumPy treats an integer as an array too and may move dimensions:
    x[0, :, [1, 3]] would have its 2 before the slice. As in PyTorch, integers go first.
    """
    if _is_view(index) or not any(isinstance(part, int) for part in index):
        return x, to_numpy_index(index, arrays)
    first: list[Any] = []
    for part in index:
        if isinstance(part, int):
            first.append(part)
        elif part == "...":
            first.append(Ellipsis)
        elif part is not None:
            first += [slice(None)] * (part[2] if part[0] == "mask" else 1)
    rest = tuple(part for part in index if not isinstance(part, int))
    if Ellipsis not in first:
        first.append(Ellipsis)  # a view, also where the integers leave only one element
    return x[tuple(first)], to_numpy_index(rest, arrays)


def view_of(array: np.ndarray[Any, Any], index: Index) -> np.ndarray[Any, Any] | None:
    """What an index selects, if that is a view."""
    return array[to_numpy_index(index, ())] if _is_view(index) else None


def from_user_index(index: Any) -> tuple[Index, list[Any]]:
    """Split the index in `x[...]` into its fixed part and its arrays, unchanged."""
    parts = _parts(index)
    unknown_as_array = _may_be_arrays(parts)
    fixed: list[Any] = []
    arrays: list[Any] = []
    for part in map(_bytes_as_mask, parts):
        if part is None:
            fixed.append(None)
        elif part is Ellipsis:
            fixed.append("...")
        elif isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            fixed.append(("slice", *(None if b is None else b.__index__() for b in bounds)))
        elif _is_integer(part) and not (unknown_as_array and is_unknown(part)):
            fixed.append(part.__index__())
        else:
            array = _index_array(part)
            if array.dtype.kind == "b":
                fixed.append(("mask", len(arrays), len(array.shape)))
            else:
                fixed.append(("array", len(arrays)))
            arrays.append(array)
    return tuple(fixed), arrays


def _may_be_arrays(parts: Sequence[Any]) -> bool:
    """Whether integers that are not known yet may be index arrays: beside arrays from which a slice
    or a new dimension separates them, that would mean another order of dimensions."""
    several = (list, range)
    places = [i for i, p in enumerate(parts) if hasattr(p, "dtype") or isinstance(p, several)]
    if len(places) < 2 or places[-1] - places[0] == len(places) - 1:
        return True
    return all(_is_integer(parts[i]) for i in places)


def _parts(index: Any) -> tuple[Any, ...]:
    """The index of each dimension. A list with more than numbers in it is a tuple, as in PyTorch,
    which promises to take it for one array some day, as NumPy does."""
    if isinstance(index, tuple):
        return index
    if not isinstance(index, list) or len(index) >= _LONGEST_AS_TUPLE:
        return (index,)
    if not any(part is None or part is Ellipsis or isinstance(part, slice) for part in index):
        if not any(_holds_several(part) for part in index):
            return (index,)
        warnings.warn(
            "a list of lists or tensors indexes one dimension with each of them, as in PyTorch: "
            "write x[tuple(index)], or x[gradwalk.tensor(index)] for rows",
            UserWarning,
            stacklevel=4,
        )
    return tuple(index)


_LONGEST_AS_TUPLE = 32  # PyTorch's limit


def _holds_several(part: Any) -> bool:
    return isinstance(part, (list, tuple, range, np.ndarray)) or hasattr(part, "_array")


def _bytes_as_mask(part: Any) -> Any:
    """A part of an index; uint8 is a mask, as in PyTorch, whose masks were bytes once.

    In an ndarray it holds positions, as in NumPy.
    """
    if getattr(part, "dtype", None) != np.uint8 or isinstance(part, (np.generic, np.ndarray)):
        return part
    warnings.warn(
        "an index of uint8 is taken as a mask, as PyTorch takes it: write mask.bool(), or "
        "index.long() for positions",
        UserWarning,
        stacklevel=4,
    )
    return part != 0


def _is_integer(part: Any) -> bool:
    """Whether a part of an index is one integer: a number, or an array of no dimensions."""
    if isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__"):
        return False
    return getattr(part, "ndim", 0) == 0 and getattr(part, "dtype", np.dtype(int)).kind != "b"


def _index_array(part: Any) -> Any:
    """A part of an index that holds several integers or booleans."""
    if isinstance(part, (bool, np.bool_, list, tuple, range)):
        part = np.asarray(part)
        # An empty list is an index of no elements, not a list of floats.
        part = part.astype(np.int64) if part.size == 0 and is_floating(part.dtype) else part
    if not hasattr(part, "dtype"):
        raise TypeError(
            f"a tensor cannot be indexed with {part!r} ({type(part).__name__}): use integers, "
            "slices, None, ..., lists, integer tensors or boolean masks"
        )
    if part.dtype.kind not in "iub":
        raise IndexError(
            f"index tensors must hold integers or booleans, this one holds {part.dtype}"
        )
    return part


def _is_view(index: Index) -> bool:
    return not any(isinstance(part, tuple) and part[0] != "slice" for part in index)


def _meets_once(index: Index) -> bool:
    """Whether no element can be indexed twice: there is no array of integers."""
    return not any(isinstance(part, tuple) and part[0] == "array" for part in index)


def _getitem_shape(x: Shape, *arrays: Any, index: Index) -> Shape:
    if any(isinstance(part, tuple) and part[0] == "mask" for part in index):
        raise UnknownShapeError(
            "the shape of x[mask] depends on how many elements of the mask are true, so it is "
            "not known before the mask is; use gradwalk.where(mask, x, 0) to keep the shape"
        )
    # NumPy's own index rules give the shape, on a stand-in that owns one element.
    stand_in = np.broadcast_to(np.zeros((), np.int8), x)
    part, subscript = place(stand_in, index, tuple(np.zeros(a, np.int64) for a in arrays))
    return part[subscript].shape


def _getitem_forward(x: Any, *indices: Any, index: Index) -> Any:
    part, subscript = place(x, index, indices)
    return part[subscript]


getitem: Op = define(
    "getitem",
    _getitem_forward,
    vjp=[
        lambda g, indices, x_shape, index: put(g, *indices, index=index, shape=x_shape),
        None,
    ],
    shape=_getitem_shape,
    view=True,
)


def _put_forward(g: Any, *indices: Any, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, g.dtype)
    part, subscript = place(out, index, indices)
    if _meets_once(index):
        part[subscript] = g
    elif index == (("array", 0),) and rows_added(out, indices[0], g):
        pass
    else:
        np.add.at(part, subscript, g)  # a repeated index adds both
    return out


# The transpose of getitem: zeros with g added where getitem read.
put: Op = define(
    "put",
    _put_forward,
    vjp=[lambda g, indices, index: getitem(g, *indices, index=index), None],
    shape=lambda g, *arrays, index, shape: shape,
    on_complex=True,
)


def _setitem_forward(x: Any, value: Any, *indices: Any, index: Index) -> Any:
    out = np.array(x)  # also where x is a NumPy number
    part, subscript = place(out, index, indices)
    part[subscript] = unsigned(out.dtype, value)
    return out


def _winners_forward(x: Any, *indices: Any, index: Index) -> Any:
    """Mark the writes that win: the last one to each element."""
    ids, subscript = place(np.zeros(x.shape, np.int64), index, indices)
    written = np.arange(ids[subscript].size).reshape(ids[subscript].shape)
    ids[subscript] = written
    return np.asarray(ids[subscript] == written)


winners = define(
    "winners",
    _winners_forward,
    vjp=[None, None],
    shape=_getitem_shape,
    gives=bool_,
    on_complex=True,
)


def _setitem_rule(g: Any, indices: tuple[Any, ...], index: Index) -> Any:
    # A whole tensor that is overwritten depends on nothing, also in the second derivative.
    return zero(g) if index == ("...",) else setitem(g, 0, *indices, index=index)


def _setitem_value_rule(g: Any, indices: tuple[Any, ...], value_shape: Shape, index: Index) -> Any:
    taken = getitem(g, *indices, index=index)
    if not _meets_once(index):
        taken = where(winners(g, *indices, index=index), taken, 0)
    extra = len(value_shape) - len(taken.shape)  # the value may have leading axes of length 1
    return reshape(taken, shape=(*(1,) * extra, *taken.shape)) if extra > 0 else taken


setitem: Op = define(
    "setitem",
    _setitem_forward,
    vjp=[
        _setitem_rule,
        _setitem_value_rule,
        None,
    ],
    shape=lambda x, value, *arrays, index: x,
    broadcasts=True,
    on_complex=True,
)


# -- public functions --------------------------------------------------------------------


def take_item(x: Any, index: Any) -> Any:
    """`x[index]`."""
    fixed, arrays = from_user_index(index)
    return getitem(x, *arrays, index=fixed)


def along(index: Any, dim: int) -> tuple[Index, list[Any]]:
    """The index that picks, at every place of `index`, the element it names along `dim`."""
    grids = []
    for axis, length in enumerate(index.shape):
        if axis == dim:
            grids.append(index)
        else:
            shape = [1] * len(index.shape)
            shape[axis] = length
            count = np.arange(length)
            count.flags.writeable = False  # read-only: a tracer takes it for a constant
            grids.append(count.reshape(shape))
    return tuple(("array", i) for i in range(len(grids))), grids


def refuse_negative(name: str, index: Any) -> None:
    """Raise for an index below 0, which in PyTorch these functions do not count from the end: it
    is often a label that means "none". In compiled code the numbers are not known."""
    array = getattr(index, "_array", index)
    if array.__class__ is np.ndarray and array.dtype.kind == "i" and array.size and array.min() < 0:
        raise IndexError(
            f"{name}: the index {array.min()} is below 0.\n"
            f"Fix: leave such places out, or write index % length to count from the end."
        )


@public(names="gather", method=True, numpy=True)
def checked_gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Pick along `dim`: out[i][j] = x[index[i][j]][j] for dim 0.

    `sparse_grad` is a hint, and has no effect.
    """
    refuse_negative("gather", index)
    return gather(input, dim, index)


@new_result
def gather(input: Any, dim: int, index: Any) -> Any:
    """`checked_gather`, with numbers below 0 counted from the end."""
    axis = normal_axis(dim, input.ndim)
    if not math.prod(index.shape):  # an empty index picks nothing, whatever the ranks
        flat = reshape(input, shape=(math.prod(input.shape),))
        return apart(reshape(getitem_slice(flat, 0, 0, 0), shape=tuple(index.shape)), input)
    rows, places = as_vector(input), as_vector(index)
    _check_index("gather", rows, places)
    fixed, arrays = along(places, axis)
    picked = getitem(rows, *arrays, index=fixed)
    return picked if index.ndim else reshape(picked, shape=())


def scatter_index(
    name: str, x: Any, dim: int, index: Any, src: Any
) -> tuple[Index, list[Any], Any]:
    """The subscript that `scatter` writes at, and the values it writes."""
    if not math.prod(index.shape):  # an empty index writes nothing, whatever the ranks
        index = reshape(index, shape=(0,) * x.ndim)
        if getattr(src, "ndim", 0):
            flat = reshape(src, shape=(math.prod(src.shape),))
            src = reshape(getitem_slice(flat, 0, 0, 0), shape=(0,) * x.ndim)
    _check_index(name, x, index)
    refuse_negative(name, index)
    fixed, arrays = along(index, normal_axis(dim, x.ndim))
    if getattr(src, "ndim", 0) and tuple(src.shape) != tuple(index.shape):
        # src may be larger: its corner is used
        src = getitem(src, index=tuple(("slice", 0, n, None) for n in index.shape))
    return fixed, arrays, src


@public_change(numpy=True)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Change:
    """x with `src` added at `index` along `dim`; repeated places receive every addition.

    >>> import gradwalk as gw
    >>> gw.scatter_add(gw.zeros(3), 0, gw.tensor([0, 2, 2]), gw.ones(3))
    tensor([1., 0., 2.])
    """
    fixed, arrays, src = scatter_index("scatter_add", input, dim, index, src)
    return add, (input, put(src, *arrays, index=fixed, shape=tuple(input.shape))), {}


def as_vector(x: Any) -> Any:
    """A 0-d tensor as a vector of one element; PyTorch accepts one for the other."""
    return reshape(x, shape=(1,)) if getattr(x, "shape", None) == () else x


def _check_index(name: str, x: Any, index: Any) -> None:
    if index.dtype.kind not in "iu":
        raise IndexError(f"{name} needs an index of integers, not {index.dtype}")
    if x.ndim != index.ndim:
        raise ValueError(
            f"{name} needs an index with as many dimensions as the tensor: "
            f"shapes {tuple(index.shape)} and {tuple(x.shape)}"
        )


@public(method=True)
@new_result
def take(input: Any, index: Any) -> Any:
    """Pick from x seen as flat."""
    flat = reshape(input, shape=(math.prod(input.shape),))
    taken = getitem(flat, as_vector(index), index=(("array", 0),))
    return taken if index.ndim else reshape(taken, shape=())


@public(method=True, numpy=True)
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of x along `dim` that `index` lists."""
    axis = normal_axis(dim, input.ndim)
    refuse_negative("index_select", index)
    if not input.ndim:
        if math.prod(index.shape) != 1:
            raise IndexError(f"index_select of one number takes one index, not {index.shape}")
        return clone(input)
    return getitem(input, as_vector(index), index=along_dim(input, axis))


def along_dim(x: Any, dim: int) -> Index:
    """The subscript x[:, ..., index, ...] with the index array at `dim`."""
    return (*(("slice", None, None, None),) * normal_axis(dim, x.ndim), ("array", 0))


@public(method=True, numpy=True)
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Pick along `dim` at indices that broadcast against x; flat if dim is None."""
    if dim is None:
        return take(input, reshape(indices, shape=(math.prod(indices.shape),)))
    axis = normal_axis(dim, input.ndim)
    shapes = [tuple(1 if i == axis else n for i, n in enumerate(t.shape)) for t in (input, indices)]
    common = np.broadcast_shapes(*shapes)
    input = broadcast_to(
        input, tuple(input.shape[axis] if i == axis else n for i, n in enumerate(common))
    )
    to = tuple(indices.shape[axis] if i == axis else n for i, n in enumerate(common))
    return gather(input, axis, broadcast_to(indices, to))


# -- a change through a view ---------------------------------------------------------------------


def through(x: Any, chain: tuple[Any, ...]) -> Any:
    """Follow a chain of view ops (op, attributes, output)."""
    for op, attrs, which in chain:
        x = op(x, **attrs)
        x = x[which] if op.multiple else x
    return x


def _write_view_forward(base: Any, value: Any, *, chain: tuple[Any, ...]) -> Any:
    out = np.array(base)  # also where base is a NumPy number
    part = through(out, chain)
    if np.may_share_memory(part, out):
        part[...] = value
    elif part.dtype != out.dtype:
        raise TypeError("this view of the parts of complex numbers cannot be written through")
    else:  # the chain was a view only in the memory layout it was made for
        places = through(np.arange(out.size).reshape(out.shape), chain)
        np.put(out, places, np.broadcast_to(value, places.shape))
    return out


write_view: Op = define(
    "write_view",
    _write_view_forward,
    vjp=[
        lambda g, chain: write_view(g, 0.0, chain=chain),
        lambda g, chain: conj(through(conj(g), chain)),  # parts of g, not of what the walk carries
    ],
    shape=lambda base, value, *, chain: base,
    broadcasts=True,
    on_complex=True,
)
