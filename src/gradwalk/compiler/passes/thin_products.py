"""Products that are none: with an inner dimension of 1, or a single row or column.

A product over one number is a multiplication that broadcasts; one that gives a single row or column
is a multiplication and a sum. Both can be part of the kernels around them, which a product cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.elementwise.arithmetic import mul
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import permute, reshape


def open_thin_products(program: Program) -> Program:
    """Write such products as multiplications and sums."""
    return rewrite(program, _visit, (matmul_op,))


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    if call.outputs[0].dtype.kind != "f":
        return None
    x, y = args
    assert isinstance(x, Term) and isinstance(y, Term)
    out = call.outputs[0]
    if x.shape[-1] == 1:
        found = build.apply(mul, (x, y))
    elif y.shape[-1] == 1 and x.ndim >= y.ndim:
        before = _before_turning(x)
        if before is None:
            found = _summed(build, x, _turned(build, y), x.ndim - 1)
        else:  # its columns are what lies in order: add up rows of them
            found = _turned(build, _summed(build, before, y, x.ndim - 2))
    elif x.shape[-2] == 1 and y.ndim >= x.ndim:
        before = _before_turning(y)
        if before is None:
            found = _summed(build, _turned(build, x), y, y.ndim - 2)
        else:
            found = _turned(build, _summed(build, before, x, y.ndim - 1))
    else:
        return None
    return [found] if found.shape == out.shape else None


def _before_turning(x: Term) -> Term | None:
    """What a matrix was before its last two dimensions were exchanged, if they were."""
    call = x.call
    if call is None or call.op is not permute:
        return None
    turned = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return call.args[0] if call.attrs["axes"] == turned else None  # type: ignore[return-value]


def _summed(build: Builder, x: Term, y: Term, axis: int) -> Term:
    product = build.apply(mul, (x, y))
    return build.apply(sum_op, (product,), {"axis": (axis,), "keepdim": True})


def _turned(build: Builder, x: Term) -> Term:
    """The last two dimensions exchanged; of a vector in either form that is a reshape."""
    if 1 in x.shape[-2:]:
        shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
        return build.apply(reshape, (x,), {"shape": shape})
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return build.apply(permute, (x,), {"axes": axes})
