"""What kind of loops a call needs, from its op."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from gradwalk.compiler.ir.index_ops import checked_index
from gradwalk.compiler.ir.program import Call, Operand, Term
from gradwalk.compiler.ir.random_ops import ELEMENTWISE_DRAWS
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.partial_writes import writes_a_part
from gradwalk.ops.core.op import Op, Shape
from gradwalk.ops.index.embedding import embedding_op, sum_rows
from gradwalk.ops.index.indexing import getitem, put, setitem
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.network.convolution import conv, conv_input
from gradwalk.ops.reduce.reduction import all_op, amax_op, amin_op, any_op, sum_op
from gradwalk.ops.shape.reshaping import cast, clone, concatenate, pad_op

REDUCTIONS: dict[Op, str] = {
    sum_op: "sum", amax_op: "amax", amin_op: "amin", all_op: "all", any_op: "any",
}  # fmt: skip


# Maps that read an operand elsewhere than at the place they compute.
_ELSEWHERE = (getitem, embedding_op, *ELEMENTWISE_DRAWS)


class Kind(enum.Enum):
    """What a call is to the planner."""

    VIEW = "view"  # no kernel: other strides on the same memory
    MAP = "map"
    ROWS = "rows"
    COLUMNS = "columns"
    PRODUCT = "product"
    SCATTER = "scatter"  # adding or writing to places that index arrays name
    JOIN = "join"  # pieces written into one array: no kernel if they were computed in place
    ALONE = "alone"

    __hash__ = object.__hash__  # the members are one each; enum's own is a Python function


def is_map(call: Call) -> bool:
    """Whether each element of the result comes from the elements at its place, by native code."""
    return kind_of(call)[0] is Kind.MAP and call.op not in _ELSEWHERE


def _is_map(call: Call, backend: Capabilities) -> bool:
    if call.op is clone or call.op is checked_index or call.op in ELEMENTWISE_DRAWS:
        return True
    if not call.op.elementwise and call.op is not cast:
        return False
    out = call.outputs[0]
    weak = out.dtype if call.op.gives is None else next(iter(call.terms), out).dtype
    dtypes = [a.dtype if isinstance(a, Term) else weak for a in call.args]
    return backend.is_native(call.op, dtypes, call.attrs)


def is_convolution(call: Call) -> bool:
    """Whether a call is a convolution that its native kernel takes."""
    if call.op not in (conv, conv_input):
        return False
    first, weight = call.args[:2]
    assert isinstance(first, Term) and isinstance(weight, Term)
    dtypes = {first.dtype.name, weight.dtype.name}
    return (
        len(dtypes) == 1
        and dtypes <= {"float32", "float64"}
        and 3 <= first.ndim <= 5
        and 0 not in (*first.shape, *weight.shape, *call.outputs[0].shape)
        and all(p >= 0 for pair in call.attrs["padding"] for p in pair)
    )


@dataclass(frozen=True)
class Picking:
    """A gather (or its transpose) with index arrays side by side: x[lead..., arrays..., rest...].

    The result has the shape lead + that of the indices + rest.
    """

    lead: int  # dimensions before the picked ones
    count: int  # picked dimensions, one index array each
    shape: Shape  # of the indices, broadcast
    skip: int | None = None  # a row that is left out


def picking(call: Call) -> Picking | None:
    """How an op picks with index arrays; None if it is none, or has another form."""
    if call.op not in (getitem, put, setitem, embedding_op, sum_rows) or not _arrays(call):
        return None
    found = _picking(call)
    if found is None:
        return None
    table = call.outputs[0].shape if call.op in (put, sum_rows) else _shape(call.args[0])
    # Of nothing nothing can be picked: NumPy says so.
    return None if 0 in table[found.lead : found.lead + found.count] else found


def _arrays(call: Call) -> tuple[Operand, ...]:
    """The index arrays of a call."""
    return call.args[2 if call.op is setitem else 1 :]


def _picking(call: Call) -> Picking | None:
    if call.op in (embedding_op, sum_rows):
        return Picking(0, 1, _shape(call.args[1]), call.attrs.get("skip"))
    index = call.attrs["index"]
    arrays = [i for i, part in enumerate(index) if isinstance(part, tuple) and part[0] == "array"]
    whole = ("slice", None, None, None)
    others = [part for i, part in enumerate(index) if i not in arrays]
    if not arrays or arrays[-1] - arrays[0] >= len(arrays) or any(p != whole for p in others):
        return None
    if [index[i][1] for i in arrays] != list(range(len(arrays))):
        return None
    shape = tuple(np.broadcast_shapes(*(_shape(a) for a in _arrays(call))))
    return Picking(arrays[0], len(arrays), shape)


def _shape(operand: Operand) -> Shape:
    assert isinstance(operand, Term)
    return operand.shape


def is_view(call: Call) -> bool:
    """Whether the result can be the operand's memory with other strides."""
    if call.op is getitem:
        return len(call.args) == 1
    return call.op.view


Found = tuple[Kind, Shape, tuple[int, ...]]


def kind_of(call: Call) -> Found:
    """The kind of a call, the shape of its loops, and the axes it reduces."""
    found: Found = call.kind
    return found


def classify(call: Call, backend: Capabilities) -> Found:
    """Decide on the kind of a call, which `kind_of` returns from now on."""
    call.kind = _classified(call, backend)
    return kind_of(call)


def _classified(call: Call, backend: Capabilities) -> Found:
    out = call.outputs[0].shape
    if _is_map(call, backend) or (call.op in (getitem, embedding_op) and picking(call) is not None):
        return Kind.MAP, out, ()
    if is_view(call):
        return Kind.VIEW, out, ()
    if call.op in REDUCTIONS:
        (x,) = call.args
        assert isinstance(x, Term)
        if call.outputs[0].size and not x.size:
            return Kind.ALONE, out, ()  # the largest of nothing: NumPy says that there is none
        axes = tuple(sorted(call.attrs["axis"]))
        long = [i for i, n in enumerate(x.shape) if n != 1]
        last = long[-1] if long else -1
        kind = Kind.ROWS if last in axes or not axes or last < 0 else Kind.COLUMNS
        return kind, x.shape, axes
    if (call.op is matmul_op and call.outputs[0].dtype.kind == "f") or is_convolution(call):
        return Kind.PRODUCT, out, ()
    if call.op in (put, setitem, sum_rows) and picking(call) is not None:
        return Kind.SCATTER, out, ()
    if call.op in (concatenate, pad_op) or writes_a_part(call):
        return Kind.JOIN, out, ()
    return Kind.ALONE, out, ()
