"""Masks: a random truth value becomes a number only where that number is used.

Dropout casts its mask to floats and multiplies them by 1 ÷ (1 − p); forward and backward multiply
by the result. These are only two numbers: each use chooses one of them by the mask itself. Backward
keeps a byte for each element instead of a float.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.compiler.ir.compiler_ops import random_bernoulli, random_bernoulli_each
from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Constant,
    Operand,
    Program,
    Rewritten,
    Term,
    forward,
    rewrite,
)
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cast

MASKS = (random_bernoulli, random_bernoulli_each)


def choose_by_masks(program: Program) -> Program:
    """Replace floats made of a random truth value by choices between two constants."""
    if not any(call.op in MASKS for call in program.calls):
        return program
    return rewrite(program, _Choices().visit)


class _Choices:
    def __init__(self) -> None:
        # Terms made of a mask and constants: the mask, and the numbers for false and true.
        self.known: dict[Term, tuple[Term, np.ndarray[Any, Any]]] = {}

    def visit(self, call: Call, args: Args, build: Builder) -> Rewritten:
        either = self._either(call, args)
        if either is not None:  # it may have uses that stay; if not, it is dead
            outputs = build.again(call, args)
            self.known[outputs[0]] = either
            return outputs
        if any(isinstance(a, Term) and a in self.known for a in args):
            return build.again(call, [self._chosen(a, build) for a in args])
        return None

    def _either(
        self, call: Call, args: tuple[Operand, ...]
    ) -> tuple[Term, np.ndarray[Any, Any]] | None:
        """The mask and the two numbers of a call on a mask and constants; else None."""
        out = call.outputs[0]
        if not is_floating(out.dtype):
            return None
        if call.op is cast:
            (x,) = args
            drawn = isinstance(x, Term) and x.call is not None and x.call.op in MASKS
            return (x, np.array([0, 1], out.dtype)) if drawn else None  # type: ignore[return-value]
        masks = [self.known[a][0] for a in args if isinstance(a, Term) and a in self.known]
        if not call.op.elementwise or len(masks) != 1 or masks[0].shape != out.shape:
            return None
        both = [self.known[a][1] if a in self.known else _constant(a) for a in args]
        if any(b is None for b in both):
            return None
        with np.errstate(all="ignore"):
            return masks[0], np.asarray(forward(call.op, both, call.attrs), out.dtype)

    def _chosen(self, operand: Operand, build: Builder) -> Operand:
        if not isinstance(operand, Term) or operand not in self.known:
            return operand
        mask, both = self.known[operand]
        no, yes = (Term((), operand.dtype, source=Constant(np.array(n))) for n in both)
        chosen: Term = build.apply(where, (mask, yes, no))
        return chosen


def _constant(operand: Operand) -> Any:
    """A number, or the number of a constant with one element; else None."""
    if not isinstance(operand, Term):
        return operand
    known = isinstance(operand.source, Constant) and operand.size == 1
    return operand.source.array.reshape(()) if known else None  # type: ignore[union-attr]
