"""Make a Program ready to be written: its composites are those of ONNX, everything else is open."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Args, Builder, Call, Program, Rewritten, Term, rewrite
from gradwalk.compiler.passes.expand.composites import Handle
from gradwalk.compiler.passes.simplify import drop_unused
from gradwalk.onnx.writers.tables import WRITERS
from gradwalk.ops.core.op import define
from gradwalk.ops.elementwise.arithmetic import add


def ready(program: Program, opset: int) -> Program:
    """The program in ops that an operator set has, as far as possible."""
    program = rewrite(program, _join_batch_norm, (add,))

    def opened(call: Call, args: Args, build: Builder) -> Rewritten:
        if is_written(call, opset) or call.op.expand is None:
            return None
        given = [Handle(build, a) if isinstance(a, Term) else a for a in args]
        made = call.op.expand(*given, **call.attrs)
        return [handle.term for handle in (made if call.op.multiple else (made,))]

    while True:
        again = rewrite(program, opened)
        if again is program:
            return drop_unused(program)
        program = again


def is_written(call: Call, opset: int) -> bool:
    """Whether an operator set has a call."""
    writer = WRITERS.get(call.op.name)
    return writer is not None and writer.since <= opset and writer.fits(call)


# -- batch norm ------------------------------------------------------------------------------------


def _normalized(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *, eps: float) -> Any:
    shape = (-1, *(1,) * (x.ndim - 2))
    scale = weight / np.sqrt(variance + eps)
    return x * scale.reshape(shape) + (bias - mean * scale).reshape(shape)


# With running statistics it is plain arithmetic, which this op stands for in a file.
batch_norm = define("batch_norm", _normalized, vjp=[None] * 5, shape=lambda x, *parameters, eps: x)


def _operands(thing: Any, op: str) -> Any:
    """The operands of the call that made a term, if it is of this op."""
    made = thing.call if isinstance(thing, Term) else None
    return made.args if made is not None and made.op.name == op else (None,) * 2


def _join_batch_norm(call: Call, args: Args, build: Builder) -> Rewritten:
    """x × scale + shift, where both are made of running statistics (nn/functional)."""
    product, lifted_shift = args
    x, lifted_scale = _operands(product, "mul")
    scale, shift = _operands(lifted_scale, "reshape")[0], _operands(lifted_shift, "reshape")[0]
    inverse, weight = _operands(scale, "mul")
    shifted, bias = _operands(shift, "add")
    negative, same_scale = _operands(shifted, "mul")
    variance, eps = _operands(_operands(inverse, "rsqrt")[0], "add")
    mean = _operands(negative, "neg")[0]
    found = (x, weight, bias, mean, variance)
    if same_scale is not scale or not all(isinstance(part, Term) for part in found):
        return None
    channels = {term.shape for term in found[1:] if isinstance(term, Term)}
    if not isinstance(eps, float) or channels != {(call.outputs[0].shape[1],)}:
        return None
    return (build.apply(batch_norm, found, {"eps": eps}),)
