"""Gathers of one element along an axis, as comparisons with the positions.

    x[row, index[row]]         is  Σ where(position == index, x, 0)  along the axis
    zeros with g put there     is  where(position == index, g, 0)

Both can be fused with the kernel that computes the operand, or consumes the result: cross entropy
reads its logits once. Along a long axis a gather is faster, and stays. (The sum turns a −0 that is
picked into 0.)
"""

from __future__ import annotations

import numpy as np

from gradwalk.compiler.ir.compiler_ops import checked_index
from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Constant,
    Operand,
    Rewritten,
    Term,
    rewrites,
)
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.arithmetic import add
from gradwalk.ops.elementwise.choice import equal, where
from gradwalk.ops.index.indexing import getitem, put
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import cast, expand_op

LONGEST = 4096


@rewrites(getitem, put)
def pick_by_comparing(call: Call, args: Args, build: Builder) -> Rewritten:
    """Replace gathers and scatters along one axis by comparisons."""
    first, *arrays = args
    assert isinstance(first, Term)
    shape = first.shape if call.op is getitem else call.attrs["shape"]
    axis = _picked_axis(call.attrs["index"], arrays, shape)
    if axis is None or not 0 < shape[axis] <= LONGEST:
        return None
    index = arrays[axis]
    assert isinstance(index, Term)
    length = shape[axis]
    positions = np.arange(length, dtype=np.int64).reshape(-1, *(1,) * (len(shape) - axis - 1))
    constant = Term(positions.shape, positions.dtype, source=Constant(positions))
    if index.dtype != np.int64:  # a short one may not hold the count from the start
        index = build.apply(cast, (index,), {"dtype": np.dtype(np.int64)})
    there = build.apply(checked_index, (index,), {"length": length})
    here = build.apply(equal, (constant, there))
    if call.op is getitem:
        result = build.apply(where, (here, first, 0))
        result = build.apply(sum_op, (result,), {"axis": (axis,), "keepdim": True})
    else:
        given = build.apply(add, (first, 0)) if is_floating(first.dtype) else first  # −0 becomes 0
        result = build.apply(where, (here, given, 0))
        if result.shape != shape:
            result = build.apply(expand_op, (result,), {"shape": shape})
    return [result] if result.dtype == call.outputs[0].dtype else None


def _picked_axis(index: tuple[object, ...], arrays: list[Operand], shape: Shape) -> int | None:
    """The axis that is picked along, if the indices of all others are 0, 1, 2, ..."""
    if index != tuple(("array", i) for i in range(len(shape))) or len(arrays) != len(shape):
        return None
    picked = None
    for axis, array in enumerate(arrays):
        if not isinstance(array, Term) or array.ndim != len(shape):
            return None
        if not _counts(array, axis, shape[axis]):
            if picked is not None or array.shape[axis] != 1:
                return None
            picked = axis
    if picked is None:
        return None
    whole = tuple(1 if i == picked else n for i, n in enumerate(shape))
    index_term = arrays[picked]
    assert isinstance(index_term, Term)
    return picked if index_term.shape == whole else None


def _counts(array: Term, axis: int, length: int) -> bool:
    """Whether an index array is 0, 1, 2, ... along its own axis and nothing else."""
    if not isinstance(array.source, Constant) or array.size != length:
        return False
    if array.shape[axis] != length:
        return False
    return bool(np.array_equal(array.source.array.reshape(-1), np.arange(length)))
