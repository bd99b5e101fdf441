"""From an entry of the plan to a kernel: which generator writes it, and what it is given."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import is_fast
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.columns import Columns
from gradwalk.compiler.backends.llvm.kernels.loops import LoopsBuilder, loops_kernel
from gradwalk.compiler.backends.llvm.kernels.products.driver import product_kernel
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import epilogue_of
from gradwalk.compiler.backends.llvm.kernels.products.sizes import product_of, sized
from gradwalk.compiler.backends.llvm.kernels.rows import Rows
from gradwalk.compiler.backends.llvm.kernels.scans import scan_kernel
from gradwalk.compiler.backends.llvm.kernels.scatter import scatter_kernel
from gradwalk.compiler.backends.llvm.kernels.short_rows import ShortRows, are_short_rows
from gradwalk.compiler.backends.llvm.kernels.sorts import sort_kernel
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
from gradwalk.ops.network.convolution import conv_weight
from gradwalk.ops.network.pooling import (
    gather_last,
    max_pool_indices,
    pool_spread,
    pool_sum,
    scatter_last,
)
from gradwalk.ops.reduce.scan import cumsum_op
from gradwalk.ops.reduce.sorting import sort_op, topk_op

SCANS: dict[Op, str] = {cumsum_op: "sum", running_max: "amax", running_min: "amin"}
SCRATCH = 2  # where products and convolutions expect scratch memory: after their operands


def kernel_of(entry: Entry, host: Host, threads: int) -> Kernel:
    """The kernel of an entry; scratch memory that it needs is added to the entry's arrays."""
    work = entry.work
    if isinstance(work, Loops):
        return loops_kernel(_loops_builder(work, host), work, host.vector_bytes)
    if isinstance(work, Call):
        kernel = _kernel_of_call(entry, work, host)
        after = len(entry.operands) if work.op in (sort_op, topk_op) else SCRATCH
        return _with_scratch(entry, kernel, threads, after)
    if work.call.op is matmul_op:
        sharers = 1 if runs_alone(entry, threads) else threads
        return _with_scratch(entry, _product(work, host), sharers, SCRATCH)
    from gradwalk.compiler.backends.llvm.kernels.convolution.kernel import conv_kernel

    kernel = conv_kernel(
        work.call.op, work.left, work.right, work.outputs, work.call.attrs, host, work.extras,
        epilogue_of(work),
    )  # fmt: skip
    entry.operands[:] = [work.left, work.right, *work.outputs, *work.extras]
    return _with_scratch(entry, kernel, threads, SCRATCH)


def _kernel_of_call(entry: Entry, call: Call, host: Host) -> Kernel:
    """The kernel of a call that is neither loops nor a product.

    Generators for images are imported here: most programs do without them, a third of all code.
    """
    op, attrs, places, vector_bytes = call.op, call.attrs, entry.operands, host.vector_bytes
    if kind_of(call) is Kind.SCATTER:
        picked = picking(call)
        assert picked is not None
        return scatter_kernel(picked, op is not setitem, places, vector_bytes)
    if op in (sort_op, topk_op):
        descending = attrs["descending" if op is sort_op else "largest"]
        return sort_kernel(places, attrs["axis"], descending, vector_bytes)
    if op in SCANS:
        return scan_kernel(SCANS[op], places, attrs["axis"], vector_bytes)
    if op is conv_weight:
        from gradwalk.compiler.backends.llvm.kernels.convolution.kernel import conv_weight_kernel

        parts, x, y = places
        kernel = conv_weight_kernel(x, y, parts, attrs, host)
        entry.operands[:] = [x, y, parts]
        return kernel
    if op in (max_pool_indices, pool_sum, pool_spread):
        from gradwalk.compiler.backends.llvm.kernels.pools import pool_kernel

        return pool_kernel(op, places, attrs, vector_bytes)
    if op in (gather_last, scatter_last):
        from gradwalk.compiler.backends.llvm.kernels import last_axis

        if op is gather_last:
            return last_axis.gather_last_kernel(places, vector_bytes)
        return last_axis.scatter_last_kernel(places, attrs["apart"], vector_bytes)
    raise NoKernel(f"{op.name} has no native kernel")


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
    product, numbers = product_of(work.left, work.right, work.outputs, work.extras, host)
    key = (product, work.loops.structure(), is_fast())
    known = _products.get(key)
    if known is None:
        known = _products[key] = product_kernel(product, host, epilogue_of(work))
    return sized(known, numbers)
