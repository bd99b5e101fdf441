"""Thin products: with an inner dimension of 1, or a single row or column.

The first is a multiplication that broadcasts, the others are a multiplication and a sum. Both can
be fused with the kernels around them, which a product cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.elementwise.arithmetic import mul
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import permute


def open_thin_products(program: Program) -> Program:
    """Replace thin products by multiplications and sums."""
    return rewrite(program, _visit, (matmul_op,))


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    if call.outputs[0].dtype.kind != "f":
        return None
    x, y = args
    assert isinstance(x, Term) and isinstance(y, Term)
    out = call.outputs[0]
    if x.shape[-1] == 1:
        result = build.apply(mul, (x, y))
    elif y.shape[-1] == 1 and x.ndim >= y.ndim:
        before = _before_turning(x)
        if before is None:
            result = _summed(build, x, _turned(build, y), x.ndim - 1)
        else:  # its columns are contiguous: add up rows of them
            result = _turned(build, _summed(build, before, y, x.ndim - 2))
    elif x.shape[-2] == 1 and y.ndim >= x.ndim:
        before = _before_turning(y)
        if before is None:
            result = _summed(build, _turned(build, x), y, y.ndim - 2)
        else:
            result = _turned(build, _summed(build, before, x, y.ndim - 1))
    else:
        return None
    return [result] if result.shape == out.shape else None


def _before_turning(x: Term) -> Term | None:
    """A matrix before its last two dimensions were exchanged; None if they were not."""
    call = x.call
    if call is None or call.op is not permute:
        return None
    turned = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return call.args[0] if call.attrs["axes"] == turned else None  # type: ignore[return-value]


def _summed(build: Builder, x: Term, y: Term, axis: int) -> Term:
    product = build.apply(mul, (x, y))
    return build.apply(sum_op, (product,), {"axis": (axis,), "keepdim": True})


def _turned(build: Builder, x: Term) -> Term:
    """The last two dimensions exchanged; of a single row or column that is a reshape."""
    if 1 in x.shape[-2:]:
        return build.reshape(x, (*x.shape[:-2], x.shape[-1], x.shape[-2]))
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return build.apply(permute, (x,), {"axes": axes})
