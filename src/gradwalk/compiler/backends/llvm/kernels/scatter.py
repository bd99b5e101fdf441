"""Scatter: adding slices to the places that index arrays name, as the gradient of an embedding.

    out[lead..., indices..., rest...] += given[lead..., shape of the indices..., rest...]

`out` was cleared before. Or, after it was copied from elsewhere, writing them there: of several
writes to one place the last stays. Threads share lead and rest, never the indices: whoever has a
place does everything that goes there, in order, so that results do not depend on the number of
threads.

Arrays of the block: out, given, one per index. The rest is one row in vectors, or single numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    checked_index,
    element_pointer,
    first_lanes,
    load,
    load_along,
    store,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind

Strides = tuple[int, ...]


class Scatter(NamedTuple):
    """Lengths and strides: of out over (lead, picked, rest), of what is given and of the indices
    over (lead, shape of the indices, rest); rest is at most one dimension, of stride 1 (of what is
    given perhaps 0)."""

    dtype: np.dtype[Any]
    lead: tuple[int, ...]
    shape: tuple[int, ...]  # of the indices
    rest: int
    lengths: tuple[int, ...]  # of the picked dimensions
    out_lead: Strides
    out_picked: Strides
    given: Strides  # over lead, shape
    given_rest: int  # 1, or 0 where one number is given for all of the rest
    index_dtypes: tuple[np.dtype[Any], ...]
    indices: tuple[Strides, ...]  # over shape
    skip: int | None = None
    adds: bool = True  # or writes


def scatter_kernel(scatter: Scatter, vector_bytes: int) -> Kernel:
    """The kernel that adds; the arrays of its block are out, given and the indices."""
    f = KernelWriter(2 + len(scatter.indices))
    lanes = vector_bytes // scatter.dtype.itemsize if scatter.rest > 1 else 1
    blocks = -(-scatter.rest // lanes)
    lead = [f.runtime(n) for n in scatter.lead]
    shape = [f.runtime(n) for n in scatter.shape]
    out_lead = [f.runtime(s) for s in scatter.out_lead]
    out_picked = [f.runtime(s) for s in scatter.out_picked]
    given = [f.runtime(s) for s in scatter.given]
    indices = [[f.runtime(s) for s in each] for each in scatter.indices]
    first, end = f.share(f.runtime(math.prod(scatter.lead) * blocks))
    with f.loop(first, end) as unit:
        number = f.set(f"urem i64 {unit.index}, {blocks}")
        row = f.set(f"udiv i64 {unit.index}, {blocks}")
        column = f.multiply(number, str(lanes))
        at: list[str] = []
        for size in reversed(lead):
            at.insert(0, f.set(f"urem i64 {row}, {size}"))
            row = f.set(f"udiv i64 {row}, {size}")
        mask = None
        if scatter.rest % lanes:
            left = f.set(f"sub i64 {scatter.rest}, {column}")
            mask = first_lanes(f, left, lanes)
        out_start = f.add(column, *(f.multiply(i, s) for i, s in zip(at, out_lead, strict=True)))
        given_start = f.add(
            f.multiply(column, str(scatter.given_rest)),
            *(f.multiply(i, s) for i, s in zip(at, given)),
        )
        over = given[len(at) :]
        with f.loop("0", f.runtime(math.prod(scatter.shape))) as item:
            inside = _apart(f, item.index, shape)
            offset = out_start
            picks = []
            for k, strides in enumerate(indices):
                start = f.add(*(f.multiply(i, s) for i, s in zip(inside, strides, strict=True)))
                dtype = scatter.index_dtypes[k]
                pointer = element_pointer(f, f.bases[2 + k], dtype, start)
                index = load(f, pointer, Kind(dtype)).to(np.int64)
                index = checked_index(f, index, f.runtime(scatter.lengths[k]))
                picks.append(index)
                offset = f.add(offset, f.multiply(index.text, out_picked[k]))
            kind = Kind(scatter.dtype, lanes)
            place = element_pointer(f, f.bases[0], scatter.dtype, offset)
            source = f.add(
                given_start, *(f.multiply(i, s) for i, s in zip(inside, over, strict=True))
            )
            pointer = element_pointer(f, f.bases[1], scatter.dtype, source)
            total = load_along(f, pointer, str(scatter.given_rest), kind, mask)
            if scatter.adds:
                there = load(f, place, kind, mask)
                # True and True are True, as in NumPy; one bit and another would be 0.
                total = there | total if kind.dtype.kind == "b" else there + total
            if scatter.skip is None:
                store(f, total, place, mask)
            else:
                goes = picks[0].compare("ne", scatter.skip)
                with f.when(goes.text):
                    store(f, total, place, mask)
    return f.kernel()


def _apart(f: KernelWriter, item: str, sizes: list[str]) -> list[str]:
    """The index of each dimension from the number of the item."""
    if not sizes:
        return []
    found = []
    for size in reversed(sizes[1:]):
        found.append(f.set(f"urem i64 {item}, {size}"))
        item = f.set(f"udiv i64 {item}, {size}")
    return [item, *reversed(found)]
