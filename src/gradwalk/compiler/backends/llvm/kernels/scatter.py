"""Scatter: adding slices to the places that index arrays name, as the gradient of an embedding.

    out[lead..., indices..., rest...] += given[lead..., shape of the indices..., rest...]

`out` was cleared before. Or, after it was copied from elsewhere, writing them there: of several
writes to one place the last stays. Threads share lead and rest, never the indices: one thread does
all that goes to a place, in order, so results do not depend on the number of threads.

Arrays of the block: out, given, one per index. The rest is one row in vectors, or single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.compiler.plan.loop_kinds import Picking


def scatter_kernel(
    picked: Picking, adds: bool, places: Sequence[Slice], vector_bytes: int
) -> Kernel:
    """The kernel that adds slices, or else writes them."""
    out, given, *indices = places
    lead, end = picked.lead, picked.lead + picked.count
    over = lead + len(picked.shape)
    rest = math.prod(out.shape[end:])
    if (len(out.shape) - end > 1 and not out.contiguous) or (rest > 1 and out.strides[-1] != 1):
        raise NoKernel("scatter to an array that is not in order")
    along_rest = int(any(given.strides[over:]))  # 0 where one number is given for all of the rest
    lanes = vector_bytes // out.dtype.itemsize if rest > 1 else 1
    kind = Type(out.dtype, lanes)
    blocks = -(-rest // lanes)

    f = KernelBuilder(2 + len(indices))
    lengths = f.runtimes(*out.shape[:lead])
    shape = f.runtimes(*picked.shape)
    out_lead, out_picked = f.runtimes(*out.strides[:lead]), f.runtimes(*out.strides[lead:end])
    given_strides = f.runtimes(*given.strides[:over])
    index_strides = [f.runtimes(*place.broadcast(picked.shape)) for place in indices]
    with f.loop(*f.share(f.runtime(math.prod(out.shape[:lead]) * blocks))) as unit:
        *at, number = f.unravel(unit.index, [*lengths, blocks])
        column = f.multiply(number, lanes)
        mask = f.first_lanes(f.subtract(rest, column), lanes) if rest % lanes else None
        out_start = f.add(column, f.dot(at, out_lead))
        given_start = f.add(f.multiply(column, along_rest), f.dot(at, given_strides))
        with f.loop(0, f.runtime(math.prod(picked.shape))) as item:
            inside = f.unravel(item.index, shape)
            offset = out_start
            picks = []
            for k, (place, strides) in enumerate(zip(indices, index_strides, strict=True)):
                pointer = f.element(f.bases[2 + k], place.dtype, f.dot(inside, strides))
                index = f.load(pointer, Type(place.dtype)).to(np.int64)
                picks.append(f.checked_index(index, f.runtime(out.shape[lead + k])))
                offset = f.add(offset, f.multiply(picks[-1].text, out_picked[k]))
            target = f.element(f.bases[0], out.dtype, offset)
            source = f.add(given_start, f.dot(inside, given_strides[lead:]))
            pointer = f.element(f.bases[1], out.dtype, source)
            total = f.load_along(pointer, along_rest, kind, mask)
            if adds:
                there = f.load(target, kind, mask)
                # True and True are True, as in NumPy; one bit and another would be 0.
                total = there | total if kind.dtype.kind == "b" else there + total
            if picked.skip is None:
                f.store(total, target, mask)
            else:
                with f.when(picks[0].compare("ne", picked.skip).text):
                    f.store(total, target, mask)
    return f.kernel()
