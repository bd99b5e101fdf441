"""Convolutions and poolings of the plan: from a call and its arrays to a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel import Kernel
from gradwalk.compiler.backends.llvm.kernels.convolution.kernel import (
    Made,
    Unsuited,
    conv_input_kernel,
    conv_kernel,
    conv_weight_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.pools import (
    Picks,
    Windows,
    gather_last_kernel,
    max_pool_kernel,
    pool_spread_kernel,
    pool_sum_kernel,
    scatter_last_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.products.kernel import Epilogue
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Buffer, Place
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.partial_sums import joined
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.convolution import conv, conv_weight
from gradwalk.ops.network.pooling import (
    gather_last,
    max_pool_indices,
    pool_spread,
    pool_sum,
    scatter_last,
)

__all__ = ["IMAGE_CALLS", "Unsuited", "convolution"]

Generator = Callable[[Entry, Call, Host, int], Kernel]
SETTINGS = ("stride", "padding", "dilation", "groups")


# -- convolutions ----------------------------------------------------------------------------------


def convolution(
    entry: Entry, work: ProductSteps, epilogue: Epilogue | None, host: Host, threads: int
) -> Kernel:
    """A convolution, or its transpose in x, with what is done to its elements."""
    generator = conv_kernel if work.call.op is conv else conv_input_kernel
    settings = {name: work.call.attrs[name] for name in SETTINGS}
    made = generator(
        work.left, work.right, work.outputs, host=host, extras=work.extras, epilogue=epilogue,
        **settings,
    )  # fmt: skip
    place = _scratch(made, threads)
    entry.places[:] = [work.left, work.right, place, *work.outputs, *work.extras]
    entry.writes.append(place)
    return made.kernel


def _conv_weight(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    parts, x, y = entry.places
    settings = {name: call.attrs[name] for name in SETTINGS}
    made = conv_weight_kernel(x, y, parts, host=host, **settings)
    place = _scratch(made, threads)
    entry.places[:] = [x, y, place, parts]
    entry.writes.append(place)
    return made.kernel


def _scratch(made: Made, threads: int) -> Place:
    scratch = Buffer(made.scratch * threads)
    return Place(scratch, np.dtype(np.uint8), (scratch.size,), (1,))


# -- poolings --------------------------------------------------------------------------------------


def _windows(x: Place, y: Place, call: Call) -> Windows:
    """The windows of x (lead, *size), one output each of y (lead, *out)."""
    kernel = call.attrs["kernel"]
    count = len(kernel)
    if not 1 <= count <= 3 or x.dtype.name not in ("float32", "float64"):
        raise Unsuited(f"pooling of {x.dtype} in {count} dimensions")
    if 0 in kernel or any(p < 0 for pair in call.attrs["padding"] for p in pair):
        raise Unsuited("negative padding, or windows of nothing")
    lead = len(x.shape) - count

    def three(numbers: Sequence[int], filling: int) -> tuple[int, int, int]:
        a, b, c = (*(filling,) * (3 - count), *numbers)
        return a, b, c

    def strides(place: Place) -> tuple[int, int, int]:
        *rows, last = three(place.strides[lead:], 0)
        if last != 1 and place.shape[-1] > 1:
            raise Unsuited("rows that are not contiguous")
        return _lead_stride(place, lead), rows[0], rows[1]

    dilation = call.attrs.get("dilation", (1,) * count)
    return Windows(
        x.dtype, math.prod(x.shape[:lead]), three(x.shape[lead:], 1), three(y.shape[lead:], 1),
        three(kernel, 1), three(call.attrs["stride"], 1), three(dilation, 1),
        three([before for before, _ in call.attrs["padding"]], 0), strides(x), strides(y),
    )  # fmt: skip


def _lead_stride(place: Place, lead: int) -> int:
    found = joined(place.shape[:lead], place.strides[:lead])
    if found is None:
        raise Unsuited("an array that does not lie in order")
    return found


def _max_pool_indices(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    indices, x = entry.places
    return max_pool_kernel(_windows(x, indices, call), host.vector_bytes)


def _pool_sum(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    total, x = entry.places
    return pool_sum_kernel(_windows(x, total, call), host.vector_bytes)


def _pool_spread(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    x, y = entry.places
    return pool_spread_kernel(_windows(x, y, call), host.vector_bytes)


def _picks(rows: Place, picked: Place, indices: Place) -> Picks:
    """Picking `picked` out of `rows` along the last dimension."""
    lead = len(rows.shape) - 1
    long = [p for p in (rows, picked, indices) if p.shape[-1] > 1]
    if rows.dtype.name not in ("float32", "float64") or indices.dtype != np.int64:
        raise Unsuited(f"picking {rows.dtype} by {indices.dtype}")
    if any(p.strides[-1] != 1 for p in long) or rows.shape[:-1] != indices.shape[:-1]:
        raise Unsuited("rows that are not contiguous, or not one for each row of indices")
    return Picks(
        rows.dtype, math.prod(rows.shape[:-1]), indices.shape[-1], rows.shape[-1],
        *(_lead_stride(p, lead) for p in (rows, picked, indices)),
    )  # fmt: skip


def _gather_last(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    picked, rows, indices = entry.places
    return gather_last_kernel(_picks(rows, picked, indices), host.vector_bytes)


def _scatter_last(entry: Entry, call: Call, host: Host, threads: int) -> Kernel:
    rows, given, indices = entry.places
    return scatter_last_kernel(_picks(rows, given, indices), call.attrs["apart"], host.vector_bytes)


IMAGE_CALLS: dict[Op, Generator] = {
    conv_weight: _conv_weight,
    max_pool_indices: _max_pool_indices,
    gather_last: _gather_last,
    scatter_last: _scatter_last,
    pool_sum: _pool_sum,
    pool_spread: _pool_spread,
}
