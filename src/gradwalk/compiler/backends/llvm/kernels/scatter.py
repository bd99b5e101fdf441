"""Scatter: adding slices to the places that index arrays name, as the gradient of an embedding.

    out[lead..., indices..., rest...] += given[lead..., shape of the indices..., rest...]

`out` was cleared before. Or, after it was copied from elsewhere, writing them there: of several
writes to one place the last stays. Threads share lead and rest, never the indices: one thread does
all that goes to a place, in order, so results do not depend on the number of threads.

Arrays of the block: out, given, one per index. The rest is one row in vectors, or single numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type

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
    """The kernel; the arrays of its block are out, given and the indices."""
    f = KernelBuilder(2 + len(scatter.indices))
    lanes = vector_bytes // scatter.dtype.itemsize if scatter.rest > 1 else 1
    kind = Type(scatter.dtype, lanes)
    blocks = -(-scatter.rest // lanes)
    lead = [f.runtime(n) for n in scatter.lead]
    shape = [f.runtime(n) for n in scatter.shape]
    out_lead = [f.runtime(s) for s in scatter.out_lead]
    out_picked = [f.runtime(s) for s in scatter.out_picked]
    given = [f.runtime(s) for s in scatter.given]
    indices = [[f.runtime(s) for s in each] for each in scatter.indices]
    with f.loop(*f.share(f.runtime(math.prod(scatter.lead) * blocks))) as unit:
        *at, number = f.unravel(unit.index, [*lead, blocks])
        column = f.multiply(number, lanes)
        mask = None
        if scatter.rest % lanes:
            mask = f.first_lanes(f.subtract(scatter.rest, column), lanes)
        out_start = f.add(column, f.dot(at, out_lead))
        given_start = f.add(f.multiply(column, scatter.given_rest), f.dot(at, given))
        with f.loop(0, f.runtime(math.prod(scatter.shape))) as item:
            inside = f.unravel(item.index, shape)
            offset = out_start
            picks = []
            for k, strides in enumerate(indices):
                dtype = scatter.index_dtypes[k]
                pointer = f.element(f.bases[2 + k], dtype, f.dot(inside, strides))
                index = f.load(pointer, Type(dtype)).to(np.int64)
                picks.append(f.checked_index(index, f.runtime(scatter.lengths[k])))
                offset = f.add(offset, f.multiply(picks[-1].text, out_picked[k]))
            place = f.element(f.bases[0], scatter.dtype, offset)
            source = f.add(given_start, f.dot(inside, given[len(at) :]))
            pointer = f.element(f.bases[1], scatter.dtype, source)
            total = f.load_along(pointer, scatter.given_rest, kind, mask)
            if scatter.adds:
                there = f.load(place, kind, mask)
                # True and True are True, as in NumPy; one bit and another would be 0.
                total = there | total if kind.dtype.kind == "b" else there + total
            if scatter.skip is None:
                f.store(total, place, mask)
            else:
                with f.when(picks[0].compare("ne", scatter.skip).text):
                    f.store(total, place, mask)
    return f.kernel()
