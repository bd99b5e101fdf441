"""Arithmetic on the indices of sparse tensors, as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.sparse.sparse_tensor import SparseTensor, refused

Rows = np.ndarray[Any, Any]


def concrete(x: SparseTensor, name: str) -> Rows:
    """The indices as numbers; a compiled function does not know them."""
    found = numbers_of(x._index)
    if found is None:
        raise refused(f"{name}, inside a compiled function,")
    return np.asarray(found)


def matches(wanted: Rows, given: Rows) -> tuple[Rows, Rows]:
    """All pairs of positions at which the two hold the same number, in the order of `wanted`."""
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    first = np.searchsorted(ordered, wanted, "left")
    count = np.searchsorted(ordered, wanted, "right") - first
    left = np.repeat(np.arange(len(wanted)), count)
    within = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)
    return left, order[np.repeat(first, count) + within]
