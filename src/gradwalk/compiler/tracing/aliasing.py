"""Arrays that share memory: as a chain of views, or in a way that no program can have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape.reshaping import permute, reshape

Array = np.ndarray[Any, Any]


def overlap(arrays: list[Array], written: list[int]) -> tuple[int, int] | None:
    """Two of the arrays that share memory, one of which is written to; None if there are none."""
    # Arrays on a device own their memory, or are views that the program knows.
    hosted = [(n, a) for n, a in enumerate(arrays) if isinstance(a, np.ndarray) and a.size]
    spans = sorted((*byte_bounds(a), n) for n, a in hosted)
    changed = set(written)
    open_spans: list[tuple[int, int]] = []  # (end, number) of those that may reach further
    for start, end, number in spans:
        open_spans = [span for span in open_spans if span[0] > start]
        for _, other in open_spans:
            if (number in changed or other in changed) and np.shares_memory(
                arrays[number], arrays[other]
            ):
                return other, number
        open_spans.append((end, number))
    return None


def check_apart(trace: TracedProgram, written: list[int]) -> None:
    """Raise if captured memory that is changed overlaps other captured memory, or if some is not
    aligned."""
    for memory in trace.captured:
        if not memory.array.flags.aligned:
            raise TraceError(
                f"a tensor that the compiled function captures (of shape {memory.array.shape}) is "
                "not aligned to the size of its elements.\nFix: .clone() it first."
            )
    pair = overlap([memory.array for memory in trace.captured], written)
    if pair is not None:
        shapes = [trace.captured[n].array.shape for n in pair]
        raise TraceError(
            f"two tensors that the compiled function captures (of shapes {shapes[0]} and "
            f"{shapes[1]}) share memory in a way that views cannot express, and one of them is "
            "changed in place.\nFix: .clone() one of them first."
        )


Link = tuple[Op, dict[str, Any], int]


def view_chain(owner: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> list[Link] | None:
    """The view ops that lead from an owner to an array on its memory; None if there are none.

    It finds whole blocks in any shape and order of dimensions: what reshape, transpose and slices
    of leading dimensions make. Columns of a matrix it does not.
    """
    if owner.dtype != array.dtype or not owner.flags.c_contiguous or not array.size:
        return None
    order = sorted(range(array.ndim), key=lambda i: (-abs(array.strides[i]), i))
    block = array.transpose(order)
    if not block.flags.c_contiguous:
        return None
    start, rest = divmod(_address(array) - _address(owner), owner.itemsize)
    if rest or not 0 <= start <= owner.size - array.size:
        return None
    chain: list[Link] = []
    if array.size != owner.size:
        if owner.ndim != 1:
            chain.append((reshape, {"shape": (owner.size,)}, 0))
        chain.append((getitem, {"index": (("slice", start, start + array.size, None),)}, 0))
    if block.shape != (owner.shape if not chain else (array.size,)):
        chain.append((reshape, {"shape": block.shape}, 0))
    if order != list(range(array.ndim)):
        axes = tuple(sorted(range(array.ndim), key=order.__getitem__))
        chain.append((permute, {"axes": axes}, 0))
    return chain


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
