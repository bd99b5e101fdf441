"""From an entry of the plan to a kernel: which generator writes it, and what it is given."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function, is_fast
from gradwalk.compiler.backends.llvm.emit.kernel import Kernel, apply_op
from gradwalk.compiler.backends.llvm.emit.vector_values import Value
from gradwalk.compiler.backends.llvm.kernels.columns import columns_kernel
from gradwalk.compiler.backends.llvm.kernels.products.kernel import product_kernel
from gradwalk.compiler.backends.llvm.kernels.products.layout import (
    Schedule,
    block_sizes,
    product_of,
)
from gradwalk.compiler.backends.llvm.kernels.rows import rows_kernel
from gradwalk.compiler.backends.llvm.kernels.scans import scan_kernel, scan_of
from gradwalk.compiler.backends.llvm.kernels.scatter import Scatter, scatter_kernel
from gradwalk.compiler.backends.llvm.kernels.short_rows import are_short_rows, short_rows_kernel
from gradwalk.compiler.backends.llvm.kernels.sorts import sort_kernel, sort_of
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.ir.scan_ops import running_max, running_min
from gradwalk.compiler.plan.buffers import Buffer, Place
from gradwalk.compiler.plan.loop_kinds import Kind, kind_of, picking
from gradwalk.compiler.plan.loop_nest import Apply, Given, Load, Loops, Number, Store
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.compiler.plan.synchronization import runs_alone
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import setitem
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.scan import cumsum_op
from gradwalk.ops.reduce.sorting import sort_op, topk_op

SCANS: dict[Op, str] = {cumsum_op: "sum", running_max: "amax", running_min: "amin"}


class NoKernel(NotImplementedError):
    """There is no native kernel for a call; it runs as NumPy."""


def kernel_of(entry: Entry, host: Host, threads: int) -> Kernel:
    """The kernel of an entry; scratch memory that it needs is added to the entry's arrays."""
    work = entry.work
    if isinstance(work, Loops):
        if work.reduced:
            return columns_kernel(work, host.vector_bytes)
        if are_short_rows(work, host.vector_bytes):
            return short_rows_kernel(work, host.vector_bytes)
        return rows_kernel(work, host.vector_bytes)
    if isinstance(work, ProductSteps) and work.call.op is matmul_op:
        return _product(entry, work, host, threads)
    if isinstance(work, Call) and kind_of(work)[0] is Kind.SCATTER:
        return _scatter(entry, work, host)
    if isinstance(work, Call) and work.op in (sort_op, topk_op):
        return _sort(entry, work, host, threads)
    if isinstance(work, Call) and work.op in SCANS:
        out, x = entry.places
        scan = scan_of(SCANS[work.op], out, x, work.attrs["axis"])
        return scan_kernel(scan, host.vector_bytes)
    return _image_kernel(entry, work, host, threads)


def _image_kernel(entry: Entry, work: ProductSteps | Call, host: Host, threads: int) -> Kernel:
    """The kernel of a convolution or a pooling."""
    # Imported here: a program without any does without the longest generators, a third of all.
    from gradwalk.compiler.backends.llvm.kernels import image_calls

    try:
        if isinstance(work, ProductSteps):
            return image_calls.convolution(entry, work, _epilogue(work), host, threads)
        if work.op in image_calls.IMAGE_CALLS:
            return image_calls.IMAGE_CALLS[work.op](entry, work, host, threads)
    except image_calls.Unsuited as error:
        raise NoKernel(str(error)) from None
    raise NoKernel(f"{work.op.name} has no native kernel")


def _product(entry: Entry, work: ProductSteps, host: Host, threads: int) -> Kernel:
    shape = work.outputs[0].shape
    *batch, m, n = shape
    k = work.left.shape[-1]
    left, right = (_matrix_strides(p, shape) for p in (work.left, work.right))
    outputs = [(p.dtype, _result_strides(p)) for p in work.outputs]
    extras = [(p.dtype, p.broadcast(shape)) for p in work.extras]
    product, sizes = product_of(work.left.dtype, batch, m, n, k, left, right, outputs, extras)
    room = max(Schedule.of(product, sizes, host).scratch, 64)
    sharers = 1 if runs_alone(entry, threads) else threads
    entry.places.insert(2, _scratch(entry, room * sharers))
    key = (product, work.loops.structure(), is_fast())
    known = _products.get(key)
    if known is None:
        known = product_kernel(product, sizes, host, _epilogue(work))
        _products[key] = known
    return known._replace(sizes=block_sizes(product, sizes, host))


def _scratch(entry: Entry, size: int) -> Place:
    """Memory that only this kernel uses."""
    place = Place(Buffer(size), np.dtype(np.uint8), (size,), (1,))
    entry.writes.append(place)
    return place


_products: dict[Hashable, Kernel] = {}  # by structure: their sizes are read when they run


def _matrix_strides(place: Place, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides over (batch..., rows, columns), the batch broadcast to that of the result."""
    lead = len(shape) - len(place.shape)
    batch = [0 if n == 1 else s for n, s in zip(place.shape[:-2], place.strides, strict=False)]
    return (*(0,) * lead, *batch, *place.strides[-2:])


def _result_strides(place: Place) -> tuple[int, ...]:
    """Strides of a result; a single column is contiguous, not the same number everywhere."""
    return (*place.strides[:-1], 1 if place.shape[-1] == 1 else place.strides[-1])


def _epilogue(work: ProductSteps) -> _Epilogue | None:
    plain = len(work.loops.steps) == 2  # the element, and its store
    return None if plain else _Epilogue(work.loops)


class _Epilogue:
    """What is done to each vector of a finished product."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.extras = sum(not a.written for a in loops.accesses)

    def __call__(self, f: Function, value: Value, load: Any) -> list[tuple[int, Value]]:
        values: dict[int, Value] = {}
        stored = []
        for k, step in enumerate(self.loops.steps):
            match step:
                case Given():
                    values[k] = value
                case Load(access):
                    values[k] = load(access)
                case Apply(op, args, attrs, dtype):
                    given = [
                        a.value if isinstance(a := self.loops.steps[i], Number) else values[i]
                        for i in args
                    ]
                    values[k] = apply_op(f, op, given, dict(attrs), dtype, value.kind.lanes)
                case Store(access, arg):
                    target = self.loops.accesses[access].dtype
                    stored.append((access - self.extras, values[arg].to(target)))
        return stored


def _sort(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    descending = call.attrs["descending" if call.op is sort_op else "largest"]
    sort = sort_of(entry.places, call.attrs["axis"], descending)
    entry.places.append(_scratch(entry, sort.scratch * threads))
    return sort_kernel(sort, host.vector_bytes)


def _scatter(entry: Entry, call: Call, host: Host) -> Kernel:
    found = picking(call)
    assert found is not None
    out, given, *indices = entry.places
    lead, count = found.lead, found.count
    rest = out.shape[lead + count :]
    over = len(found.shape)
    width = int(np.prod(rest, dtype=np.int64))
    if (len(rest) > 1 and not out.contiguous) or (width > 1 and out.strides[-1] != 1):
        raise NoKernel("scatter to an array that is not in order")
    given_rest = given.strides[lead + over :]
    arrays = call.terms[-len(indices) :]
    scatter = Scatter(
        out.dtype, out.shape[:lead], found.shape, width, out.shape[lead : lead + count],
        out.strides[:lead], out.strides[lead : lead + count], given.strides[: lead + over],
        int(any(given_rest)),
        tuple(a.dtype for a in arrays), tuple(p.broadcast(found.shape) for p in indices),
        found.skip, call.op is not setitem,
    )  # fmt: skip
    return scatter_kernel(scatter, host.vector_bytes)
