"""Which indices of an op must be in range: XLA itself reads something else instead of failing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.functional.whole_ops import cross_entropy_forward
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.indexing import Index, getitem, put, setitem, winners

Bound = tuple[Any, int, Any]  # an index array, the length of the dimension, and what is exempt


def bounds(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Bound]:
    """The index arrays of a call whose numbers are not known to be in range."""
    if op is embedding_op:
        return [(args[1], args[0].shape[0], None)]
    if op is cross_entropy_forward:
        return [(args[1], args[0].shape[1], attrs["ignore_index"])]
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
            yield arrays[part[1]], shape[place], None
        place += count


def _dimensions(part: Any) -> int:
    """How many dimensions a part of an index takes."""
    if part is None or part == "...":
        return 0
    return int(part[2]) if isinstance(part, tuple) and part[0] == "mask" else 1


def _wrong(index: Any, length: int, exempt: Any) -> Any:
    """Which elements are out of range; negative ones count from the end."""
    wrong = (index < -length) | (index >= length)
    return wrong if exempt is None else wrong & (index != exempt)


def out_of_range(index: Any, length: int, exempt: Any = None) -> Any:
    """Whether any element is."""
    return _wrong(index, length, exempt).any()


def complaint(bound: Bound) -> str:
    """The message for an index array that leaves its dimension."""
    found, length, exempt = np.asarray(bound[0]), bound[1], bound[2]
    wrong = found[_wrong(found, length, exempt)]
    return f"index {wrong.min()} is out of range for a dimension of length {length}"
