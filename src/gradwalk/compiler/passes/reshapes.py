"""Views of views: merge reshapes of reshapes and permutations of permutations."""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.ir.program import Builder, Call, Operand, Program, Term, rewrite
from gradwalk.ops.shape.reshaping import expand_op, permute, reshape


def merge_reshapes(program: Program) -> Program:
    """Replace chains of reshapes or permutations by one, and by none if it does nothing."""
    return rewrite(program, _visit, (reshape, permute, expand_op))


def _visit(call: Call, args: tuple[Operand, ...], build: Builder) -> Sequence[Term] | None:
    (x,) = args
    assert isinstance(x, Term)
    out = call.outputs[0]
    if call.op is permute:
        axes = call.attrs["axes"]
        if axes == tuple(range(len(axes))):
            return [x]
        if x.call is not None and x.call.op is permute:
            inner = x.call.attrs["axes"]
            return [_applied(build, permute, x.call, axes=tuple(inner[i] for i in axes))]
        return None
    if x.shape == out.shape:
        return [x]
    if x.call is not None and x.call.op is call.op:
        before = x.call.terms[0]
        if call.op is reshape and before.shape == out.shape:
            return [before]
        return [_applied(build, call.op, x.call, shape=out.shape)]
    return None


def _applied(build: Builder, op: object, inner: Call, **attrs: object) -> Term:
    """The op on the operand of the inner call."""
    view = build.apply(op, (inner.args[0],), attrs)  # type: ignore[arg-type]
    axes = attrs.get("axes")
    if axes is not None and axes == tuple(range(len(axes))):  # type: ignore[arg-type]
        build.calls.pop()
        return inner.args[0]  # type: ignore[return-value]
    return view
