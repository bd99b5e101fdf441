"""The kind of loops that a call needs, by its op."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM, checked_index
from gradwalk.compiler.ir.loops import loop, shape_of
from gradwalk.compiler.ir.program import Call, Operand, Term
from gradwalk.compiler.plan.buffers import writes_a_part
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.ops.core.dtypes import is_floating
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


# Maps that read an operand elsewhere than at the element they compute.
_ELSEWHERE = (getitem, embedding_op, *ELEMENTWISE_RANDOM)


class Kind(enum.Enum):
    """What a call is to the planner."""

    VIEW = "view"  # no kernel: other strides on the same memory
    MAP = "map"
    ROWS = "rows"
    COLUMNS = "columns"
    PRODUCT = "product"
    SCATTER = "scatter"  # adds or writes at indices
    JOIN = "join"  # pieces written into one array: no kernel if they were computed in place
    LOOP = "loop"  # a program of its own, several times
    ALONE = "alone"

    __hash__ = object.__hash__  # enum's own is a Python function


def is_map(call: Call) -> bool:
    """Whether native code computes each element from the elements at the same indices."""
    return kind_of(call) is Kind.MAP and call.op not in _ELSEWHERE


def _is_map(call: Call, backend: Capabilities) -> bool:
    if call.op is clone or call.op is checked_index or call.op in ELEMENTWISE_RANDOM:
        return True
    if not call.op.elementwise and call.op is not cast:
        return False
    out = call.outputs[0]
    weak = out.dtype if call.op.gives is None else next(iter(call.terms), out).dtype
    dtypes = [a.dtype if isinstance(a, Term) else weak for a in call.args]
    return backend.is_native(call.op, dtypes, call.attrs)


def is_native_convolution(call: Call) -> bool:
    """Whether native kernels take the shapes and dtypes of a convolution, or of its gradients."""
    first, second = call.terms[:2]
    return (
        first.dtype == second.dtype
        and first.dtype.name in ("float32", "float64")
        and 3 <= first.ndim <= 5
        and 0 not in (*first.shape, *second.shape, *call.outputs[0].shape)
        and all(p >= 0 for pair in call.attrs["padding"] for p in pair)
    )


@dataclass(frozen=True)
class Picking:
    """A gather (or its transpose) with adjacent index arrays: x[lead..., arrays..., rest...].

    The result has the shape lead + that of the indices + rest.
    """

    lead: int  # dimensions before the picked ones
    count: int  # picked dimensions, one index array each
    shape: Shape  # of the indices, broadcast
    skip: int | None = None  # a row that is omitted


def picking(call: Call) -> Picking | None:
    """How a call gathers or scatters with index arrays; None if it does not, or in another way."""
    if call.op not in (getitem, put, setitem, embedding_op, sum_rows) or not _arrays(call):
        return None
    pick = _picking(call)
    if pick is None:
        return None
    table = call.outputs[0].shape if call.op in (put, sum_rows) else _shape(call.args[0])
    # From a dimension of length 0 nothing can be picked: NumPy raises.
    return None if 0 in table[pick.lead : pick.lead + pick.count] else pick


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


class LoopClass(NamedTuple):
    """The loops that a call needs: their kind, their shape, and the axes that are reduced."""

    kind: Kind
    shape: Shape
    axes: tuple[int, ...] = ()


def kind_of(call: Call) -> Kind:
    """The kind of a call that was classified."""
    kind: Kind = call.kind
    return kind


def classify(call: Call, backend: Capabilities) -> LoopClass:
    """Decide which loops a call needs."""
    loops = _classified(call, backend)
    call.kind = loops.kind
    return loops


def _classified(call: Call, backend: Capabilities) -> LoopClass:
    out = call.outputs[0].shape
    if call.op is loop:
        return LoopClass(Kind.LOOP, (shape_of(call).count,))
    if _is_map(call, backend) or (call.op in (getitem, embedding_op) and picking(call) is not None):
        return LoopClass(Kind.MAP, out)
    if is_view(call):
        return LoopClass(Kind.VIEW, out)
    if call.op in REDUCTIONS:
        (x,) = call.terms
        if call.outputs[0].size and not x.size:
            return LoopClass(Kind.ALONE, out)  # the largest of nothing: NumPy raises
        axes = tuple(sorted(call.attrs["axis"]))
        long = [i for i, n in enumerate(x.shape) if n != 1]
        last = long[-1] if long else -1
        kind = Kind.ROWS if last in axes or not axes or last < 0 else Kind.COLUMNS
        return LoopClass(kind, x.shape, axes)
    if (call.op is matmul_op and is_floating(call.outputs[0].dtype)) or (
        call.op in (conv, conv_input) and is_native_convolution(call)
    ):
        return LoopClass(Kind.PRODUCT, out)
    if call.op in (put, setitem, sum_rows) and picking(call) is not None:
        return LoopClass(Kind.SCATTER, out)
    if call.op in (concatenate, pad_op) or writes_a_part(call):
        return LoopClass(Kind.JOIN, out)
    return LoopClass(Kind.ALONE, out)
