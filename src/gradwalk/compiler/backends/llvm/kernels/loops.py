"""LoopsBuilder: what the kernels of rows, short rows and columns share.

A kernel of loops goes through the steps of a loop nest (plan/loop_nest.py). Its text depends on the
structure of the loops alone; their lengths and strides are read when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.elementwise_table import emit
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, is_fast
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import (
    INT64,
    Type,
    Vector,
    counting,
    lanes_for,
    spread,
)
from gradwalk.compiler.ir import compiler_ops
from gradwalk.compiler.plan.loop_nest import (
    Apply,
    Load,
    Loops,
    Number,
    Position,
    Reduce,
    Step,
    Store,
)

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
    """A kernel of loops being written. A subclass says where in its arrays it is (`place`)."""

    mask: str | None = None  # of the lanes that exist at the current place

    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        super().__init__(len(loops.accesses))
        self.loops = loops
        self.steps = loops.steps
        self.varies = loops.varies()
        moving = [s.dtype for s in self.steps if not isinstance(s, (Store, Number))]
        self.lanes = lanes_for(moving, vector_bytes)  # of a full vector
        self.reductions = {k: s for k, s in enumerate(loops.steps) if isinstance(s, Reduce)}
        self.values: dict[int, Any] = {}  # of steps at the current place, once computed

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

    # -- the current place -------------------------------------------------------------------------

    def place(self, access: int) -> tuple[I64, I64]:
        """The offset of the current place in an array, and the distance of the lanes there."""
        raise NotImplementedError

    def position(self, dimension: int) -> Vector:
        """The index along a loop, for every lane."""
        raise NotImplementedError

    def value(self, k: int) -> Any:
        """The value of a step at the current place, in all lanes."""
        if k not in self.values:
            self.values[k] = self.compute(k, self.steps[k])
        return self.values[k]

    def compute(self, k: int, step: Step) -> Vector:
        """Write the value of a step."""
        match step:
            case Load(access, dtype):
                return self.load_access(access, dtype)
            case Number(value, dtype):
                return self.constant(Type(dtype, self.lanes), value)
            case Position(dimension):
                return self.position(dimension)
            case Apply(op, args, attrs, dtype) if op is compiler_ops.checked_index:
                return self.checked_index(self.value(args[0]), dict(attrs)["length"], self.mask)
            case Apply(op, args, attrs, dtype):
                steps = ((self.steps[i], i) for i in args)  # emitters see constants as numbers
                given = [s.value if isinstance(s, Number) else self.value(i) for s, i in steps]
                return emit(op, given, dict(attrs), dtype, self, self.lanes)
        raise TypeError(f"{step} has no value here")

    def identity(self, step: Reduce) -> Vector:
        """What a reduction starts from, in every lane."""
        return self.constant(Type(step.dtype, self.lanes), identity(step.how, step.dtype))

    def index(self, index: I64, along_lanes: bool) -> Vector:
        """An index in every lane; if lanes lie along the loop, that of the first."""
        first = spread(self, index, self.lanes)
        if not along_lanes or self.lanes == 1:
            return first
        return first + counting(self, Type(INT64.dtype, self.lanes))

    def load_access(self, access: int, dtype: np.dtype[Any]) -> Vector:
        """Load a vector of an array."""
        offset, stride = self.place(access)
        pointer = self.element(self.bases[access], self.loops.accesses[access].dtype, offset)
        return self.load_along(pointer, stride, Type(dtype, self.lanes), self.mask)

    def store_access(self, store: Store, value: Vector) -> None:
        """Store a vector in an array, to whose dtype it is converted."""
        offset, stride = self.place(store.access)
        dtype = self.loops.accesses[store.access].dtype
        pointer = self.element(self.bases[store.access], dtype, offset)
        self.store_along(value.to(dtype), pointer, stride, self.mask)


# -- reductions: what they start from, and how two parts become one --------------------------------


def combine(how: str, first: Vector, second: Vector) -> Vector:
    """Two parts of a reduction as one; a NaN stays."""
    match how:
        case "sum":
            return first + second
        case "prod":
            return first * second
        case "all":
            return first & second
        case "any":
            return first | second
    if first.type.is_float:
        return first.intrinsic("maximum" if how == "amax" else "minimum", second)
    return first.compare("gt" if how == "amax" else "lt", second).choose(first, second)


def identity(how: str, dtype: np.dtype[Any]) -> float:
    """What a reduction starts from, and what is in lanes beyond the end of a row."""
    if how in ("amax", "amin"):
        if dtype.kind == "f":
            return -math.inf if how == "amax" else math.inf
        if dtype.kind == "b":
            return how == "amin"
        limits = np.iinfo(dtype)
        return int(limits.min if how == "amax" else limits.max)
    # A sum starts from +0, as NumPy's does: of −0 alone it is 0.
    return {"sum": 0, "prod": 1, "all": True, "any": False}[how]
