"""NaN and inf in the values of a trace: whether, where, and with which operands."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.replay import is_array, recomputed
from gradwalk.inspect.trace.trace import Edge, Kept, Trace
from gradwalk.ops.core.dtypes import is_floating, is_number

Index = tuple[int, ...]


def has_nan(kept: Kept) -> bool:
    """Whether an element is NaN."""
    if kept.__class__ is float:
        return math.isnan(kept)
    if isinstance(kept, Statistics):
        return kept.nans > 0
    return _floating(kept) and bool(np.isnan(kept).any())


def is_bad(kept: Kept) -> bool:
    """Whether an element is not a finite number."""
    if kept.__class__ is float:
        return not math.isfinite(kept)
    if isinstance(kept, Statistics):
        return not kept.finite
    return _floating(kept) and not np.isfinite(kept).all()


def _floating(kept: Kept) -> bool:
    if kept is None or isinstance(kept, (str, int)):
        return False
    return is_floating(np.asarray(kept).dtype)


def dtype_of(kept: Kept) -> str:
    """The name of the dtype of a value."""
    return str(kept.dtype) if hasattr(kept, "dtype") else "float64"


def bad_mask(kept: Kept) -> Any:
    """Where the elements are not finite; where they are NaN, if any is."""
    nans = np.isnan(kept)
    return nans if nans.any() else ~np.isfinite(kept)


def first_bad(kept: Kept) -> Index | None:
    """The place of the first element that is NaN, or else infinite."""
    if not is_array(kept) or not is_bad(kept):
        return None
    mask = np.asarray(bad_mask(kept))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def at(kept: Kept, index: Index | None) -> float | None:
    """The element of a broadcast operand at an index; None if unknown."""
    if not is_array(kept) or isinstance(kept, str):
        return None
    array = np.asarray(kept)
    if not is_number(array.dtype):
        return None
    if array.size == 1:
        return float(array.reshape(-1)[0])
    if index is None or array.ndim > len(index):
        return None
    tail = index[len(index) - array.ndim :]
    place = tuple(0 if n == 1 else i for i, n in zip(tail, array.shape))
    if any(i >= n for i, n in zip(place, array.shape)):
        return None
    return float(array[place])


class Numbers:
    """The values of a trace; missing ones are recomputed where possible."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.values = recomputed(trace)
        # Whether an output has a NaN, or a NaN or inf: asked again and again of the same outputs.
        self.nan = cache(lambda edge: has_nan(self.of(edge)))
        self.bad = cache(lambda edge: is_bad(self.of(edge)))

    def of(self, argument: Any) -> Any:
        """The value of an operand: a node's, or the constant itself."""
        if not isinstance(argument, Edge):
            return argument
        kept = self.trace.nodes[argument.node].values
        value = kept[argument.output] if argument.output < len(kept) else None
        return self.values.get(argument) if value is None else value

    def outputs(self, index: int) -> list[Edge]:
        """The edges that leave a node, one per output."""
        return [Edge(index, k) for k in range(len(self.trace.nodes[index].metas))]
