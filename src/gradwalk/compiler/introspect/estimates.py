"""Estimates of a kernel's work by its shapes: floating-point operations and bytes.

An elementwise op counts as one operation, a multiply-add as two. Bytes are those of every array
that is read or written, once; caches may serve them.
"""

from __future__ import annotations

import math

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Slice, bytes_of
from gradwalk.compiler.plan.loop_nest import Apply, Loops, Reduce, Sample
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.compiler.plan.synchronization import operations as of_product
from gradwalk.ops.network.convolution import conv_weight


def operations(entry: Entry) -> int:
    """About how many floating-point operations an entry does."""
    work = entry.work
    if isinstance(work, Loops):
        return _of_loops(work)
    if isinstance(work, ProductSteps):
        after = sum(isinstance(step, Apply) for step in work.loops.steps)
        return of_product(work) + math.prod(work.outputs[0].shape) * after
    return _of_call(work)


def _of_loops(loops: Loops) -> int:
    """Steps that vary run for every element, others once per row."""
    rows = math.prod((*loops.outer, *loops.reduced))
    elements = rows * math.prod(loops.row)
    total = 0
    for step, varies in zip(loops.steps, loops.varies(), strict=True):
        if isinstance(step, (Apply, Sample, Reduce)):
            total += elements if varies or isinstance(step, Reduce) else rows
    return total


def _of_call(call: Call) -> int:
    """For the gradient of a convolution's weight: every element of y times all of the weight. For
    other calls every element once."""
    if call.op is conv_weight:
        _, y = call.terms
        return 2 * y.size * math.prod(call.outputs[0].shape[1:])
    return max((term.size for term in (*call.outputs, *call.terms)), default=0)


def traffic(entry: Entry) -> int:
    """The bytes that an entry reads and writes, without its scratch memory."""
    read = {_identity(array): array for array in entry.reads}
    written = {_identity(array): array for array in entry.writes if not is_scratch(array)}
    return sum(bytes_of(array) for array in (*read.values(), *written.values()))


def is_scratch(array: Slice) -> bool:
    """Whether only the kernel itself uses it."""
    return array.buffer.in_arena and not array.buffer.readers


def _identity(array: Slice) -> tuple[object, ...]:
    return id(array.buffer), array.offset, array.shape, array.strides
