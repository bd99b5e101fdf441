"""The order of elements in memory: what NumPy gives to new arrays.

Whether a reshape is a view or a copy depends on it, and so does what a later write changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.matmul import einsum_op, linear_op, matmul_op
from gradwalk.ops.network.convolution import conv, conv_bias, conv_input, conv_weight
from gradwalk.ops.shape.reshaping import clone

if TYPE_CHECKING:
    from gradwalk.compiler.functional.functional_array import FunctionalArray

CONTIGUOUS = "contiguous"
MemoryLayout = str | tuple[int, ...] | None  # CONTIGUOUS, strides in elements, or not known

_MAKES_ORDER = (clone, linear_op)  # whatever the order of the operands
# Their results are not in order in memory: for convolutions, the batch comes last.
_OTHER_ORDER = (conv, conv_bias, conv_input, conv_weight, einsum_op)


def result_layout(
    op: Op, attrs: dict[str, Any], arrays: Sequence[FunctionalArray], shape: Shape
) -> MemoryLayout:
    """The layout of a new array of this shape that an op makes of others."""
    loops = shape[:-2] if op is matmul_op else shape  # the dimensions that NumPy may swap
    if op in _MAKES_ORDER or sum(n != 1 for n in loops) < 2:
        return CONTIGUOUS
    if _keeps_order(op, attrs) and all(map(in_order, arrays)):
        return CONTIGUOUS
    return elementwise_layout(arrays) if isinstance(op.forward, np.ufunc) else None


def _keeps_order(op: Op, attrs: dict[str, Any]) -> bool:
    """Whether NumPy's result is contiguous if the operands are in order."""
    if op is getitem:  # behind a slice, NumPy puts what index arrays select first
        return all(isinstance(part, tuple) and part[0] == "array" for part in attrs["index"])
    return op not in _OTHER_ORDER


def layout_of(array: np.ndarray[Any, Any]) -> MemoryLayout:
    """The layout of an array."""
    if array.flags.c_contiguous:
        return CONTIGUOUS
    return tuple(step // array.itemsize for step in array.strides)


def in_order(array: FunctionalArray) -> bool:
    """Whether the dimensions are known to be in memory in their order, perhaps with gaps."""
    if not isinstance(array.layout, tuple):
        return array.layout is not None
    steps = [s for s, n in zip(array.layout, array.shape, strict=True) if n != 1]
    return all(s > 0 for s in steps) and steps == sorted(steps, reverse=True)


def elementwise_layout(arrays: Sequence[FunctionalArray]) -> MemoryLayout:
    """The layout that NumPy gives to an elementwise result: the order of the operands' strides."""
    if any(array.layout is None for array in arrays):
        return None
    operands = [array.stand_in() for array in arrays]
    flags: list[Any] = [["readonly"]] * len(operands)
    loop = np.nditer(
        [*operands, None], ["zerosize_ok"], [*flags, ["writeonly", "allocate"]], order="K"
    )
    return layout_of(loop.operands[-1])


def without_ones(shape: Shape) -> list[int]:
    """The lengths that matter for the order of elements in memory."""
    return [n for n in shape if n != 1]


def must_copy(array: Any, shape: Shape) -> bool:
    """Whether NumPy cannot reshape an array without a copy."""
    try:
        array.reshape(shape, copy=False)
    except ValueError:
        return True
    return False
