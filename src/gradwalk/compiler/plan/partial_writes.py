"""Ops that write a part of an array: the part that a view of it covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Slice, fresh, views
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem, put, setitem, write_view
from gradwalk.ops.shape.rearranging import diagonal_op, diagonal_put

# The rest of their result is that of their first operand.
CHANGES = (setitem, write_view)
Views = Iterator[tuple[Op, dict[str, Any], int]]


def written_part(call: Call, whole: Slice) -> Slice | None:
    """The part of the result that a call writes; None if no strides describe it."""
    part = whole
    for op, attrs, which in _chain(call):
        seen = views(Call(op, (0,), attrs, []), part)
        if seen is None:
            return None
        part = seen[which if op.multiple else 0]
    return part


def writes_a_part(call: Call) -> bool:
    """Whether a call writes a view of its result, known without any index array."""
    if call.op in (put, setitem):
        return len(call.args) == (1 if call.op is put else 2)
    if call.op is write_view:
        return written_part(call, fresh(call.outputs[0])) is not None
    return call.op is diagonal_put


def _chain(call: Call) -> Views:
    """The views that lead from the result to the part."""
    if call.op is write_view:
        yield from call.attrs["chain"]
    elif call.op is diagonal_put:
        yield diagonal_op, {name: call.attrs[name] for name in ("offset", "axes")}, 0
    else:
        yield getitem, {"index": call.attrs["index"]}, 0
