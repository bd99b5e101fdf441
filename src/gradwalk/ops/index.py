"""Indexing: getitem and setitem with every NumPy index kind, gather, scatter_add and friends.

Index arrays and masks are inputs of the ops, never attributes. The fixed part of an index is
the attribute `index`, a tuple with one entry per subscript:

    3                        an integer
    ("slice", a, b, step)    a slice
    None, "..."              a new axis, the ellipsis
    ("array", 0)             the first of the index arrays
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.arithmetic import add
from gradwalk.ops.choice import where
from gradwalk.ops.op import Shape, define
from gradwalk.ops.shape import broadcast_to, clone, normal_axis, reshape

Index = tuple[Any, ...]


def to_numpy_index(index: Index, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The attribute form back to what NumPy takes."""
    found: list[Any] = []
    for part in index:
        if part == "...":
            found.append(Ellipsis)
        elif isinstance(part, tuple):
            found.append(slice(*part[1:]) if part[0] == "slice" else arrays[part[1]])
        else:
            found.append(part)
    if "..." not in index:
        found.append(Ellipsis)  # so that x[0] is a 0-d view instead of a NumPy scalar
    return tuple(found)


def from_user_index(index: Any) -> tuple[Index, list[Any]]:
    """Split what stands in `x[...]` into the fixed part and the arrays (as they are)."""
    parts = index if isinstance(index, tuple) else (index,)
    fixed: list[Any] = []
    arrays: list[Any] = []
    for part in parts:
        if part is None:
            fixed.append(None)
        elif part is Ellipsis:
            fixed.append("...")
        elif isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            fixed.append(("slice", *(None if b is None else b.__index__() for b in bounds)))
        elif isinstance(part, (bool, np.bool_)):
            fixed.append(("array", len(arrays)))
            arrays.append(np.asarray(part))
        elif hasattr(part, "__index__") and getattr(part, "ndim", 0) == 0:
            if getattr(getattr(part, "dtype", None), "kind", "i") == "b":
                fixed.append(("array", len(arrays)))
                arrays.append(part)
            else:
                fixed.append(part.__index__())
        elif isinstance(part, (list, tuple, range)):
            fixed.append(("array", len(arrays)))
            listed = np.asarray(part)
            # An empty list is an index of no elements, not a list of floats.
            arrays.append(listed.astype(np.int64) if listed.size == 0 else listed)
        elif hasattr(part, "dtype"):
            fixed.append(("array", len(arrays)))
            arrays.append(part)
        else:
            raise TypeError(
                f"a tensor cannot be indexed with {part!r} ({type(part).__name__}): use integers, "
                "slices, None, ..., lists, integer tensors or boolean masks"
            )
    for array in arrays:
        if array.dtype.kind not in "iub":
            raise IndexError(
                f"index tensors must hold integers or booleans, this one holds {array.dtype}"
            )
    return tuple(fixed), arrays


def _is_view(index: Index) -> bool:
    return not any(isinstance(part, tuple) and part[0] == "array" for part in index)


def _getitem_shape(x: Shape, *arrays: Any, index: Index) -> Shape:
    # A stand-in that owns one element: NumPy's own index rules give the shape for free.
    stand_in = np.broadcast_to(np.zeros((), np.int8), x)
    return stand_in[to_numpy_index(index, tuple(np.zeros(a, np.int64) for a in arrays))].shape


getitem = define(
    "getitem",
    lambda x, *indices, index: x[to_numpy_index(index, indices)],
    vjp=[
        lambda g, indices, x_shape, index: put(g, *indices, index=index, shape=x_shape),
        None,
    ],
    shape=_getitem_shape,
    view=True,
)


def _put_forward(g: Any, *indices: Any, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, g.dtype)
    where_to = to_numpy_index(index, indices)
    if _is_view(index) or all(i.dtype.kind == "b" for i in indices):
        out[where_to] = g  # every element is met once
    else:
        np.add.at(out, where_to, g)  # an element met twice receives both
    return out


# The transpose of getitem: zeros with g added where getitem read.
put = define(
    "put",
    _put_forward,
    vjp=[lambda g, indices, index: getitem(g, *indices, index=index), None],
    shape=lambda g, *arrays, index, shape: shape,
)


def _setitem_forward(x: Any, value: Any, *indices: Any, index: Index) -> Any:
    out = x.copy()
    out[to_numpy_index(index, indices)] = value
    return out


def _winners_forward(x: Any, *indices: Any, index: Index) -> Any:
    """Of several writes to one element the last one stays: mark the writes that stayed."""
    where_to = to_numpy_index(index, indices)
    ids = np.zeros(x.shape, np.int64)
    written = np.arange(ids[where_to].size).reshape(ids[where_to].shape)
    ids[where_to] = written
    return np.asarray(ids[where_to] == written)


winners = define("winners", _winners_forward, vjp=[None, None], shape=_getitem_shape)


def _setitem_value_rule(g: Any, indices: tuple[Any, ...], index: Index) -> Any:
    taken = getitem(g, *indices, index=index)
    if _is_view(index) or all(i.dtype.kind == "b" for i in indices):
        return taken
    return where(winners(g, *indices, index=index), taken, 0)


setitem = define(
    "setitem",
    _setitem_forward,
    vjp=[
        lambda g, indices, index: setitem(g, 0, *indices, index=index),
        _setitem_value_rule,
        None,
    ],
    shape=lambda x, value, *arrays, index: x,
    broadcasts=True,
)


# -- the functions people call -----------------------------------------------------------------


def take_item(x: Any, index: Any) -> Any:
    """`x[index]`."""
    if isinstance(index, tuple) and len(index) > 1:
        index = tuple(i if not isinstance(i, list) else np.asarray(i) for i in index)
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
            grids.append(np.arange(length).reshape(shape))
    return tuple(("array", i) for i in range(len(grids))), grids


def gather(x: Any, dim: int, index: Any) -> Any:
    """Pick along `dim`: out[i][j] = x[index[i][j]][j] for dim 0."""
    axis = normal_axis(dim, x.ndim)
    _same_rank("gather", x, index)
    fixed, arrays = along(index, axis)
    return getitem(x, *arrays, index=fixed)


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x with `src` added at `index` along `dim`; repeated places receive every addition.

    >>> import gradwalk as gw
    >>> gw.scatter_add(gw.zeros(3), 0, gw.tensor([0, 2, 2]), gw.ones(3))
    tensor([1., 0., 2.])
    """
    axis = normal_axis(dim, x.ndim)
    _same_rank("scatter_add", x, index)
    fixed, arrays = along(index, axis)
    if tuple(src.shape) != tuple(index.shape):  # src may be larger: its corner is used
        src = getitem(src, index=tuple(("slice", 0, n, None) for n in index.shape))
    return add(x, put(src, *arrays, index=fixed, shape=tuple(x.shape)))


def _same_rank(name: str, x: Any, index: Any) -> None:
    if x.ndim != index.ndim:
        raise ValueError(
            f"{name} needs an index with as many dimensions as the tensor: "
            f"shapes {tuple(index.shape)} and {tuple(x.shape)}"
        )


def take(x: Any, index: Any) -> Any:
    """Pick from x seen as flat."""
    return getitem(reshape(x, shape=(math.prod(x.shape),)), index, index=(("array", 0),))


def index_select(x: Any, dim: int, index: Any) -> Any:
    """The slices of x along `dim` that `index` lists."""
    axis = normal_axis(dim, x.ndim)
    if not x.ndim:
        return clone(x)
    return getitem(x, index, index=(*(("slice", None, None, None),) * axis, ("array", 0)))


def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    """Pick along `dim` at indices that broadcast against x; flat if dim is None."""
    if dim is None:
        return take(x, reshape(indices, shape=(math.prod(indices.shape),)))
    axis = normal_axis(dim, x.ndim)
    shapes = [tuple(1 if i == axis else n for i, n in enumerate(t.shape)) for t in (x, indices)]
    common = np.broadcast_shapes(*shapes)
    x = broadcast_to(x, tuple(x.shape[axis] if i == axis else n for i, n in enumerate(common)))
    to = tuple(indices.shape[axis] if i == axis else n for i, n in enumerate(common))
    return gather(x, axis, broadcast_to(indices, to))


# -- a change through a view ---------------------------------------------------------------------


def _through(x: Any, chain: tuple[Any, ...]) -> Any:
    """Follow a chain of view ops (op, attributes, output)."""
    for op, attrs, which in chain:
        x = op(x, **attrs)
        x = x[which] if op.multiple else x
    return x


def _write_view_forward(base: Any, value: Any, *, chain: tuple[Any, ...]) -> Any:
    out = base.copy()
    _through(out, chain)[...] = value
    return out


write_view = define(
    "write_view",
    _write_view_forward,
    vjp=[
        lambda g, chain: write_view(g, 0.0, chain=chain),
        lambda g, chain: _through(g, chain),
    ],
    shape=lambda base, value, *, chain: base,
)
