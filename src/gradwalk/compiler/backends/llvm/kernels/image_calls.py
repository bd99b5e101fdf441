"""Convolutions and poolings of the plan: from a call and its arrays to a kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.convolution.kernel import (
    conv_input_kernel,
    conv_kernel,
    conv_weight_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import Triple, one_stride, three
from gradwalk.compiler.backends.llvm.kernels.last_axis import (
    Picks,
    gather_last_kernel,
    scatter_last_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.pools import (
    Windows,
    max_pool_kernel,
    pool_spread_kernel,
    pool_sum_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import epilogue_of
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.ops.network.convolution import conv, conv_weight
from gradwalk.ops.network.pooling import (
    gather_last,
    max_pool_indices,
    pool_spread,
    pool_sum,
    scatter_last,
)


def _settings(call: Call) -> dict[str, Any]:
    return {name: call.attrs[name] for name in ("stride", "padding", "dilation", "groups")}


def convolution(entry: Entry, work: ProductSteps, host: Host) -> Kernel:
    """A convolution, or its transpose in x, with what is done to its elements."""
    generator = conv_kernel if work.call.op is conv else conv_input_kernel
    kernel = generator(
        work.left, work.right, work.outputs, host=host, extras=work.extras,
        epilogue=epilogue_of(work), **_settings(work.call),
    )  # fmt: skip
    entry.operands[:] = [work.left, work.right, *work.outputs, *work.extras]
    return kernel


def _windows(x: Slice, y: Slice, call: Call) -> Windows:
    """The windows of x (lead, *size), one output each of y (lead, *out)."""
    kernel = call.attrs["kernel"]
    count = len(kernel)
    if not 1 <= count <= 3 or x.dtype.name not in ("float32", "float64"):
        raise NoKernel(f"pooling of {x.dtype} in {count} dimensions")
    if 0 in kernel or any(p < 0 for pair in call.attrs["padding"] for p in pair):
        raise NoKernel("negative padding, or windows of nothing")
    lead = len(x.shape) - count

    def strides(place: Slice) -> Triple:
        *rows, last = three(place.strides[lead:], 0)
        if last != 1 and place.shape[-1] > 1:
            raise NoKernel("rows that are not contiguous")
        return one_stride(place.shape[:lead], place.strides[:lead]), rows[0], rows[1]

    dilation = call.attrs.get("dilation", (1,) * count)
    return Windows(
        x.dtype, math.prod(x.shape[:lead]), three(x.shape[lead:], 1), three(y.shape[lead:], 1),
        three(kernel, 1), three(call.attrs["stride"], 1), three(dilation, 1),
        three([before for before, _ in call.attrs["padding"]], 0), strides(x), strides(y),
    )  # fmt: skip


def _picks(rows: Slice, picked: Slice, indices: Slice) -> Picks:
    """Picking `picked` out of `rows` along the last dimension."""
    long = [p for p in (rows, picked, indices) if p.shape[-1] > 1]
    if rows.dtype.name not in ("float32", "float64") or indices.dtype != np.int64:
        raise NoKernel(f"picking {rows.dtype} by {indices.dtype}")
    if any(p.strides[-1] != 1 for p in long) or rows.shape[:-1] != indices.shape[:-1]:
        raise NoKernel("rows that are not contiguous, or not one for each row of indices")
    return Picks(
        rows.dtype, math.prod(rows.shape[:-1]), indices.shape[-1], rows.shape[-1],
        *(one_stride(p.shape[:-1], p.strides[:-1]) for p in (rows, picked, indices)),
    )  # fmt: skip


# The kernels of windows of x, with one output each of y; and of picks.
_POOLS = {
    max_pool_indices: max_pool_kernel,
    pool_sum: pool_sum_kernel,
    pool_spread: pool_spread_kernel,
}


def image_kernel(entry: Entry, call: Call, host: Host) -> Kernel:
    """The kernel of a call on images that is not a product."""
    if call.op is conv_weight:
        parts, x, y = entry.operands
        kernel = conv_weight_kernel(x, y, parts, host=host, **_settings(call))
        entry.operands[:] = [x, y, parts]
        return kernel
    if call.op in _POOLS:
        out, given = entry.operands
        x, y = (out, given) if call.op is pool_spread else (given, out)
        return _POOLS[call.op](_windows(x, y, call), host.vector_bytes)
    if call.op is gather_last:
        picked, rows, indices = entry.operands
        return gather_last_kernel(_picks(rows, picked, indices), host.vector_bytes)
    if call.op is scatter_last:
        picks = _picks(*entry.operands)
        return scatter_last_kernel(picks, call.attrs["apart"], host.vector_bytes)
    raise NoKernel(f"{call.op.name} has no native kernel")
