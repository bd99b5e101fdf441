"""From a group of calls to loops: every call becomes steps, every outside term an access."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call, Constant, Term
from gradwalk.compiler.ir.random_ops import ELEMENTWISE_DRAWS
from gradwalk.compiler.plan.buffers import Buffer, Place, Strides, contiguous_strides
from gradwalk.compiler.plan.fusion import Group
from gradwalk.compiler.plan.loop_kinds import REDUCTIONS, Kind, kind_of, picking
from gradwalk.compiler.plan.loop_nest import (
    Access,
    Apply,
    Draw,
    Given,
    Load,
    Loops,
    Number,
    Pick,
    Picked,
    Reduce,
    Store,
)
from gradwalk.ops.core.op import Shape
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape.reshaping import clone

Where = Callable[[Term], Place]


def loops_of(group: Group, stored: Iterable[Term], where: Where) -> tuple[Loops, list[Place]]:
    """The loops of a map, rows or columns group, and the arrays in the order of its accesses."""
    lowering = _Lowering(group.shape, where)
    for call in group.calls:
        lowering.call(call)
    for term in stored:
        lowering.store(term)
    return lowering.loops(group)


@dataclass(eq=False)
class ProductSteps:
    """A matrix product or convolution and its epilogue: step 0 is the product's own element, stores
    go to outputs."""

    call: Call
    left: Place
    right: Place
    outputs: list[Place]
    extras: list[Place]
    loops: Loops  # its accesses are the extras, then the outputs, over the shape of the result


def product_of(group: Group, stored: Iterable[Term], where: Where) -> ProductSteps:
    """The product of a group, and what is done to its elements before they are stored."""
    (product,) = (call for call in group.calls if kind_of(call)[0] is Kind.PRODUCT)
    left, right = product.args
    assert isinstance(left, Term) and isinstance(right, Term)
    lowering = _Lowering(group.shape, where)
    (out,) = product.outputs
    lowering.values[out] = lowering.found.add(Given(out.dtype))
    for call in group.calls:
        if call is not product:
            lowering.call(call)
    extras = list(lowering.places)
    for term in stored:
        lowering.store(term)
    outputs = lowering.places[len(extras) :]
    return ProductSteps(product, where(left), where(right), outputs, extras, lowering.found)


def copy_loops(source: Place, target: Place) -> tuple[Loops, list[Place]]:
    """Loops that copy one array to another of the same shape."""
    loops = Loops((), ())
    loops.accesses = [
        Access(source.dtype, source.strides),
        Access(target.dtype, target.strides, written=True),
    ]
    value = loops.add(Load(0, source.dtype))
    loops.add(Store(1, value))
    return arranged(loops, source.shape, (), Kind.MAP), [source, target]


def fill_loops(value: float, target: Place) -> tuple[Loops, list[Place]]:
    """Loops that write one number everywhere."""
    loops = Loops((), ())
    loops.accesses = [Access(target.dtype, target.strides, written=True)]
    loops.add(Store(0, loops.add(Number(value, target.dtype))))
    return arranged(loops, target.shape, (), Kind.MAP), [target]


def sum_loops(source: Place, target: Place) -> tuple[Loops, list[Place]]:
    """Loops that sum an array over its first dimension."""
    loops = Loops((), ())
    loops.accesses = [
        Access(source.dtype, source.strides),
        Access(target.dtype, (0, *target.strides), written=True),
    ]
    total = loops.add(Reduce("sum", loops.add(Load(0, source.dtype)), source.dtype))
    loops.add(Store(1, total))
    return arranged(loops, source.shape, (0,), Kind.COLUMNS), [source, target]


class _Lowering:
    """Steps and accesses over the full shape of a group, before its loops are put in order."""

    def __init__(self, shape: Shape, where: Where) -> None:
        self.shape = shape
        self.where = where
        self.found = Loops((), ())
        self.places: list[Place] = []
        self.values: dict[Term, int] = {}

    def call(self, call: Call) -> None:
        out = call.outputs[0]
        if call.op is clone:  # its copy is the store
            (x,) = call.args
            assert isinstance(x, Term)
            self.values[out] = self.value(x)
            return
        if call.op in REDUCTIONS:
            (x,) = call.args
            assert isinstance(x, Term)
            step: Any = Reduce(REDUCTIONS[call.op], self.value(x), out.dtype)
        elif call.op in (getitem, embedding_op):
            step = self._pick(call)
        elif call.op in ELEMENTWISE_DRAWS:
            step = self._draw(call)
        else:
            args = tuple(
                self.value(a) if isinstance(a, Term) else self.found.add(Number(a, out.dtype))
                for a in call.args
            )
            step = Apply(call.op, args, tuple(call.attrs.items()), out.dtype)
        self.values[out] = self.found.add(step)

    def _pick(self, call: Call) -> Pick:
        """x at indices that are loaded; loop dimensions are lead, indices, rest."""
        found = picking(call)
        x, *arrays = call.args
        assert found is not None and isinstance(x, Term)
        place = self.where(x)
        lead, rest = found.lead, len(x.shape) - found.lead - found.count
        picked = []
        for number, array in enumerate(arrays):
            assert isinstance(array, Term)
            strides = self.where(array).broadcast(found.shape)
            access = self._add_access(array, (*(0,) * lead, *strides, *(0,) * rest))
            index = self.found.add(Load(access, array.dtype))
            axis = lead + number
            picked.append(Picked(index, place.strides[axis], x.shape[axis]))
        own = (
            *place.strides[:lead],
            *(0,) * len(found.shape),
            *place.strides[lead + found.count :],
        )
        return Pick(self._add_access(x, own), tuple(picked), x.dtype)

    def _draw(self, call: Call) -> Draw:
        """A random number; its strides count elements of the draw."""
        (out,) = call.outputs
        state, *others = call.terms
        args = tuple(self.value(t) for t in others)
        counted = Place(Buffer(0), out.dtype, out.shape, contiguous_strides(out.shape))
        access = self._add_access(state, counted.broadcast(self.shape))
        attrs = dict(call.attrs)
        skip = attrs.pop("skip")
        del attrs["shape"]
        return Draw(access, call.op, args, skip, tuple(attrs.items()), out.dtype)

    def value(self, term: Term) -> int:
        """The step whose value a term is."""
        known = self.values.get(term)
        if known is not None:
            return known
        source = term.source
        if isinstance(source, Constant) and source.array.size == 1:
            found = self.found.add(Number(source.array.item(), term.dtype))
        else:
            found = self.found.add(Load(self._access(term, False), term.dtype))
        self.values[term] = found
        return found

    def store(self, term: Term) -> None:
        """Write a term to where it lives."""
        self.found.add(Store(self._access(term, True), self.values[term]))

    def _access(self, term: Term, written: bool) -> int:
        return self._add_access(term, self.where(term).broadcast(self.shape), written)

    def _add_access(self, term: Term, strides: Strides, written: bool = False) -> int:
        place = self.where(term)
        self.places.append(place)
        self.found.accesses.append(Access(place.dtype, strides, written))
        return len(self.places) - 1

    def loops(self, group: Group) -> tuple[Loops, list[Place]]:
        return arranged(self.found, self.shape, group.axes, group.kind), self.places


def arranged(loops: Loops, shape: Shape, axes: tuple[int, ...], kind: Kind) -> Loops:
    """The same with loops in a good order: merged where they can be, the innermost along memory."""
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
    """Axes in the order of falling strides of the first array that tells them apart."""

    def key(axis: int) -> list[int]:
        return [-s[axis] for s in strides]

    return sorted(axes, key=key)


Loop = tuple[int, list[int]]  # length, and the stride of every access


def _merged(axes: list[int], shape: Shape, strides: list[Strides]) -> list[Loop]:
    """Neighbouring axes that every array goes through as if they were one, as one."""
    found: list[Loop] = []
    for axis in axes:
        steps = [s[axis] for s in strides]
        if found:
            length, before = found[-1]
            if all(b == s * shape[axis] for b, s in zip(before, steps, strict=True)):
                found[-1] = (length * shape[axis], steps)
                continue
        found.append((shape[axis], steps))
    return found


def elements(loops: Loops) -> int:
    """How often the innermost steps run."""
    return int(np.prod([*loops.outer, *loops.reduced, *loops.row], dtype=np.int64))
