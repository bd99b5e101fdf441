"""Sorting rows: values in order, and where each came from. Equal elements keep their order, and a
NaN counts as the largest, as in NumPy.

Each thread takes some rows. Pieces of 32 elements are put in order by counting, for each element,
those that come before it: a comparison with all of them at once. Then pieces of 32, 64, ... are
merged to pieces twice as long, from one half of some scratch memory to the other and back:

    scratch of a thread: keys, keys, positions, positions

The few largest or smallest (top k) need no such thing: a list of the best so far is kept in order,
and most elements are not better than its last.

Arrays of the block: values, positions, x, scratch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    element_pointer,
    first_lanes,
    load,
    store,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.plan.buffers import Place

FEW = 128  # up to here the best are kept in a list
PIECE = 32  # elements whose order is found by counting
POSITIONS = np.dtype(np.int64)
Strides = tuple[int, ...]


@dataclass(frozen=True)
class Sort:
    """Loops over (others..., axis); `count` elements of each row are asked for."""

    dtype: np.dtype[Any]
    descending: bool
    count: int
    lengths: tuple[int, ...]  # of x
    strides: tuple[Strides, Strides, Strides]  # of values, positions and x

    @property
    def keeps_a_list(self) -> bool:
        """Whether only a few are looked for."""
        return self.count <= FEW and self.count * 8 <= self.lengths[-1]

    @property
    def scratch(self) -> int:
        """Bytes for each thread."""
        return 2 * self.room * (self.dtype.itemsize + POSITIONS.itemsize)

    @property
    def room(self) -> int:
        """Elements in each half of the scratch memory."""
        return -(-(self.count if self.keeps_a_list else self.lengths[-1]) // 8) * 8


def sort_of(places: list[Place], axis: int, descending: bool) -> Sort:
    """The loops of a sort along an axis, of values, positions and x."""
    values, _, x = places
    order = [i for i, n in enumerate(x.shape) if i != axis and n != 1] + [axis]
    strides = [tuple(p.strides[i] for i in order) for p in places]
    dtype = np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype
    lengths = tuple(x.shape[i] for i in order)
    return Sort(dtype, descending, values.shape[axis], lengths, tuple(strides))  # type: ignore[arg-type]


def sort_kernel(sort: Sort, vector_bytes: int) -> Kernel:
    """The kernel of a sort."""
    return _Sort(sort, vector_bytes).write()


class _Sort:
    def __init__(self, sort: Sort, vector_bytes: int) -> None:
        self.sort = sort
        self.f = KernelWriter(4)
        self.key = Kind(sort.dtype)
        self.lanes = min(vector_bytes // sort.dtype.itemsize, PIECE)

    def write(self) -> Kernel:
        f, sort = self.f, self.sort
        *others, self.length = [f.runtime(n) for n in sort.lengths]
        self.count = f.runtime(sort.count)
        rounds = f.runtime((-(-sort.lengths[-1] // PIECE) - 1).bit_length())
        strides = [[f.runtime(s) for s in each] for each in sort.strides]
        self.steps = [each[-1] for each in strides]
        own = f.multiply("%thread", f.runtime(sort.scratch))
        half = f.runtime(sort.room)
        scratch = f.set(f"getelementptr i8, ptr {f.bases[3]}, i64 {own}")
        keys = [scratch, element_pointer(f, scratch, sort.dtype, half)]
        places = [element_pointer(f, keys[1], sort.dtype, half)]
        places.append(element_pointer(f, places[0], POSITIONS, half))
        first, end = f.share(functools.reduce(f.multiply, others, "1"))
        with f.loop(first, end) as unit:
            row, at = unit.index, list[str]()
            for size in reversed(others):
                at.insert(0, f.set(f"urem i64 {row}, {size}"))
                row = f.set(f"udiv i64 {row}, {size}")
            starts = [f.add(*(f.multiply(i, s) for i, s in zip(at, each))) for each in strides]
            dtypes = (sort.dtype, POSITIONS, sort.dtype)
            self.rows = [
                element_pointer(f, base, dtype, start)
                for base, dtype, start in zip(f.bases, dtypes, starts, strict=False)
            ]
            if sort.keeps_a_list:
                self._keep(keys[0], places[0])
                found = (keys[0], places[0])
            else:
                self._count(keys, places[0])
                found = self._merge(rounds, keys, places)
            self._give(*found)
        return f.kernel()

    # -- elements --------------------------------------------------------------------------------

    def _at(self, base: str, index: str, kind: Kind) -> str:
        return element_pointer(self.f, base, kind.dtype, index)

    def _load(self, base: str, index: str) -> Value:
        return load(self.f, self._at(base, index, self.key), self.key)

    def _position(self, base: str, index: str) -> Value:
        kind = Kind(POSITIONS)
        return load(self.f, self._at(base, index, kind), kind)

    def _put(self, base: str, index: str, value: Value) -> None:
        store(self.f, value, self._at(base, index, value.kind))

    def _element(self, index: str) -> Value:
        """An element of the row of x."""
        return self._load(self.rows[2], self.f.multiply(index, self.steps[2]))

    def _before(self, first: Value, second: Value) -> Value:
        """Whether the first comes strictly before the second."""
        down = self.sort.descending
        found = first > second if down else first < second
        if not first.kind.is_float:
            return found
        large, other = (first, second) if down else (second, first)
        return found | (large.compare("ne", large) & other.compare("eq", other))

    def _each(self, count: str, body: Callable[[str], None]) -> None:
        with self.f.loop("0", count) as loop:
            body(loop.index)

    # -- all of a row ------------------------------------------------------------------------------

    def _count(self, keys: list[str], places: str) -> None:
        """Pieces in order: every element goes where the count of those before it says."""
        f = self.f
        self._each(self.length, lambda i: self._put(keys[1], i, self._element(i)))
        with f.loop("0", self.length, str(PIECE)) as piece:
            end = f.smaller(f.add(piece.index, str(PIECE)), self.length)
            left = f.set(f"sub i64 {end}, {piece.index}")
            with f.loop("0", left) as loop:
                position = f.add(piece.index, loop.index)
                element = self._load(keys[1], position)
                to = f.add(piece.index, self._rank(keys[1], piece.index, left, element, loop.index))
                self._put(keys[0], to, element)
                self._put(places, to, Value(f, Kind(POSITIONS), position))

    def _rank(self, keys: str, start: str, count: str, element: Value, number: str) -> str:
        """How many of a piece come before one of its elements: one bit for each."""
        f = self.f
        kind = Kind(self.sort.dtype, self.lanes)
        one = element.spread(self.lanes)
        before, after = "0", "0"
        for offset in range(0, PIECE, self.lanes):
            mask = first_lanes(f, f.set(f"sub i64 {count}, {offset}"), self.lanes)
            place = self._at(keys, f.add(start, str(offset)), self.key)
            others = load(f, place, kind, mask)
            there = Value(f, kind.of(np.bool_), mask)
            earlier = self._before(others, one) & there
            not_later = ~self._before(one, others) & there
            before, after = (
                f.set(f"or i64 {bits}, {self._bits(found, offset)}")
                for bits, found in ((before, earlier), (after, not_later))
            )
        below = f.set(f"sub i64 {f.set(f'shl i64 1, {number}')}, 1")  # of equal ones the first
        equal = f.set(f"and i64 {after}, {below}")
        return f.call("i64", "llvm.ctpop.i64", ("i64", f.set(f"or i64 {before}, {equal}")))

    def _bits(self, truth: Value, offset: int) -> str:
        """Truth values as bits of an i64, from this one on."""
        f, lanes = self.f, self.lanes
        bits = f.set(f"bitcast <{lanes} x i1> {truth.text} to i{lanes}")
        return f.set(f"shl i64 {f.set(f'zext i{lanes} {bits} to i64')}, {offset}")

    def _merge(self, rounds: str, keys: list[str], places: list[str]) -> tuple[str, str]:
        """Pieces merged to pieces twice as long; where the result is."""
        f = self.f
        carried = [("ptr", base) for base in (*keys, *places)]
        with f.loop("0", rounds, carried=carried) as turn:
            keys_from, keys_to, places_from, places_to = turn.carried
            self.source, self.target = (keys_from, places_from), (keys_to, places_to)
            width = f.set(f"shl i64 {PIECE}, {turn.index}")
            both = f.set(f"shl i64 {width}, 1")
            with f.loop("0", self.length, both) as piece:
                middle = f.smaller(f.add(piece.index, width), self.length)
                end = f.smaller(f.add(piece.index, both), self.length)
                self._merge_two(piece.index, middle, end)
            turn.carry(keys_to, keys_from, places_to, places_from)
        return turn.results[0], turn.results[2]

    def _merge_two(self, start: str, middle: str, end: str) -> None:
        f = self.f
        last = f.set(f"sub i64 {self.length}, 1")
        with f.loop(start, end, carried=[("i64", start), ("i64", middle)]) as loop:
            i, j = loop.carried
            left, right = (self._load(self.source[0], f.smaller(n, last)) for n in (i, j))
            before = self._before(right, left).text
            used_up = f.set(f"icmp sge i64 {i}, {middle}")
            wanted = f.set(f"or i1 {used_up}, {before}")
            there = f.set(f"icmp slt i64 {j}, {end}")
            takes = Value(f, Kind(np.dtype(np.bool_)), f.set(f"and i1 {there}, {wanted}"))
            place = f.set(f"select i1 {takes.text}, i64 {j}, i64 {i}")
            self._put(self.target[0], loop.index, takes.choose(right, left))
            self._put(self.target[1], loop.index, self._position(self.source[1], place))
            step = f.set(f"zext i1 {takes.text} to i64")
            stays = f.set(f"sub i64 1, {step}")
            loop.carry(f.add(i, stays), f.add(j, step))

    # -- only a few of a row -----------------------------------------------------------------------

    def _keep(self, keys: str, places: str) -> None:
        """Put every element that is better than the last of the list in its place there."""
        f = self.f
        last = f.set(f"sub i64 {self.count}, 1")
        # As long as the list is not full, what is behind its end is the first element of the row:
        # any number that may be read.
        self._each(self.count, lambda i: self._put(keys, i, self._element("0")))
        with f.loop("0", self.length) as loop:
            element = self._element(loop.index)
            better = self._before(element, self._load(keys, last)).text
            fills = f.set(f"icmp slt i64 {loop.index}, {self.count}")
            with f.when(f.set(f"or i1 {better}, {fills}")):
                self._insert(keys, places, element, loop.index)

    def _insert(self, keys: str, places: str, element: Value, position: str) -> None:
        """Go through the list with the element in hand, and from its place on with the one that was
        there."""
        f = self.f
        known = f.smaller(position, self.count)
        with f.loop("0", known, carried=[(self.key.text, element.text), ("i64", position)]) as loop:
            held = Value(f, self.key, loop.carried[0])
            held_place = Value(f, Kind(POSITIONS), loop.carried[1])
            here, here_place = self._load(keys, loop.index), self._position(places, loop.index)
            # One that came from further on never goes before an equal one.
            earlier = held_place < here_place
            same = ~self._before(here, held) & ~self._before(held, here)
            swaps = self._before(held, here) | (same & earlier)
            self._put(keys, loop.index, swaps.choose(held, here))
            self._put(places, loop.index, swaps.choose(held_place, here_place))
            loop.carry(swaps.choose(here, held).text, swaps.choose(here_place, held_place).text)
        with f.when(f.set(f"icmp slt i64 {known}, {self.count}")):
            self._put(keys, known, Value(f, self.key, loop.results[0]))
            self._put(places, known, Value(f, Kind(POSITIONS), loop.results[1]))

    # -- results -----------------------------------------------------------------------------------

    def _give(self, keys: str, places: str) -> None:
        def one(i: str) -> None:
            self._put(self.rows[0], self.f.multiply(i, self.steps[0]), self._load(keys, i))
            self._put(self.rows[1], self.f.multiply(i, self.steps[1]), self._position(places, i))

        self._each(self.count, one)
