"""Lowering: the calls of a group become steps of loops, terms from outside become accesses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM
from gradwalk.compiler.ir.program import Call, Constant, Term
from gradwalk.compiler.plan.buffers import Slice, Strides, fresh
from gradwalk.compiler.plan.fusion import FusionGroup
from gradwalk.compiler.plan.loop_kinds import (
    REDUCTIONS,
    Kind,
    is_native_convolution,
    kind_of,
    picking,
)
from gradwalk.compiler.plan.loop_nest import (
    Access,
    Apply,
    Given,
    Load,
    Loops,
    Number,
    Pick,
    Picked,
    Reduce,
    Sample,
    Store,
)
from gradwalk.ops.core.op import Shape
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape.reshaping import clone

Where = Callable[[Term], Slice]


def loops_of(group: FusionGroup, stored: Iterable[Term], where: Where) -> tuple[Loops, list[Slice]]:
    """The loops of a map, rows or columns group, and the arrays in the order of its accesses."""
    lowering = _Lowering(group.shape, where)
    for call in group.calls:
        lowering.call(call)
    for term in stored:
        lowering.store(term)
    loops = arranged(lowering.steps, group.shape, group.axes, group.kind)
    loops.fixed_sums = group.fixed_sums
    return loops, lowering.slices


@dataclass(eq=False)
class ProductSteps:
    """A matrix product or convolution and its epilogue: step 0 is the element of the product."""

    call: Call
    left: Slice
    right: Slice
    outputs: list[Slice]
    extras: list[Slice]
    loops: Loops  # its accesses are the extras, then the outputs, over the shape of the result


def product_of(group: FusionGroup, stored: Iterable[Term], where: Where) -> ProductSteps:
    """The product of a group, and what is done to its elements before they are stored."""
    (product,) = (call for call in group.calls if kind_of(call) is Kind.PRODUCT)
    left, right = product.terms
    lowering = _Lowering(group.shape, where)
    (out,) = product.outputs
    lowering.values[out] = lowering.steps.add(Given(out.dtype))
    for call in group.calls:
        if call is not product:
            lowering.call(call)
    extras = list(lowering.slices)
    for term in stored:
        lowering.store(term)
    outputs = lowering.slices[len(extras) :]
    return ProductSteps(product, where(left), where(right), outputs, extras, lowering.steps)


def copy_loops(source: Slice, target: Slice, summed: bool = False) -> tuple[Loops, list[Slice]]:
    """Loops that copy one array to another of the same shape; if `summed`, to one that has its
    first dimension added up."""
    axes, kind = ((0,), Kind.COLUMNS) if summed else ((), Kind.MAP)
    loops = Loops((), ())
    loops.accesses = [
        Access(source.dtype, source.strides),
        Access(target.dtype, (*(0 for _ in axes), *target.strides), written=True),
    ]
    value = loops.add(Load(0, source.dtype))
    if summed:
        value = loops.add(Reduce("sum", value, source.dtype))
    loops.add(Store(1, value))
    return arranged(loops, source.shape, axes, kind), [source, target]


def fill_loops(value: float, target: Slice) -> tuple[Loops, list[Slice]]:
    """Loops that write one number everywhere."""
    loops = Loops((), ())
    loops.accesses = [Access(target.dtype, target.strides, written=True)]
    loops.add(Store(0, loops.add(Number(value, target.dtype))))
    return arranged(loops, target.shape, (), Kind.MAP), [target]


class _Lowering:
    """Steps and accesses over the full shape of a group, before its loops are arranged."""

    def __init__(self, shape: Shape, where: Where) -> None:
        self.shape = shape
        self.where = where
        self.steps = Loops((), ())
        self.slices: list[Slice] = []
        self.values: dict[Term, int] = {}

    def call(self, call: Call) -> None:
        out = call.outputs[0]
        if call.op is clone:  # its copy is the store
            (x,) = call.terms
            self.values[out] = self.value(x)
            return
        if call.op in REDUCTIONS:
            (x,) = call.terms
            step: Any = Reduce(REDUCTIONS[call.op], self.value(x), out.dtype)
        elif call.op in (getitem, embedding_op):
            step = self._pick(call)
        elif call.op in ELEMENTWISE_RANDOM:
            step = self._draw(call)
        else:
            args = tuple(
                self.value(a) if isinstance(a, Term) else self.steps.add(Number(a, out.dtype))
                for a in call.args
            )
            step = Apply(call.op, args, tuple(call.attrs.items()), out.dtype)
        self.values[out] = self.steps.add(step)

    def _pick(self, call: Call) -> Pick:
        """x at indices that are loaded; loop dimensions are lead, indices, rest."""
        pick = picking(call)
        x, *arrays = call.args
        assert pick is not None and isinstance(x, Term)
        memory = self.where(x)
        lead, rest = pick.lead, len(x.shape) - pick.lead - pick.count
        picked = []
        for number, array in enumerate(arrays):
            assert isinstance(array, Term)
            strides = self.where(array).broadcast(pick.shape)
            access = self._add_access(array, (*(0,) * lead, *strides, *(0,) * rest))
            index = self.steps.add(Load(access, array.dtype))
            axis = lead + number
            picked.append(Picked(index, memory.strides[axis], x.shape[axis]))
        own = (
            *memory.strides[:lead],
            *(0,) * len(pick.shape),
            *memory.strides[lead + pick.count :],
        )
        return Pick(self._add_access(x, own), tuple(picked), x.dtype)

    def _draw(self, call: Call) -> Sample:
        """A random number; its strides count elements of the draw."""
        (out,) = call.outputs
        state, *others = call.terms
        args = tuple(self.value(t) for t in others)
        access = self._add_access(state, fresh(out).broadcast(self.shape))
        attrs = dict(call.attrs)
        skip = attrs.pop("skip")
        del attrs["shape"]
        return Sample(access, call.op, args, skip, tuple(attrs.items()), out.dtype)

    def value(self, term: Term) -> int:
        """The step that computes or loads a term."""
        known = self.values.get(term)
        if known is not None:
            return known
        source = term.source
        if isinstance(source, Constant) and source.array.size == 1:
            step = self.steps.add(Number(source.array.item(), term.dtype))
        else:
            step = self.steps.add(Load(self._access(term, False), term.dtype))
        self.values[term] = step
        return step

    def store(self, term: Term) -> None:
        """Add the store of a term."""
        self.steps.add(Store(self._access(term, True), self.values[term]))

    def _access(self, term: Term, written: bool) -> int:
        return self._add_access(term, self.where(term).broadcast(self.shape), written)

    def _add_access(self, term: Term, strides: Strides, written: bool = False) -> int:
        memory = self.where(term)
        self.slices.append(memory)
        self.steps.accesses.append(Access(memory.dtype, strides, written))
        return len(self.slices) - 1


def arranged(loops: Loops, shape: Shape, axes: tuple[int, ...], kind: Kind) -> Loops:
    """Put the loops in a good order: merge them where strides allow, the innermost along memory."""
    strides = [a.strides for a in loops.accesses]
    written = [a.strides for a in loops.accesses if a.written]
    kept = [i for i, n in enumerate(shape) if i not in axes and n != 1]
    summed = [i for i, n in enumerate(shape) if i in axes and n != 1]
    kept = _by_stride(kept, written + strides)
    summed = _by_stride(summed, strides)
    outer = _merged(kept, shape, strides)
    inner = _merged(summed, shape, strides)
    if kind is Kind.COLUMNS and outer:
        parts = (outer[:-1], inner or [(1, [0] * len(strides))], outer[-1:])
    elif axes:
        parts = (outer, [], inner)
    else:
        parts = (outer[:-1], [], outer[-1:])
    outer, reduced, row = parts
    order = [*outer, *reduced, *(row or [(1, [0] * len(strides))])]
    loops.accesses = [
        Access(a.dtype, tuple(s[k] for _, s in order), a.written)
        for k, a in enumerate(loops.accesses)
    ]
    loops.outer = tuple(n for n, _ in outer)
    loops.reduced = tuple(n for n, _ in reduced)
    loops.row = tuple(n for n, _ in row) or (1,)
    return loops


def _by_stride(axes: list[int], strides: list[Strides]) -> list[int]:
    """Axes by falling strides of the first array that tells them apart."""
    return sorted(axes, key=lambda axis: [-s[axis] for s in strides])


Loop = tuple[int, list[int]]  # length, and the stride of every access


def _merged(axes: list[int], shape: Shape, strides: list[Strides]) -> list[Loop]:
    """Merge neighbouring axes whose strides are those of one axis in every array."""
    merged: list[Loop] = []
    for axis in axes:
        steps = [s[axis] for s in strides]
        if merged:
            length, before = merged[-1]
            if all(b == s * shape[axis] for b, s in zip(before, steps, strict=True)):
                merged[-1] = (length * shape[axis], steps)
                continue
        merged.append((shape[axis], steps))
    return merged


def elements(loops: Loops) -> int:
    """How often the innermost steps run."""
    return math.prod((*loops.outer, *loops.reduced, *loops.row))


# -- sums over the batch that threads share --------------------------------------------------------


PARTS = 8  # fixed, and added up in order: results do not depend on the number of threads
SMALL = 1 << 16  # numbers up to which a copy of the sums for every part costs little


def joined(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of several dimensions merged into one; None if they cannot be merged."""
    long = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in itertools.pairwise(long):
        if outer != n * inner:
            return None
    return long[-1][1] if long else 1


def weight_parts(call: Call, x: Slice, y: Slice) -> int:
    """Into how many parts to cut the batch for the gradient of a convolution's weight: one if
    threads share the weight, because it is large, or if NumPy computes it."""
    native = is_native_convolution(call) and joined(y.shape[2:], y.strides[2:]) is not None
    small = call.outputs[0].size <= SMALL
    return min(x.shape[0], PARTS) if native and small else 1
