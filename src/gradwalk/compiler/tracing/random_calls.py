"""Random numbers in traced functions: every draw is a call of an op (compiler/ir/compiler_ops.py).

The state of a generator is captured memory, updated once at the end. So a program draws what eager
code would have drawn, and the next call, compiled or not, goes on from there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.capture.locations import GeneratorLocation
from gradwalk.compiler.ir.compiler_ops import (
    random_bernoulli,
    random_bernoulli_each,
    random_exponential,
    random_integers,
    random_normal,
    random_permutation,
    random_uniform,
)
from gradwalk.compiler.ir.program import Constant, Term
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.ops.core.dtypes import int64
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.arithmetic import add

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


class TracedStream:
    """A random.Stream whose draws are calls."""

    is_pytorchs = False

    def __init__(self, tracer: Tracer, generator: Any) -> None:
        if generator.like != "gradwalk":
            raise untraceable(
                "PyTorch's random numbers inside a compiled function: that generator keeps a state "
                "of thousands of numbers, and compiled code draws from a counter.",
                "manual_seed(seed, like='gradwalk').",
            )
        self.tracer = tracer
        self.state = tracer.random_state(GeneratorLocation(generator))
        self.entry = self.state.term
        self.blocks = 0  # drawn so far

    def _draw(self, op: Op, size: Any, kind: Any, *operands: Any, **attrs: Any) -> Traced:
        """One draw of a kind of number: an element of 64 bits takes a word of the stream, others
        half a word; four words are a block."""
        shape = tuple(int(n) for n in size)
        count = math.prod(shape)
        if op is random_normal:  # it draws pairs
            count += count % 2
        words = count if np.dtype(kind).itemsize == 8 else (count + 1) // 2
        attrs = {"skip": self.blocks, "shape": shape, **attrs}
        self.blocks += -(-words // 4)
        operands = (Traced(self.tracer, self.entry), *operands)
        drawn: Traced = self.tracer.compute(op, operands, attrs)
        self._advance()
        return drawn

    def _advance(self) -> None:
        """Move the captured state behind the blocks drawn so far."""
        after = np.array([0, self.blocks], np.int64)
        constant = Term((2,), int64, source=Constant(after))
        self.state.assign(self.tracer.call(add, [self.entry, constant], {}))

    def uniform(self, size: Any, dtype: Any, low: float = 0.0, high: float = 1.0) -> Traced:
        """Uniform from `low` to below `high`."""
        return self._draw(random_uniform, size, dtype, dtype=np.dtype(dtype), low=low, high=high)

    def normal(self, size: Any, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Traced:
        """Normal."""
        return self._draw(random_normal, size, dtype, dtype=np.dtype(dtype), mean=mean, std=std)

    def exponential(self, size: Any, dtype: Any) -> Traced:
        """Exponential of rate 1."""
        return self._draw(random_exponential, size, dtype, dtype=np.dtype(dtype))

    def bernoulli(self, p: Any, size: Any) -> Traced:
        """True with probability p."""
        if hasattr(p, "shape"):
            return self._draw(random_bernoulli_each, size, np.float32, p)
        return self._draw(random_bernoulli, size, np.float32, p=float(p))

    def integers(self, low: int, high: int, size: Any) -> Traced:
        """Whole numbers from `low` to below `high`."""
        return self._draw(random_integers, size, int64, low=low, high=high)

    def permutation(self, n: int) -> Traced:
        """0 to n − 1 in random order."""
        return self._draw(random_permutation, (n,), int64)

    def get_state(self) -> dict[str, Any]:
        """How far it is, for `set_state` in the same trace."""
        return {"blocks": self.blocks}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to where `get_state` was called (a checkpointed region draws again)."""
        if "blocks" not in state:
            self.tracer.refuse("set_rng_state", "set it outside.")
        self.blocks = state["blocks"]
        self._advance()
