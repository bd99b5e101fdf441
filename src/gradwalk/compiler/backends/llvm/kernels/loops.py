"""LoopsBuilder: what the kernels of rows, short rows and columns share.

A kernel of loops goes through the steps of a loop nest (plan/loop_nest.py). Its text depends on the
structure of the loops alone; their lengths and strides are read when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import identity
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, is_fast
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector, counting, spread
from gradwalk.compiler.plan.loop_nest import Apply, Loops, Number, Reduce

_written: dict[Hashable, Kernel] = {}


def loops_kernel(builder: type[LoopsBuilder], loops: Loops, vector_bytes: int) -> Kernel:
    """The kernel of some loops; one of the same structure is not written again."""
    key = (builder, loops.structure(), vector_bytes, is_fast())
    known = _written.get(key)
    if known is None:
        if len(_written) >= 4096:  # of all programs of this process
            _written.clear()
        known = _written[key] = builder(loops, vector_bytes).write()
    return known._replace(sizes=loops.sizes())


class LoopsBuilder(KernelBuilder):
    """A kernel of loops being written."""

    lanes: int  # of a full vector

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(len(loops.accesses))
        self.loops = loops
        self.steps = loops.steps

    def write(self) -> Kernel:
        """The kernel."""
        raise NotImplementedError

    def read_strides(self, vectorized: int) -> list[list[I64]]:
        """Strides of every access: 0, and 1 along the vectorized loop, are written into the text;
        the others are read."""
        return [
            [
                s
                if s == 0 or (s == 1 and d == vectorized)
                else self.size(self.loops.size_of_stride(k, d))
                for d, s in enumerate(access.strides)
            ]
            for k, access in enumerate(self.loops.accesses)
        ]

    def outer_sizes(self) -> list[I64]:
        """The lengths of the outer loops."""
        return [self.size(d) for d in range(len(self.loops.outer))]

    # -- steps -------------------------------------------------------------------------------------

    def apply(
        self, step: Apply, value: Callable[[int], Vector], lanes: int, mask: str | None = None
    ) -> Vector:
        """An op on the values of earlier steps; an emitter sees a constant as a Python number."""
        given = [a.value if isinstance(a := self.steps[i], Number) else value(i) for i in step.args]
        return self.apply_op(step.op, given, dict(step.attrs), step.dtype, lanes, mask)

    def identity(self, step: Reduce) -> Vector:
        """What a reduction starts from, in every lane."""
        kind = Type(step.dtype, self.lanes)
        return Vector(self, kind, kind.constant(identity(step.how, step.dtype)))

    def position(self, index: I64, along_lanes: bool) -> Vector:
        """The index along a loop, for every lane."""
        first = spread(self, index, self.lanes)
        if not along_lanes or self.lanes == 1:
            return first
        return first + counting(self, Type(INT64.dtype, self.lanes))

    def load_access(
        self, access: int, dtype: np.dtype[Any], offset: I64, stride: I64, mask: str | None
    ) -> Vector:
        """Load a vector of an array, whose lanes are `stride` apart."""
        pointer = self.element(self.bases[access], self.loops.accesses[access].dtype, offset)
        return self.load_along(pointer, stride, Type(dtype, self.lanes), mask)

    def store_access(
        self, access: int, value: Vector, offset: I64, stride: I64, mask: str | None
    ) -> None:
        """Store a vector in an array, in whose dtype it is converted."""
        dtype = self.loops.accesses[access].dtype
        pointer = self.element(self.bases[access], dtype, offset)
        self.store_along(value.to(dtype), pointer, stride, mask)


def reductions_of(steps: Sequence[object]) -> dict[int, Reduce]:
    """The reductions among some steps, by number."""
    return {k: step for k, step in enumerate(steps) if isinstance(step, Reduce)}
