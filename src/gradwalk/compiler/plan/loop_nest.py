"""Loops: a fused kernel before code is emitted: its loops, its arrays, and what it computes.

The iteration space has kept dimensions (`outer`) and one or more dimensions of a `row`, the last
of which is vectorized; a columns kernel has `reduced` ones between them, and its row is kept. A
value either *varies* along the row or is one number per row: what is loaded with stride 0 along it,
the result of a reduction, and what is computed from such numbers.

    outer (768,)  row (128,)
      0  load   x
      1  reduce sum 0
      2  apply  div 1, 128.0
      3  apply  sub 0, 2
      4  store  3 -> out
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradwalk.ops.core.op import Op

Strides = tuple[int, ...]


class Access(NamedTuple):
    """One array of a kernel: its dtype, and its strides in elements over all loops."""

    dtype: np.dtype[Any]
    strides: Strides
    written: bool = False


class Load(NamedTuple):
    """The element of an array at the current indices."""

    access: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Picked:
    """One index of a pick: the value that gives it, the stride and the length it counts in."""

    index: int
    stride: int
    length: int


class Pick(NamedTuple):
    """The element of an array at the current indices and at indices that were loaded."""

    access: int
    picked: tuple[Picked, ...]
    dtype: np.dtype[Any]


class Given(NamedTuple):
    """The element that a product has computed, in the epilogue of its kernel."""

    dtype: np.dtype[Any]


class Number(NamedTuple):
    """A constant."""

    value: float | int | bool
    dtype: np.dtype[Any]


class Position(NamedTuple):
    """The index along one of the loops (outer first), as int64."""

    dimension: int
    dtype: np.dtype[Any] = np.dtype(np.int64)


class Apply(NamedTuple):
    """An elementwise op on earlier values."""

    op: Op
    args: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]
    dtype: np.dtype[Any]


class Sample(NamedTuple):
    """The random number at the current indices. Its array is the state of a generator; its strides
    count the elements of the draw that come before."""

    access: int
    op: Op
    args: tuple[int, ...]  # the probability, where each element has its own
    skip: int  # blocks from the offset of the state to the draw's first
    attrs: tuple[tuple[str, Any], ...]
    dtype: np.dtype[Any]


class Reduce(NamedTuple):
    """All values along the row as one: `how` is sum, amax, amin, all, any or prod."""

    how: str
    arg: int
    dtype: np.dtype[Any]


class Store(NamedTuple):
    """Write a value to an array at the current indices."""

    access: int
    arg: int


Step = Load | Pick | Given | Number | Position | Apply | Sample | Reduce | Store


def operands_of(step: Step) -> tuple[int, ...]:
    """The steps whose values a step uses."""
    match step:
        case Apply(_, args) | Sample(_, _, args):
            return args
        case Pick(_, picked):
            return tuple(p.index for p in picked)
        case Reduce(_, arg) | Store(_, arg):
            return (arg,)
    return ()


class SumOrder(NamedTuple):
    """All that the order of additions along a row may depend on, besides the row itself."""

    body: int  # steps whose value varies along the row
    width: int  # bytes of the widest of these values
    side: int  # the length of the innermost outer loop


@dataclass
class Loops:
    """A kernel: loops, arrays, steps. A step's number is the name of its value."""

    outer: tuple[int, ...]
    row: tuple[int, ...]
    reduced: tuple[int, ...] = ()  # of a columns kernel: summed over, between outer and row
    accesses: list[Access] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    fixed_sums: SumOrder | None = None  # of a kernel whose other work has changed since

    def add(self, step: Step) -> int:
        """Append a step; return its number."""
        self.steps.append(step)
        return len(self.steps) - 1

    @property
    def _depth(self) -> int:
        return len(self.outer) + len(self.reduced) + len(self.row)

    @property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return any(isinstance(step, Reduce) for step in self.steps)

    def varies(self) -> list[bool]:
        """For each step whether its value changes along the row."""
        varies: list[bool] = []
        for step in self.steps:
            along = any(varies[k] for k in operands_of(step)) and not isinstance(step, Reduce)
            match step:
                case Load(access) | Pick(access) | Sample(access) | Store(access):
                    along |= any(self.accesses[access].strides[len(self.outer) :])
                case Position(dimension):
                    along = dimension >= len(self.outer)
            varies.append(along)
        return varies

    def sum_order(self) -> SumOrder:
        """The order of its sums: two kernels with the same row and order round them alike."""
        if self.fixed_sums is not None:
            return self.fixed_sums
        varying = [step for step, along in zip(self.steps, self.varies(), strict=True) if along]
        dtypes = [step.dtype for step in varying if not isinstance(step, Store)]
        width = max((d.itemsize for d in dtypes if d.kind != "b"), default=4)
        return SumOrder(len(varying), width, self.outer[-1] if self.outer else 1)

    def phases(self) -> list[int]:
        """For each step the first pass over the row in which its value is known."""
        phases: list[int] = []
        for step in self.steps:
            before = max((phases[k] for k in operands_of(step)), default=0)
            phases.append(before + isinstance(step, Reduce))
        return phases

    # -- what is part of a kernel's code, and what it reads when it runs ---------------------------

    @property
    def bakes_row(self) -> bool:
        """Whether the lengths of the row are part of the code: always, unless the kernel runs over
        contiguous memory of any length."""
        return bool(self.outer) or len(self.row) > 1 or bool(self.reduced) or self.reduces

    def sizes(self) -> tuple[int, ...]:
        """The numbers a kernel reads: the lengths of all loops, the strides of all arrays, the
        stride and length of every picked index, the blocks that every draw skips."""
        picks = [
            number
            for step in self.steps
            if isinstance(step, Pick)
            for p in step.picked
            for number in (p.stride, p.length)
        ]
        strides = [s for a in self.accesses for s in a.strides]
        skips = [step.skip for step in self.steps if isinstance(step, Sample)]
        return (*self.outer, *self.reduced, *self.row, *strides, *picks, *skips)

    def size_of_stride(self, access: int, dimension: int) -> int:
        """The position of a stride among the sizes."""
        return self._depth * (1 + access) + dimension

    def size_of_pick(self, step: int, number: int) -> int:
        """The position of the stride of a picked index among the sizes; its length follows."""
        before = sum(len(s.picked) for s in self.steps[:step] if isinstance(s, Pick))
        return self.size_of_stride(len(self.accesses), 2 * (before + number))

    def size_of_skip(self, step: int) -> int:
        """The position of the blocks that a draw skips among the sizes."""
        picks = sum(len(s.picked) for s in self.steps if isinstance(s, Pick))
        before = sum(isinstance(s, Sample) for s in self.steps[:step])
        return self.size_of_stride(len(self.accesses), 2 * picks + before)

    def draws_from_multiples_of(self, step: Sample) -> int:
        """The largest power of two, up to 64, that divides the number of a draw's element wherever
        it divides the index of the innermost loop."""
        numbers = [64, *self.accesses[step.access].strides[:-1]]
        common = math.gcd(*numbers)
        return common & -common

    def structure(self) -> Hashable:
        """All that the code of a kernel depends on: loops of one structure share it."""
        # Which strides are 0 or 1 along the last two loops: lanes may run along either.
        inner = self._depth - 2
        accesses = tuple(
            (
                a.dtype.str,
                a.written,
                tuple(
                    s if s == 0 or (s == 1 and d >= inner) else None
                    for d, s in enumerate(a.strides)
                ),
            )
            for a in self.accesses
        )
        row = self.row if self.bakes_row else None
        steps = tuple(map(self._key, self.steps))
        # 0.0 and −0.0, 1 and 1.0 are equal in Python, and differ in the code.
        exact = repr([s.attrs for s in self.steps if isinstance(s, (Apply, Sample))])
        return len(self.outer), len(self.reduced), row, accesses, steps, exact, self.fixed_sums

    def _key(self, step: Step) -> Hashable:
        """All of a step but what the kernel reads when it runs."""
        match step:
            case Number(value, dtype):
                return Number, type(value), repr(value), dtype
            case Pick(access, picked, dtype):
                return Pick, access, tuple(p.index for p in picked), dtype
            case Sample():
                return step._replace(skip=0), self.draws_from_multiples_of(step)
        return type(step), step  # as tuples, steps of two kinds may be equal
