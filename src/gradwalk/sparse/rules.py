"""What operations of ordinary tensors do with a sparse one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops import TABLE
from gradwalk.ops.shape.reshaping import cat
from gradwalk.sparse.places import concrete, matches
from gradwalk.sparse.reductions import sum as sum_over
from gradwalk.sparse.sparse_tensor import SparseTensor, refused, rule
from gradwalk.tensors.creation import as_tensor
from gradwalk.tensors.tensor import Tensor

# -- arithmetic ------------------------------------------------------------------------------------


@rule("add")
def _sum_of_two(x: Any, y: Any) -> Any:
    """Both lists of elements, one after the other; beside an ordinary tensor, an ordinary one."""
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return _dense(x) + _dense(y)
    if not (isinstance(x, SparseTensor) and isinstance(y, SparseTensor)) or x.shape != y.shape:
        return NotImplemented
    if x.sparse_dim() != y.sparse_dim():
        return NotImplemented
    index, values = cat([x._index, y._index], 1), cat([x._stored, y._stored])
    made = SparseTensor(index, values, x.shape)
    known = numbers_of(index) is not None  # not in a compiled function
    return made.coalesce() if x._coalesced and y._coalesced and known else made


@rule("sub")
def _difference(x: Any, y: Any) -> Any:
    return _sum_of_two(x, -y)


def _dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, SparseTensor) else x


@rule("neg")
def _negative(x: SparseTensor) -> Any:
    return x._with(-x._stored)


@rule("mul")
def _multiple(x: Any, y: Any) -> Any:
    if isinstance(y, SparseTensor):
        x, y = y, x
    if isinstance(y, SparseTensor):
        if not x.ndim or not y.ndim:  # one number
            return _multiple(x, y.to_dense()) if x.ndim else _multiple(x.to_dense(), y)
        return _both_stored(x, y)
    return _scaled("mul", x, y)


def _scaled(name: str, x: Any, y: Any) -> Any:
    """The stored elements beside a number, or beside the elements of an ordinary tensor."""
    if not isinstance(x, SparseTensor) or isinstance(y, SparseTensor):
        return NotImplemented
    if not np.ndim(y):
        return x._with(TABLE[name](x._stored, y))
    if tuple(np.broadcast_shapes(x.shape, tuple(y.shape))) != tuple(x.shape):
        return NotImplemented
    x = x.coalesce()
    return x._with(TABLE[name](x._stored, y.expand(x.shape)[tuple(x._index)]))


@rule("div")
def _quotient(x: Any, y: Any) -> Any:
    return _scaled("div", x, y)


def _rounded_quotient(name: str) -> None:
    @rule(name)
    def quotient(x: Any, y: Any) -> Any:
        return _scaled(name, x.coalesce() if isinstance(x, SparseTensor) else x, y)


for _name in ("floor_divide", "div_floor", "div_trunc"):
    _rounded_quotient(_name)


def _both_stored(x: SparseTensor, y: SparseTensor) -> Any:
    """The products of the elements that both store."""
    if x.shape != y.shape or x.sparse_dim() != y.sparse_dim():
        return NotImplemented
    x, y = x.coalesce(), y.coalesce()
    ours, theirs = (np.asarray(t._flat()[0].cpu().numpy()) for t in (x, y))
    found = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)[1:]
    left, right = (as_tensor(places.astype(np.int64), device=x.device) for places in found)
    return SparseTensor(x._index[:, left], x._stored[left] * y._stored[right], x.shape, True)


# -- of all elements -------------------------------------------------------------------------------


def _whole(x: SparseTensor, axis: Any, keepdim: bool) -> bool:
    return not keepdim and len(axis) == x.ndim


@rule("vector_norm")
def _norm(x: SparseTensor, *, p: float, axis: Any, keepdim: bool) -> Any:
    if not _whole(x, axis, keepdim) or p <= 0:
        return NotImplemented
    return x.coalesce()._stored.norm(p)


@rule("any")
def _any(x: SparseTensor, *, axis: Any, keepdim: bool) -> Any:
    return x.coalesce()._stored.any() if _whole(x, axis, keepdim) else NotImplemented


@rule("sum")
def _sum(x: SparseTensor, *, axis: Any, keepdim: bool) -> Any:
    return NotImplemented if keepdim else sum_over(x, None if _whole(x, axis, False) else axis)


# -- shapes ----------------------------------------------------------------------------------------


@rule("permute")
def _permuted(x: SparseTensor, *, axes: Any) -> Any:
    order = [axis % x.ndim for axis in axes]
    first_dense = x.sparse_dim()
    if order[first_dense:] != list(range(first_dense, x.ndim)):
        raise refused("a permutation of one whose values are not numbers")
    shape = tuple(x.shape[axis] for axis in order)
    kept = x._coalesced and (order == sorted(order) or x._nnz() < 2)
    return SparseTensor(x._index[order[:first_dense]], x._stored, shape, kept)


@rule("reshape")
def _reshaped(x: SparseTensor, *, shape: Any) -> Any:
    shape, first_dense = tuple(shape), x.sparse_dim()
    if x.shape[:first_dense] == shape[:first_dense] and x.dense_dim():
        return SparseTensor(
            x._index, x._stored.reshape(-1, *shape[first_dense:]), shape, x._coalesced
        )
    dense = x.shape[first_dense:]
    if dense and shape[-len(dense) :] != dense:
        return NotImplemented
    places, _ = x._flat()
    rows = []
    for length in reversed(shape[: len(shape) - len(dense)]):
        rows.append(places % length if length else places)
        places = places // max(length, 1)
    index = as_tensor(np.zeros((0, x._nnz()), np.int64), device=x.device)
    made = cat([row.unsqueeze(0) for row in reversed(rows)]) if rows else index
    return SparseTensor(made, x._stored, shape)


@rule("concatenate")
def _joined(*parts: Any, axis: int) -> Any:
    first = parts[0]
    if not all(isinstance(p, SparseTensor) for p in parts) or axis >= first.sparse_dim():
        return NotImplemented
    if any(p.sparse_dim() != first.sparse_dim() for p in parts):
        return NotImplemented
    lengths = [p.shape[axis] for p in parts]
    shape = (*first.shape[:axis], sum(lengths), *first.shape[axis + 1 :])
    if any((*p.shape[:axis], shape[axis], *p.shape[axis + 1 :]) != shape for p in parts):
        raise ValueError(
            f"sparse tensors of shapes {[tuple(p.shape) for p in parts]} cannot be joined along "
            f"dimension {axis}"
        )
    index = []
    for part, start in zip(parts, np.cumsum([0, *lengths[:-1]]), strict=True):
        moved = np.zeros((first.sparse_dim(), 1), np.int64)
        moved[axis] = start
        index.append(part._index + as_tensor(moved, device=first.device))
    return SparseTensor(cat(index, 1), cat([p._stored for p in parts]), shape)


# -- indexing --------------------------------------------------------------------------------------


@rule("getitem")
def _part(x: SparseTensor, *arrays: Any, index: Any) -> Any:
    """Rows, columns and elements: numbers, slices and a list of numbers, in any dimensions."""
    if None in index or Ellipsis in index or len(arrays) > 1:
        return NotImplemented
    rows, kept = concrete(x, "getitem"), np.arange(x._nnz())
    left: list[Any] = []  # the rows of indices of the dimensions that stay
    lengths: list[int] = []
    of_sparse, of_dense = index[: x.sparse_dim()], index[x.sparse_dim() :]
    for axis, entry in enumerate(of_sparse):
        chosen, numbers, length = _chosen(rows[axis][kept], x.shape[axis], entry, arrays)
        kept, left = kept[chosen], [row[chosen] for row in left]
        if length is not None:
            left.append(numbers)
            lengths.append(length)
    left += [rows[axis][kept] for axis in range(len(of_sparse), x.sparse_dim())]
    lengths += x.shape[len(of_sparse) : x.sparse_dim()]
    values = x._stored[as_tensor(kept, device=x.device)]
    if of_dense:
        values = values[(slice(None), *(_as_written(entry, arrays) for entry in of_dense))]
    if not left:
        return values.sum(0, dtype=values.dtype)
    # What stays in the order of the elements is in order; a list of numbers may not be.
    coalesced = x._coalesced and not any(map(_is_array, of_sparse))
    shape = (*lengths, *values.shape[1:])
    return SparseTensor(as_tensor(np.stack(left), device=x.device), values, shape, coalesced)


def _is_array(entry: Any) -> bool:
    return isinstance(entry, tuple) and entry[0] == "array"


def _as_written(entry: Any, arrays: Any) -> Any:
    if _is_array(entry):
        return arrays[entry[1]]
    return slice(*entry[1:]) if isinstance(entry, tuple) else entry


def _chosen(row: Any, length: int, entry: Any, arrays: Any) -> tuple[Any, Any, int | None]:
    """Which elements an entry of an index takes, their new numbers, and the new length."""
    if _is_array(entry):
        wanted = np.asarray(arrays[entry[1]].cpu().numpy())
        if wanted.dtype == np.bool_:
            (wanted,) = np.nonzero(wanted)
        if wanted.ndim != 1 or ((wanted < -length) | (wanted >= length)).any():
            raise IndexError(f"an index of a sparse tensor is outside of a dimension of {length}")
        numbers, chosen = matches(wanted % max(length, 1), row)
        return chosen, numbers, len(wanted)
    if isinstance(entry, tuple):
        steps = range(length)[slice(*entry[1:])]
        inside = (row >= steps.start) & (row < steps.stop) & ((row - steps.start) % steps.step == 0)
        (chosen,) = np.nonzero(inside)
        return chosen, (row[chosen] - steps.start) // steps.step, len(steps)
    if not -length <= entry < length:
        raise IndexError(f"the index {entry} is outside of a dimension of {length}")
    (chosen,) = np.nonzero(row == entry % length)
    return chosen, None, None


# -- one by one ------------------------------------------------------------------------------------

# Ops of one tensor that are 0, or false, at 0: those of the stored elements.
_KEEP_ZEROS = """
    abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan leaky_relu log1p
    nan_to_num rad2deg relu round sgn sign sin sinh sqrt square tan tanh trunc
"""


def _of_the_stored(name: str) -> None:
    @rule(name)
    def stored(x: SparseTensor, **attrs: Any) -> Any:
        x = x.coalesce()
        return x._with(TABLE[name](x._stored, **attrs))


for _name in _KEEP_ZEROS.split():
    _of_the_stored(_name)


@rule("clone")
def _copy(x: SparseTensor) -> Any:
    return x.clone()


@rule("power")
def _power(x: SparseTensor, *, exponent: float) -> Any:
    if exponent <= 0:
        return NotImplemented
    x = x.coalesce()
    return x._with(x._stored**exponent)
