"""Which indices of an op must be in range: XLA itself reads something else instead of failing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.indexing import Index, getitem, put, setitem, winners

Bound = tuple[Any, int]  # an index array, and the length of the dimension it indexes


def bounds(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Bound]:
    """The index arrays of a call whose numbers are not known to be in range."""
    if op is embedding_op:
        return [(args[1], args[0].shape[0])]
    if op in (getitem, winners):
        return list(_indexed(args[0].shape, attrs["index"], args[1:]))
    if op is setitem:
        return list(_indexed(args[0].shape, attrs["index"], args[2:]))
    if op is put:
        return list(_indexed(attrs["shape"], attrs["index"], args[1:]))
    return []


def _indexed(shape: Sequence[int], index: Index, arrays: Sequence[Any]) -> Iterator[Bound]:
    """Each array of an index with the length of its dimension."""
    taken = [_dimensions(part) for part in index]
    place = 0
    for part, count in zip(index, taken, strict=True):
        if part == "...":
            place += len(shape) - sum(taken)
        elif isinstance(part, tuple) and part[0] == "array":
            yield arrays[part[1]], shape[place]
        place += count


def _dimensions(part: Any) -> int:
    """How many dimensions a part of an index takes."""
    if part is None or part == "...":
        return 0
    return int(part[2]) if isinstance(part, tuple) and part[0] == "mask" else 1


def out_of_range(index: Any, length: int) -> Any:
    """Whether any element is; negative ones count from the end."""
    return ((index < -length) | (index >= length)).any()


def complaint(index: Any, length: int) -> str:
    """The message for an index array that leaves its dimension."""
    found = np.asarray(index)
    wrong = found[(found < -length) | (found >= length)]
    return f"index {wrong.min()} is out of range for a dimension of length {length}"
