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

from collections.abc import Sequence

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector
from gradwalk.compiler.plan.buffers import Slice

FEW = 128  # up to here the best are kept in a list
PIECE = 32  # elements whose order is found by counting
POSITIONS = np.dtype(np.int64)


def sort_kernel(places: Sequence[Slice], axis: int, descending: bool, vector_bytes: int) -> Kernel:
    """The kernel of a sort along an axis, of values, positions and x."""
    return _SortBuilder(places, axis, descending, vector_bytes).write()


class _SortBuilder(KernelBuilder):
    """Loops over (others..., axis); `count` elements of each row are asked for."""

    def __init__(
        self, places: Sequence[Slice], axis: int, descending: bool, vector_bytes: int
    ) -> None:
        super().__init__(4)
        self.descending = descending
        values, _, x = places
        order = [i for i, n in enumerate(x.shape) if i != axis and n != 1] + [axis]
        self.lengths = [x.shape[i] for i in order]
        self.all_strides = [[place.strides[i] for i in order] for place in places]
        self.wanted = values.shape[axis]
        self.key = Type(np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype)
        self.lanes = min(vector_bytes // self.key.dtype.itemsize, PIECE)

    def write(self) -> Kernel:
        dtype, longest = self.key.dtype, self.lengths[-1]
        keeps_a_list = self.wanted <= FEW and self.wanted * 8 <= longest
        room = (
            -(-(self.wanted if keeps_a_list else longest) // 8) * 8
        )  # in each half of the scratch
        scratch_bytes = 2 * room * (dtype.itemsize + POSITIONS.itemsize)
        *others, self.length = self.runtimes(*self.lengths)
        self.count, rounds = self.runtimes(self.wanted, (-(-longest // PIECE) - 1).bit_length())
        strides = [self.runtimes(*each) for each in self.all_strides]
        self.strides = [each[-1] for each in strides]  # along the axis
        own = self.multiply("%thread", self.runtime(scratch_bytes))
        half = self.runtime(room)
        scratch = self.pointer("i8", self.bases[3], own)
        keys = [scratch, self.element(scratch, dtype, half)]
        places = [self.element(keys[1], dtype, half)]
        places.append(self.element(places[0], POSITIONS, half))
        with self.loop(*self.share(self.multiply_all(others))) as unit:
            at = self.unravel(unit.index, others)
            self.rows = [
                self.element(base, kind, self.dot(at, each))
                for base, kind, each in zip(
                    self.bases, (dtype, POSITIONS, dtype), strides, strict=False
                )
            ]
            if keeps_a_list:
                self._keep(keys[0], places[0])
                self._give(keys[0], places[0])
            else:
                self._count_ranks(keys, places[0])
                self._give(*self._merge(rounds, keys, places))
        return self.kernel(scratch=scratch_bytes)

    # -- elements --------------------------------------------------------------------------------

    def _key(self, base: str, index: I64) -> Vector:
        return self.load(self.element(base, self.key.dtype, index), self.key)

    def _position(self, base: str, index: I64) -> Vector:
        return self.load(self.element(base, POSITIONS, index), INT64)

    def _put(self, base: str, index: I64, value: Vector) -> None:
        self.store(value, self.element(base, value.type.dtype, index))

    def _element(self, index: I64) -> Vector:
        """An element of the row of x."""
        return self._key(self.rows[2], self.multiply(index, self.strides[2]))

    def _before(self, first: Vector, second: Vector) -> Vector:
        """Whether the first comes strictly before the second."""
        down = self.descending
        before = first > second if down else first < second
        if not first.type.is_float:
            return before
        large, other = (first, second) if down else (second, first)
        return before | (large.compare("ne", large) & other.compare("eq", other))

    # -- all of a row ------------------------------------------------------------------------------

    def _count_ranks(self, keys: list[str], places: str) -> None:
        """Sort pieces: an element goes where the count of those before it says."""
        with self.loop(0, self.length) as loop:
            self._put(keys[1], loop.index, self._element(loop.index))
        with self.loop(0, self.length, PIECE) as piece:
            end = self.smaller(self.add(piece.index, PIECE), self.length)
            left = self.subtract(end, piece.index)
            with self.loop(0, left) as loop:
                position = self.add(piece.index, loop.index)
                element = self._key(keys[1], position)
                rank = self._rank(keys[1], piece.index, left, element, loop.index)
                to = self.add(piece.index, rank)
                self._put(keys[0], to, element)
                self._put(places, to, Vector(self, INT64, position))

    def _rank(self, keys: str, start: I64, count: I64, element: Vector, number: I64) -> str:
        """How many of a piece come before one of its elements: one bit for each."""
        kind = Type(self.key.dtype, self.lanes)
        one = element.spread(self.lanes)
        before: I64 = 0
        after: I64 = 0
        for offset in range(0, PIECE, self.lanes):
            mask = self.first_lanes(self.subtract(count, offset), self.lanes)
            others = self.load(self.element(keys, kind.dtype, start, offset), kind, mask)
            there = Vector(self, kind.of(np.bool_), mask)
            earlier = self._before(others, one) & there
            not_later = ~self._before(one, others) & there
            before, after = (
                self.set(f"or i64 {bits}, {self._bits(truth, offset)}")
                for bits, truth in ((before, earlier), (after, not_later))
            )
        # Of equal ones the first.
        below = self.set(f"sub i64 {self.set(f'shl i64 1, {number}')}, 1")
        equal = self.set(f"and i64 {after}, {below}")
        return self.call("i64", "llvm.ctpop.i64", ("i64", self.set(f"or i64 {before}, {equal}")))

    def _bits(self, truth: Vector, offset: int) -> str:
        """Truth values as bits of an i64, from this one on."""
        lanes = self.lanes
        bits = self.set(f"bitcast <{lanes} x i1> {truth.text} to i{lanes}")
        return self.set(f"shl i64 {self.set(f'zext i{lanes} {bits} to i64')}, {offset}")

    def _merge(self, rounds: str, keys: list[str], places: list[str]) -> tuple[str, str]:
        """Merge pieces to pieces twice as long; return where the result is."""
        carried = [("ptr", base) for base in (*keys, *places)]
        with self.loop(0, rounds, carried=carried) as turn:
            keys_from, keys_to, places_from, places_to = turn.carried
            self.source, self.target = (keys_from, places_from), (keys_to, places_to)
            width = self.set(f"shl i64 {PIECE}, {turn.index}")
            both = self.set(f"shl i64 {width}, 1")
            with self.loop(0, self.length, both) as piece:
                middle = self.smaller(self.add(piece.index, width), self.length)
                end = self.smaller(self.add(piece.index, both), self.length)
                self._merge_two(piece.index, middle, end)
            turn.carry(keys_to, keys_from, places_to, places_from)
        return turn.results[0], turn.results[2]

    def _merge_two(self, start: I64, middle: I64, end: I64) -> None:
        last = self.subtract(self.length, 1)
        with self.loop(start, end, carried=[("i64", start), ("i64", middle)]) as loop:
            i, j = loop.carried
            left, right = (self._key(self.source[0], self.smaller(n, last)) for n in (i, j))
            before = self._before(right, left).text
            used_up = self.compare("sge", i, middle)
            wanted = self.set(f"or i1 {used_up}, {before}")
            there = self.compare("slt", j, end)
            takes = Vector(self, Type(np.dtype(np.bool_)), self.set(f"and i1 {there}, {wanted}"))
            place = self.select(takes.text, "i64", j, i)
            self._put(self.target[0], loop.index, takes.choose(right, left))
            self._put(self.target[1], loop.index, self._position(self.source[1], place))
            step = self.set(f"zext i1 {takes.text} to i64")
            loop.carry(self.add(i, self.subtract(1, step)), self.add(j, step))

    # -- only a few of a row -----------------------------------------------------------------------

    def _keep(self, keys: str, places: str) -> None:
        """Put every element that is better than the last of the list in its place there."""
        last = self.subtract(self.count, 1)
        # As long as the list is not full, what is behind its end is the first element of the row:
        # any number that may be read.
        with self.loop(0, self.count) as loop:
            self._put(keys, loop.index, self._element(0))
        with self.loop(0, self.length) as loop:
            element = self._element(loop.index)
            better = self._before(element, self._key(keys, last)).text
            fills = self.compare("slt", loop.index, self.count)
            with self.when(self.set(f"or i1 {better}, {fills}")):
                self._insert(keys, places, element, loop.index)

    def _insert(self, keys: str, places: str, element: Vector, position: I64) -> None:
        """Go through the list with the element, and from its place on with the one it displaces."""
        known = self.smaller(position, self.count)
        start = [element, Vector(self, INT64, position)]
        with self.loop(0, known, carried=start) as loop:
            held, held_place = loop.carried
            here, here_place = self._key(keys, loop.index), self._position(places, loop.index)
            # One that came from further on never goes before an equal one.
            earlier = held_place < here_place
            same = ~self._before(here, held) & ~self._before(held, here)
            swaps = self._before(held, here) | (same & earlier)
            self._put(keys, loop.index, swaps.choose(held, here))
            self._put(places, loop.index, swaps.choose(held_place, here_place))
            loop.carry(swaps.choose(here, held), swaps.choose(here_place, held_place))
        with self.when(self.compare("slt", known, self.count)):
            for base, last in zip((keys, places), loop.results, strict=True):
                self._put(base, known, last)

    # -- results -----------------------------------------------------------------------------------

    def _give(self, keys: str, places: str) -> None:
        with self.loop(0, self.count) as loop:
            i = loop.index
            to_value, to_position = (self.multiply(i, stride) for stride in self.strides[:2])
            self._put(self.rows[0], to_value, self._key(keys, i))
            self._put(self.rows[1], to_position, self._position(places, i))
