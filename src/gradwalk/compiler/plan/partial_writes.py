"""Ops that write a part of an array, and which part: that of a view of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Buffer, Place, contiguous_strides, views
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem, put, setitem, write_view
from gradwalk.ops.shape.rearranging import diagonal_op, diagonal_put

# What they do not write is as it was in their first operand.
CHANGES = (setitem, write_view)
Views = Iterator[tuple[Op, dict[str, Any], int]]


def written_part(call: Call, whole: Place) -> Place | None:
    """The part of the result that a call writes; None if these strides have no such view."""
    place = whole
    for op, attrs, which in _chain(call):
        found = views(Call(op, (0,), attrs, []), place)
        if found is None:
            return None
        place = found[which if op.multiple else 0]
    return place


def writes_a_part(call: Call) -> bool:
    """Whether what a call writes is a view of its result, and known without any index array."""
    if call.op in (put, setitem):
        return len(call.args) == (1 if call.op is put else 2)
    if call.op is write_view:
        shape = call.outputs[0].shape
        in_order = Place(Buffer(0), call.outputs[0].dtype, shape, contiguous_strides(shape))
        return written_part(call, in_order) is not None
    return call.op is diagonal_put


def _chain(call: Call) -> Views:
    """The views that lead from the result to the part."""
    if call.op is write_view:
        yield from call.attrs["chain"]
    elif call.op is diagonal_put:
        yield diagonal_op, {name: call.attrs[name] for name in ("offset", "axes")}, 0
    else:
        yield getitem, {"index": call.attrs["index"]}, 0
