"""From an entry of the plan to a kernel: which generator writes it, and what it is given."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import is_fast
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.columns import Columns
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, loops_kernel
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import epilogue_of
from gradwalk.compiler.backends.llvm.kernels.products.kernel import product_kernel
from gradwalk.compiler.backends.llvm.kernels.products.sizes import (
    Schedule,
    block_sizes,
    product_of,
)
from gradwalk.compiler.backends.llvm.kernels.rows import Rows
from gradwalk.compiler.backends.llvm.kernels.scans import scan_kernel, scan_of
from gradwalk.compiler.backends.llvm.kernels.scatter import Scatter, scatter_kernel
from gradwalk.compiler.backends.llvm.kernels.short_rows import ShortRows, are_short_rows
from gradwalk.compiler.backends.llvm.kernels.sorts import sort_kernel, sort_of
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.ir.compiler_ops import running_max, running_min
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Buffer, Slice
from gradwalk.compiler.plan.loop_kinds import Kind, kind_of, picking
from gradwalk.compiler.plan.loop_nest import Loops
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.compiler.plan.synchronization import runs_alone
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import setitem
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.scan import cumsum_op
from gradwalk.ops.reduce.sorting import sort_op, topk_op

SCANS: dict[Op, str] = {cumsum_op: "sum", running_max: "amax", running_min: "amin"}
SCRATCH = 2  # where products and convolutions expect scratch memory: after their operands


def kernel_of(entry: Entry, host: Host, threads: int) -> Kernel:
    """The kernel of an entry; scratch memory that it needs is added to the entry's arrays."""
    work = entry.work
    if isinstance(work, Loops):
        return loops_kernel(_loops_builder(work, host), work, host.vector_bytes)
    if isinstance(work, ProductSteps) and work.call.op is matmul_op:
        kernel = _product(work, host)
        sharers = 1 if runs_alone(entry, threads) else threads
        return _with_scratch(entry, kernel, sharers, SCRATCH)
    if isinstance(work, Call) and kind_of(work) is Kind.SCATTER:
        return _scatter(entry, work, host)
    if isinstance(work, Call) and work.op in (sort_op, topk_op):
        descending = work.attrs["descending" if work.op is sort_op else "largest"]
        sort = sort_of(entry.operands, work.attrs["axis"], descending)
        kernel = sort_kernel(sort, host.vector_bytes)
        return _with_scratch(entry, kernel, threads, len(entry.operands))
    if isinstance(work, Call) and work.op in SCANS:
        out, x = entry.operands
        scan = scan_of(SCANS[work.op], out, x, work.attrs["axis"])
        return scan_kernel(scan, host.vector_bytes)

    # Imported here: a program without any does without the longest generators, a third of all.
    from gradwalk.compiler.backends.llvm.kernels import image_calls

    if isinstance(work, ProductSteps):
        kernel = image_calls.convolution(entry, work, host)
    else:
        kernel = image_calls.image_kernel(entry, work, host)
    return _with_scratch(entry, kernel, threads, SCRATCH)


def _with_scratch(entry: Entry, kernel: Kernel, threads: int, position: int) -> Kernel:
    """Add the scratch memory of a kernel, which only it uses, to the arrays of its entry."""
    if kernel.scratch:
        size = kernel.scratch * threads
        place = Slice(Buffer(size), np.dtype(np.uint8), (size,), (1,))
        entry.operands.insert(position, place)
        entry.writes.append(place)
    return kernel


def _loops_builder(loops: Loops, host: Host) -> type[LoopsBuilder]:
    if loops.reduced:
        return Columns
    return ShortRows if are_short_rows(loops, host.vector_bytes) else Rows


_products: dict[Hashable, Kernel] = {}  # by structure: their sizes are read when they run


def _product(work: ProductSteps, host: Host) -> Kernel:
    shape = work.outputs[0].shape
    *batch, m, n = shape
    k = work.left.shape[-1]
    left, right = (_matrix_strides(p, shape) for p in (work.left, work.right))
    outputs = [(p.dtype, _result_strides(p)) for p in work.outputs]
    extras = [(p.dtype, p.broadcast(shape)) for p in work.extras]
    product, sizes = product_of(work.left.dtype, batch, m, n, k, left, right, outputs, extras)
    scratch = max(Schedule.of(product, sizes, host).scratch, 64)
    key = (product, work.loops.structure(), is_fast())
    known = _products.get(key)
    if known is None:
        known = _products[key] = product_kernel(product, sizes, host, epilogue_of(work))
    return known._replace(sizes=block_sizes(product, sizes, host), scratch=scratch)


def _matrix_strides(place: Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides over (batch..., rows, columns), the batch broadcast to that of the result."""
    lead = len(shape) - len(place.shape)
    batch = [0 if n == 1 else s for n, s in zip(place.shape[:-2], place.strides, strict=False)]
    return (*(0,) * lead, *batch, *place.strides[-2:])


def _result_strides(place: Slice) -> tuple[int, ...]:
    """Strides of a result; a single column is contiguous, not the same number everywhere."""
    return (*place.strides[:-1], 1 if place.shape[-1] == 1 else place.strides[-1])


def _scatter(entry: Entry, call: Call, host: Host) -> Kernel:
    picked = picking(call)
    assert picked is not None
    out, given, *indices = entry.operands
    lead, over = picked.lead, len(picked.shape)
    rest = lead + picked.count
    width = int(np.prod(out.shape[rest:], dtype=np.int64))
    if (len(out.shape) - rest > 1 and not out.contiguous) or (width > 1 and out.strides[-1] != 1):
        raise NoKernel("scatter to an array that is not in order")
    scatter = Scatter(
        dtype=out.dtype,
        lead=out.shape[:lead],
        shape=picked.shape,
        rest=width,
        lengths=out.shape[lead:rest],
        out_lead=out.strides[:lead],
        out_picked=out.strides[lead:rest],
        given=given.strides[: lead + over],
        given_rest=int(any(given.strides[lead + over :])),
        index_dtypes=tuple(a.dtype for a in call.terms[-len(indices) :]),
        indices=tuple(p.broadcast(picked.shape) for p in indices),
        skip=picked.skip,
        adds=call.op is not setitem,
    )
    return scatter_kernel(scatter, host.vector_bytes)
