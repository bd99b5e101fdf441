"""Loops: what nothing needs of them is dropped, and what all iterations would do is done before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradwalk.compiler.ir.loops import body_of, loop, shape_of, trimmed, used_parts
from gradwalk.compiler.ir.program import (
    Args,
    Argument,
    Builder,
    Call,
    Program,
    Rewritten,
    Term,
    copy_call,
    replaced,
    rewrite,
)
from gradwalk.compiler.passes.products import OFTEN, is_turned
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.shape.reshaping import clone


def trim_loops(program: Program) -> Program:
    """Drop the arrays that a loop makes and nothing reads, and what it then needs not read."""
    if not any(call.op is loop for call in program.calls):
        return program
    parts: dict[Call, tuple[list[int], list[int]]] = {}
    wanted: set[Term] = set(program.ends())
    for call in reversed(program.calls):
        if wanted.isdisjoint(call.outputs):
            continue
        if call.op is loop:
            parts[call] = used_parts(call, wanted)
            wanted.update(a for i in parts[call][1] if isinstance(a := call.args[i], Term))
        else:
            wanted.update(call.terms)

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
        kept, stay = parts.get(call, ([], []))
        if not kept or (len(kept) == len(call.outputs) and len(stay) == len(args)):
            return None
        outputs = trimmed(call, args, kept, stay, build)
        return [outputs.get(i, out) for i, out in enumerate(call.outputs)]

    return rewrite(program, visit, (loop,))


def stage_in_loops(program: Program) -> Program:
    """Copy transposed right factors of products before the loop that uses them."""

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
        body, run = body_of(call), shape_of(call)
        turned: dict[Term, Term] = {}  # of the body, and in order in its place
        operands = list(args)
        for one in body.calls:
            factor = one.args[1] if one.op is matmul_op else None
            if not isinstance(factor, Term) or factor in turned or not is_turned(factor):
                continue
            assert factor.call is not None
            (inner,) = factor.call.terms
            if run.count < OFTEN or not isinstance(inner.source, Argument):
                continue
            if inner.source.number < run.fixed:
                continue
            outside = build.apply(factor.call.op, (args[inner.source.number],), factor.call.attrs)
            turned[factor] = Term(factor.shape, factor.dtype, source=Argument(len(operands)))
            operands.append(build.apply(clone, (outside,)))
        if not turned:
            return None
        now: dict[Term, Term] = {}
        calls = []
        for one in body.calls:
            made = copy_call(one, replaced(one, now if one.op is not matmul_op else now | turned))
            calls.append(made)
            now |= zip(one.outputs, made.outputs, strict=True)
        changed = replace(body, calls=calls, results=[now.get(t, t) for t in body.results])
        attrs: dict[str, Any] = {**call.attrs, "body": changed}
        metas = [(t.shape, t.dtype) for t in call.outputs]
        outputs: tuple[Term, ...] = build.apply_as(loop, operands, attrs, metas)
        return outputs

    return rewrite(program, visit, (loop,))
