"""Loops: a fused kernel before it is written: which loops, which arrays, and what is computed.

The iteration space has kept dimensions (`outer`) and one or more dimensions of a `row`, the last
of which is vectorised; a columns kernel has `reduced` ones between them, and its row is kept. A
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


class Draw(NamedTuple):
    """The random number at the current indices. Its array is the state of a generator: what the
    strides count is not where it lies but how many elements of the draw come before."""

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


Step = Load | Pick | Given | Number | Position | Apply | Draw | Reduce | Store


@dataclass
class Loops:
    """A kernel: loops, arrays, steps. A step's number is the name of its value."""

    outer: tuple[int, ...]
    row: tuple[int, ...]
    reduced: tuple[int, ...] = ()  # of a columns kernel: summed over, between outer and row
    accesses: list[Access] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> int:
        """Append a step; its number."""
        self.steps.append(step)
        return len(self.steps) - 1

    @property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return any(isinstance(step, Reduce) for step in self.steps)

    def varies(self) -> list[bool]:
        """For each step whether its value changes along the row."""
        found: list[bool] = []
        first = len(self.outer)
        for step in self.steps:
            match step:
                case Load(access):
                    found.append(any(self.accesses[access].strides[first:]))
                case Pick(access, picked):
                    along = any(self.accesses[access].strides[first:])
                    found.append(along or any(found[p.index] for p in picked))
                case Position(dimension):
                    found.append(dimension >= first)
                case Apply(_, args):
                    found.append(any(found[a] for a in args))
                case Draw(access, _, args):
                    along = any(self.accesses[access].strides[first:])
                    found.append(along or any(found[a] for a in args))
                case Store(access, arg):
                    everywhere = any(self.accesses[access].strides[first:])
                    found.append(found[arg] or everywhere)
                case _:
                    found.append(False)
        return found

    def phases(self) -> list[int]:
        """For each step the pass over the row in which its value can first be had."""
        found: list[int] = []
        for step in self.steps:
            match step:
                case Apply(_, args) | Draw(_, _, args):
                    found.append(max((found[a] for a in args), default=0))
                case Pick(_, picked):
                    found.append(max(found[p.index] for p in picked))
                case Reduce(_, arg):
                    found.append(found[arg] + 1)
                case Store(_, arg):
                    found.append(found[arg])
                case _:
                    found.append(0)
        return found

    # -- what is written into a kernel's text, and what it reads when it runs --------------------

    @property
    def bakes_row(self) -> bool:
        """Whether the lengths of the row are part of the text: all but a plain stretch of memory,
        which may be of any length."""
        return bool(self.outer) or len(self.row) > 1 or bool(self.reduced) or self.reduces

    def sizes(self) -> tuple[int, ...]:
        """The numbers a kernel reads: lengths of all loops, strides of all arrays, then stride and
        length of every picked index, then what every draw skips."""
        picks = [
            number
            for step in self.steps
            if isinstance(step, Pick)
            for p in step.picked
            for number in (p.stride, p.length)
        ]
        strides = [s for a in self.accesses for s in a.strides]
        skips = [step.skip for step in self.steps if isinstance(step, Draw)]
        return (*self.outer, *self.reduced, *self.row, *strides, *picks, *skips)

    def size_of_stride(self, access: int, dimension: int) -> int:
        """The place of a stride among the sizes."""
        loops = len(self.outer) + len(self.reduced) + len(self.row)
        return loops * (1 + access) + dimension

    def size_of_pick(self, step: int, number: int) -> int:
        """The place of the stride of a picked index among the sizes; its length follows."""
        loops = len(self.outer) + len(self.reduced) + len(self.row)
        before = sum(len(s.picked) for s in self.steps[:step] if isinstance(s, Pick))
        return loops * (1 + len(self.accesses)) + 2 * (before + number)

    def size_of_skip(self, step: int) -> int:
        """The place of what a draw skips among the sizes."""
        picks = sum(len(s.picked) for s in self.steps if isinstance(s, Pick))
        before = sum(isinstance(s, Draw) for s in self.steps[:step])
        loops = len(self.outer) + len(self.reduced) + len(self.row)
        return loops * (1 + len(self.accesses)) + 2 * picks + before

    def draws_from_multiples_of(self, step: Draw) -> int:
        """The largest power of two, up to 64, that the number of a draw's element is a multiple of
        wherever the innermost loop is at a multiple of it."""
        numbers = [64, *self.accesses[step.access].strides[:-1]]
        common = math.gcd(*numbers)
        return common & -common

    def structure(self) -> Hashable:
        """All that the text of a kernel depends on: loops of one structure share their code."""
        # Which strides are 0 or 1 along the last two loops: lanes may lie along either.
        inner = len(self.outer) + len(self.reduced) + len(self.row) - 2
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
        # 0.0 and −0.0, 1 and 1.0 are equal to Python, and not the same in a text.
        exact = repr([s.attrs for s in self.steps if isinstance(s, (Apply, Draw))])
        return len(self.outer), len(self.reduced), row, accesses, steps, exact

    def _key(self, step: Step) -> Hashable:
        """All of a step but what the kernel reads when it runs."""
        match step:
            case Number(value, dtype):
                return Number, type(value), repr(value), dtype
            case Pick(access, picked, dtype):
                return Pick, access, tuple(p.index for p in picked), dtype
            case Draw():
                return step._replace(skip=0), self.draws_from_multiples_of(step)
        return type(step), step  # as tuples, steps of two kinds may be equal
