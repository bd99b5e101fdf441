"""Reading and writing by index. ONNX has slices and one array; for others the places in the flat
tensor are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.writers.table import GraphWriter, Value, writes
from gradwalk.ops.index.indexing import place, to_numpy_index
from gradwalk.ops.shape.rearranging import diagonal_op, windows_op

LONGEST = np.iinfo(np.int64).max
_EVERY = ("slice", None, None, None)


def _arrays(index: Any) -> list[Any]:
    return [part for part in index if isinstance(part, tuple) and part[0] != "slice"]


def _has_no_mask(call: Call) -> bool:
    return not any(part[0] == "mask" for part in _arrays(call.attrs.get("index", ())))


@writes("getitem", fits=_has_no_mask)
def getitem(write: GraphWriter, call: Call, x: Value, *indices: Value) -> Value:
    if len(indices) > 1:
        places = _places(write, call.attrs["index"], call.terms[0].shape, call.terms[1:], indices)
        return write("Gather", write("Reshape", x, [-1]), places, axis=0)
    return _sliced(write, call, x, *indices)


def _places(
    write: GraphWriter,
    index: Any,
    shape: Sequence[int],
    terms: Sequence[Term],
    indices: Sequence[Value],
) -> Value:
    """Where the elements that an index with arrays selects lie in a flat tensor of `shape`."""
    lengths = np.broadcast_shapes(*(term.shape for term in terms))
    nowhere = tuple(np.zeros(term.shape, np.int64) for term in terms)
    table = np.arange(math.prod(shape)).reshape(shape)
    part, subscript = place(table, index, nowhere)
    flat = _table_by_axes(write, np.asarray(part[subscript]))  # as if all arrays were 0
    first = _where_arrays_go(index, len(shape), len(lengths))
    after = part[subscript].ndim - first - len(lengths)
    for axis, number in _axes_of_arrays(index, len(shape)):
        step, value = math.prod(shape[axis + 1 :]), indices[number]
        if terms[number].dtype != np.int64:
            value = write("Cast", value, to=code_of(np.dtype(np.int64)))
        from_end = write("Less", value, write.constant(np.int64(0)))
        wrapped = write("Add", value, write.constant(np.int64(shape[axis])))
        value = write("Where", from_end, wrapped, value)
        value = write("Mul", value, write.constant(np.int64(step)))
        if after and terms[number].ndim:
            value = write("Reshape", value, [*terms[number].shape, *(1,) * after])
        flat = write("Add", flat, value)
    return flat


def _table_by_axes(write: GraphWriter, table: np.ndarray[Any, Any]) -> Value:
    """A table of places, which is a sum over axes: one that is open may have any length."""
    if not table.size:
        return write.constant(table)
    origin = table[(0,) * table.ndim]
    flat = write.constant(np.full((1,) * table.ndim, origin))
    for axis in range(table.ndim):
        rest = tuple(slice(None) if i == axis else 0 for i in range(table.ndim))
        line = table[rest] - origin
        if line.any():
            lifted = line.reshape(-1, *(1,) * (table.ndim - axis - 1))
            flat = write("Add", flat, write.constant(lifted))
    return flat


def _axes_of_arrays(index: Any, ndim: int) -> list[tuple[int, int]]:
    """Each axis that an array indexes, and the number of the array."""
    found, axis = [], 0
    taken = sum(1 for part in index if part is not None and part != "...")
    for part in index:
        if part == "...":
            axis += ndim - taken
        elif part is not None:
            if isinstance(part, tuple) and part[0] == "array":
                found.append((axis, part[1]))
            axis += 1
    return found


def _where_arrays_go(index: Any, ndim: int, count: int) -> int:
    """The first axis of a result that the arrays of an index give: NumPy is asked, with a tensor
    of one element and arrays of more."""
    parts = tuple(0 if isinstance(p, int) else _EVERY if _is_slice(p) else p for p in index)
    arrays = tuple(np.zeros((2,) * count, np.int64) for _ in _arrays(index))
    part, subscript = place(np.zeros((1,) * ndim), parts, arrays)
    shape = part[subscript].shape
    return shape.index(2) if 2 in shape else 0


def _is_slice(part: Any) -> bool:
    return isinstance(part, tuple) and part[0] == "slice"


def _sliced(write: GraphWriter, call: Call, x: Value, *indices: Value) -> Value:
    """An index of slices, integers and one array at most."""
    index, ndim = call.attrs["index"], call.terms[0].ndim
    taken = sum(1 for part in index if part is not None and part != "...")
    starts, ends, axes, steps = [], [], [], []
    dropped, added, gathered = [], [], None
    axis = out = 0  # in x, and in the result
    for part in index:
        if part == "...":
            out += ndim - taken
            axis += ndim - taken
            continue
        if part is None:
            added.append(out)
            out += 1
            continue
        if isinstance(part, tuple) and part[0] == "array":
            gathered = axis
            out += call.terms[1].ndim
        elif isinstance(part, tuple):
            _, start, stop, step = part
            if (start, stop, step) != (None, None, None):
                starts.append(0 if start is None else start)
                ends.append(LONGEST if stop is None else stop)
                axes.append(axis)
                steps.append(1 if step is None else step)
            out += 1
        else:
            starts.append(part)
            ends.append(LONGEST if part == -1 else part + 1)
            axes.append(axis)
            steps.append(1)
            dropped.append(axis)
        axis += 1
    value = write("Slice", x, starts, ends, axes, steps) if axes else x
    if dropped:
        value = write("Squeeze", value, dropped)
    if gathered is not None:
        place = gathered - sum(1 for axis in dropped if axis < gathered)
        value = write("Gather", value, indices[0], axis=place)
    return write("Unsqueeze", value, added) if added else value


@writes("extreme_at", fits=_has_no_mask)
def extreme_at(write: GraphWriter, call: Call, x: Value, src: Value, *indices: Value) -> Value:
    out, reduction = call.outputs[0], "max" if call.attrs["largest"] else "min"
    terms = call.terms[-len(indices) :]
    places = _places(write, call.attrs["index"], out.shape, terms, indices)
    flat, at = write("Reshape", src, [-1]), write("Reshape", places, [-1])
    into = write("Reshape", x, [-1])
    made = write("ScatterElements", into, at, flat, reduction=reduction)
    return write("Reshape", made, list(out.shape))


@writes("scatter_last")
def scatter_last(write: GraphWriter, call: Call, y: Value, indices: Value) -> Value:
    zeros = write.constant(np.zeros(call.outputs[0].shape, call.outputs[0].dtype))
    again = None if call.attrs["apart"] else "add"
    return write("ScatterElements", zeros, indices, y, axis=-1, reduction=again)


@writes("diagonal_put", "windows_add")
def moved_back(write: GraphWriter, call: Call, y: Value) -> Value:
    """The transpose of an op that only moves elements, as a table of where they go."""
    out, attrs = call.outputs[0], dict(call.attrs)
    like = diagonal_op if call.op.name == "diagonal_put" else windows_op
    places = np.arange(out.size).reshape(attrs.pop("shape"))
    table = np.ascontiguousarray(like.forward(places, **attrs)).reshape(-1)
    zeros = write.constant(np.zeros(out.size, out.dtype))
    flat = write("Reshape", y, [-1])
    made = write("ScatterElements", zeros, write.constant(table), flat, reduction="add")
    return write("Reshape", made, list(out.shape))


@writes("searchsorted")
def searchsorted(write: GraphWriter, call: Call, sequence: Value, values: Value) -> Value:
    """How many numbers of a sequence are before each value."""
    last = len(call.terms[1].shape)
    one = write("Unsqueeze", values, [last])
    shape = call.terms[0].shape
    if len(shape) > 1:
        sequence = write("Unsqueeze", sequence, [len(shape) - 1])
    before = write("LessOrEqual" if call.attrs["right"] else "Less", sequence, one)
    return write(
        "ReduceSum", write("Cast", before, to=code_of(np.dtype(np.int64))), [-1], keepdims=0
    )


def _writes_once(call: Call) -> bool:
    """Whether it writes at slices, through views or at arrays; or one value at a mask."""
    if _has_no_mask(call):
        return True
    (mask,) = [part for part in _arrays(call.attrs["index"]) if part[0] == "mask"] or [None]
    return (
        mask is not None
        and call.op.name == "setitem"
        and len(call.attrs["index"]) == 1
        and (not isinstance(call.args[1], Term) or call.args[1].size == 1)
    )


@writes("setitem", "put", "write_view", fits=_writes_once)
def setitem(write: GraphWriter, call: Call, *operands: Value) -> Value:
    """Elements written at slices, through views or at arrays, as a table of where they go."""
    index, name, out = call.attrs.get("index", ()), call.op.name, call.outputs[0]
    if not _has_no_mask(call):
        return _masked(write, call, *operands)
    count = 1 if name == "put" else 2
    terms, value = call.terms[-len(_arrays(index)) :], operands[count - 1]
    if _arrays(index):
        places = _places(write, index, out.shape, terms, operands[count:])
        lengths = np.zeros(out.shape, bool)
        part, subscript = place(lengths, index, tuple(np.zeros(t.shape, np.int64) for t in terms))
        shape = part[subscript].shape
    else:
        table = _table(call)
        shape, places = table.shape, write.constant(table)
    flat = write("Reshape", write("Expand", value, list(shape)), [-1])
    if name == "put":
        into = write.constant(np.zeros(out.size, out.dtype))
    else:
        into = write("Reshape", operands[0], [-1])
    again = "add" if name == "put" and _arrays(index) else None
    at = write("Reshape", places, [-1])
    return write(
        "Reshape", write("ScatterElements", into, at, flat, reduction=again), list(out.shape)
    )


def _table(call: Call) -> Any:
    """Where slices and views lie in the flat tensor."""
    out = call.outputs[0]
    places: Any = np.arange(out.size).reshape(out.shape)
    if call.op.name != "write_view":
        places = places[to_numpy_index(call.attrs["index"], ())]
    for op, attrs, part in call.attrs.get("chain", ()):
        made = op.forward(places, **attrs)
        places = made[part] if op.multiple else made
    return places


def _masked(write: GraphWriter, call: Call, x: Value, value: Value, mask: Value) -> Value:
    """One value wherever a mask is true."""
    whole, shape = call.outputs[0], call.terms[-1].shape
    lifted = write("Reshape", mask, [*shape, *(1,) * (whole.ndim - len(shape))])
    return write("Where", lifted, write("Reshape", value, []), x)
