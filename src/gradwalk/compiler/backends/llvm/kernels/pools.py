"""Pooling: windows of an image, one output each, in vectors along the last dimension.

    max_pool_indices   where the largest of every window lies
    pool_sum           the sum of every window
    pool_spread        its transpose: every pixel gets the sum of the windows it is in

Every pooling is written with three spatial dimensions; missing ones come first and have size 1.
Arrays are (lead, *size) and (lead, *out) with the last dimension contiguous; threads share rows,
that is (lead, all but the last dimension).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import (
    INT64,
    Type,
    Vector,
    counting,
    pairs,
    renamed,
    spread,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import Triple

Strides = tuple[int, int, int]  # over lead and the first two spatial dimensions

UNROLLED = 16  # places of a window up to which they are written one by one


@dataclass(frozen=True)
class Windows:
    """Sizes and strides of a pooling; what is not a size or a stride is written into the text."""

    dtype: np.dtype[Any]
    lead: int
    size: Triple
    out: Triple
    kernel: Triple
    stride: Triple
    dilation: Triple
    before: Triple
    x: Strides
    y: Strides

    def reaches_out(self, dimension: int) -> bool:
        """Whether some window has places outside of x along this dimension."""
        d = dimension
        last = (self.out[d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d]
        return self.before[d] > 0 or last - self.before[d] >= self.size[d]


def max_pool_kernel(windows: Windows, vector_bytes: int) -> Kernel:
    """Arrays: the indices (int64), x. The indices count in the flattened size; of equal numbers the
    first wins, of NaNs the last."""
    f = _PoolBuilder(windows, vector_bytes)
    number = f.vector.of(np.int32 if windows.dtype.itemsize == 4 else np.int64)

    def vector(row: _Row, start: str, mask: str) -> None:
        lowest = Vector(f, f.vector, f.vector.constant(-math.inf))

        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            best, chosen = carried
            pixel, inside = f.read(row, start, inner, mask)
            if inside is not None:
                pixel = inside.choose(pixel, lowest)
            better = (pixel > best) | pixel.compare("ne", pixel)
            index = f.index_of(row, start, inner, number)
            return [better.choose(pixel, best), better.choose(index, chosen)]

        _, chosen = f.over_places([lowest, f.first_inside(row, start, number)], place)
        target = f.element(f.bases[0], INT64.dtype, f.offset(f.y, row, start))
        f.store(chosen.to(np.int64), target, mask)

    f.over_rows(windows.out, f.outputs, vector)
    return f.kernel()


def pool_sum_kernel(windows: Windows, vector_bytes: int) -> Kernel:
    """Arrays: the sums, x."""
    f = _PoolBuilder(windows, vector_bytes)

    def vector(row: _Row, start: str, mask: str) -> None:
        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            pixel, _ = f.read(row, start, inner, mask)
            return [carried[0] + pixel]

        f.store_sum(f.y, row, start, place, mask)

    f.over_rows(windows.out, f.outputs, vector)
    return f.kernel()


def pool_spread_kernel(windows: Windows, vector_bytes: int) -> Kernel:
    """Arrays: the array of pixels, that of the windows."""
    f = _PoolBuilder(windows, vector_bytes)

    def vector(row: _Row, start: str, mask: str) -> None:
        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            windows_row, exists = f.row_of_windows(row, inner)
            times = f.set(f"zext i1 {exists} to i64")
            with f.loop(0, times, carried=pairs(carried)) as once:
                (total,) = renamed(carried, once.carried)
                once.carry((total + f.read_windows(windows_row, start, inner[2])).text)
            return renamed(carried, once.results)

        f.store_sum(f.x, row, start, place, mask)

    f.over_rows(windows.size, f.pixels, vector)
    return f.kernel()


_Row = tuple[I64, I64, I64]  # lead, and the first two spatial indices
_Inner = tuple[I64, I64, I64]  # a place in the window
_AtPlace = Callable[[list[Vector], _Inner], list[Vector]]


class _PoolBuilder(KernelBuilder):
    """A kernel over windows being written; `start` is the first column of a vector."""

    def __init__(self, windows: Windows, vector_bytes: int) -> None:
        super().__init__(2)
        self.windows = windows
        self.vector = Type(windows.dtype, vector_bytes // windows.dtype.itemsize)
        self.lane_index = Type(INT64.dtype, self.vector.lanes)
        self.pixels = [self.runtime(n) for n in windows.size]
        self.outputs = [self.runtime(n) for n in windows.out]
        self.x = [self.runtime(s) for s in windows.x]
        self.y = [self.runtime(s) for s in windows.y]

    # -- loops -------------------------------------------------------------------------------------

    def over_rows(
        self, size: Triple, counts: list[str], vector: Callable[[_Row, str, str], None]
    ) -> None:
        """All vectors of an array of this size, whose lengths are `counts`."""
        lanes = self.vector.lanes
        with self.loop(*self.share(self.runtime(self.windows.lead * size[0] * size[1]))) as unit:
            lead, second = self.divide(unit.index, counts[1])
            first: I64 = 0
            if size[0] > 1:
                lead, first = self.divide(lead, counts[0])
            with self.loop(0, counts[2], lanes) as column:
                left = self.subtract(counts[2], column.index)
                mask = self.first_lanes(left, lanes)
                vector((lead, first, second), column.index, mask)

    def over_places(self, carried: list[Vector], place: _AtPlace) -> list[Vector]:
        """The places of a window in order; `place` returns what the carried values become."""
        kernel = self.windows.kernel
        if math.prod(kernel) <= UNROLLED:
            for a, b, c in np.ndindex(*kernel):
                carried = place(carried, (a, b, c))
            return carried

        def nest(carried: list[Vector], *inner: I64) -> list[Vector]:
            if len(inner) == 3:
                a, b, c = inner
                return place(carried, (a, b, c))
            with self.loop(0, kernel[len(inner)], carried=pairs(carried)) as loop:
                after = nest(renamed(carried, loop.carried), *inner, loop.index)
                loop.carry(*(v.text for v in after))
            return renamed(carried, loop.results)

        return nest(carried)

    def store_sum(
        self, strides: list[str], row: _Row, start: str, place: _AtPlace, mask: str
    ) -> None:
        """Store what `place` adds up over the places of a window in the first array."""
        zero = Vector(self, self.vector, self.vector.constant(0))
        (total,) = self.over_places([zero], place)
        offset = self.offset(strides, row, start)
        self.store(total, self.element(self.bases[0], self.windows.dtype, offset), mask)

    # -- where things are --------------------------------------------------------------------------

    def offset(self, strides: list[str], row: _Row, column: I64) -> I64:
        """The offset of an element of x or y."""
        return self.add(self.dot(row, strides), column)

    def _pixel(self, dimension: int, output: I64, inner: I64) -> I64:
        """output · stride + inner · dilation − before, of one dimension."""
        w = self.windows
        moved = self.multiply(output, w.stride[dimension])
        place = self.multiply(inner, w.dilation[dimension])
        return self.add(moved, place, -w.before[dimension])

    def _inside(self, pixel: I64, size: str) -> str:
        """0 ≤ pixel < size, as an i1: one unsigned comparison."""
        return self.set(f"icmp ult i64 {pixel}, {size}")

    def _spread(self, number: I64, kind: Type) -> Vector:
        """An i64 in every lane, as this type."""
        return Vector(self, INT64, number).to(kind.dtype).spread(kind.lanes)

    def index_of(self, row: _Row, start: str, inner: _Inner, number: Type) -> Vector:
        """The flattened index of a place, for every lane."""
        outputs = (*row[1:], start)
        pixels = [self._pixel(d, outputs[d], inner[d]) for d in range(3)]
        return self._flattened(pixels[:2], number) + self._columns(pixels[2], number)

    def _columns(self, first: I64, number: Type) -> Vector:
        return self._spread(first, number) + counting(self, number, self.windows.stride[2])

    def _flattened(self, pixels: list[I64], number: Type) -> Vector:
        height, width = self.pixels[1:]
        row = self.add(self.multiply(pixels[0], height), pixels[1])
        return self._spread(self.multiply(row, width), number)

    def first_inside(self, row: _Row, start: str, number: Type) -> Vector:
        """The flattened index of the first place of every window that is not padding."""
        w = self.windows
        pixels = []
        for d, output in enumerate(row[1:]):
            pixel = self._pixel(d, output, 0)
            if w.before[d]:
                missing = self.larger(self.subtract(0, pixel), 0)
                up = self.add(missing, w.dilation[d] - 1)
                places = self.set(f"udiv i64 {up}, {w.dilation[d]}")
                pixel = self.add(pixel, self.multiply(places, w.dilation[d]))
            pixels.append(pixel)
        columns = self._columns(self._pixel(2, start, 0), number)
        if w.before[2]:
            step = w.dilation[2]
            missing_columns = (-columns).at_least(0) + (step - 1)
            columns = columns + missing_columns.instruction("udiv", step) * step
        return self._flattened(pixels, number) + columns

    # -- reading -----------------------------------------------------------------------------------

    def _start(
        self, lead: I64, indices: list[tuple[I64, str | None]], strides: list[str]
    ) -> tuple[str, str | None]:
        """Where a row of the second array begins, and whether it exists (an i1; None: always).

        `indices` are those of the first two dimensions, and whether each is inside. A row that does
        not exist is replaced by row 0, and its numbers are left out later.
        """
        exists: str | None = None
        offset = self.multiply(lead, strides[0])
        for (index, inside), stride in zip(indices, strides[1:], strict=True):
            if inside is not None:
                index = self.select(inside, "i64", index, 0)
                exists = inside if exists is None else self.set(f"and i1 {exists}, {inside}")
            offset = self.add(offset, self.multiply(index, stride))
        return self.element(self.bases[1], self.windows.dtype, offset), exists

    def read(self, row: _Row, start: str, inner: _Inner, mask: str) -> tuple[Vector, Vector | None]:
        """The pixels at one place of neighbouring windows (0 outside), and which are inside (None:
        all that matter)."""
        w, word = self.windows, self.lane_index
        indices: list[tuple[I64, str | None]] = []
        for d in (0, 1):
            pixel = self._pixel(d, row[1 + d], inner[d])
            inside_row = self._inside(pixel, self.pixels[d]) if w.reaches_out(d) else None
            indices.append((pixel, inside_row))
        line, exists = self._start(row[0], indices, self.x)
        column = self._pixel(2, start, inner[2])
        inside = None
        if exists is not None or w.reaches_out(2):
            inside = self._columns(column, word).below(self._spread(self.pixels[2], word))
            if exists is not None:
                one = Vector(self, Type(np.dtype(np.bool_)), exists)
                inside = inside & one.spread(word.lanes)
        allowed = Vector(self, word.of(np.bool_), mask)
        lanes = (allowed if inside is None else allowed & inside).text
        place = self.element(line, w.dtype, column)
        if w.stride[2] == 1:
            return self.load(place, self.vector, lanes), inside
        if w.stride[2] == 2:
            return self.load_every_second(place, self.vector, lanes), inside
        return self.gather(place, counting(self, word, w.stride[2]), self.vector, lanes), inside

    def row_of_windows(self, row: _Row, inner: _Inner) -> tuple[str, str]:
        """The row of windows that have the pixels of this row at this place, and whether there is
        one."""
        indices: list[tuple[I64, str | None]] = [
            self._window(d, row[1 + d], inner[d]) for d in (0, 1)
        ]
        start, exists = self._start(row[0], indices, self.y)
        assert exists is not None
        return start, exists

    def read_windows(self, row: str, start: str, inner: I64) -> Vector:
        """For neighbouring pixels the windows that have them at this place; 0 if none has."""
        w, lanes, word = self.windows, self.vector.lanes, self.lane_index
        stride = w.stride[2]
        below = self._spread(self.outputs[2], word)
        if not isinstance(inner, int) or lanes % stride:
            shift = self.add(start, w.before[2], self.subtract(0, inner))
            pixels = spread(self, shift, lanes) + counting(self, word)
            windows = pixels.instruction("sdiv", stride)
            mask = windows.below(below) & (windows * stride).compare("eq", pixels)
            return self.gather(row, windows, self.vector, mask.text)
        # Vectors of pixels start at multiples of the stride: which lanes have a window is known.
        first = (inner - w.before[2]) % stride
        shift = self.add(start, w.before[2] - inner + first)
        window = self.set(f"sdiv i64 {shift}, {stride}")
        inside = (spread(self, window, lanes) + counting(self, word)).below(below)
        read = self.load(self.element(row, w.dtype, window), self.vector, inside.text)
        places = [lanes if (i - first) % stride else (i - first) // stride for i in range(lanes)]
        return read.shuffled(places, "zeroinitializer")

    def _window(self, dimension: int, pixel: I64, inner: I64) -> tuple[I64, str]:
        """Which window has this pixel at this place, and whether there is one."""
        w, d = self.windows, dimension
        moved = self.add(pixel, w.before[d], self.subtract(0, inner))
        window = self.set(f"sdiv i64 {moved}, {w.stride[d]}")
        whole = self.set(f"icmp eq i64 {self.multiply(window, w.stride[d])}, {moved}")
        inside = self._inside(window, self.outputs[d])
        not_before = self.set(f"icmp sge i64 {moved}, 0")
        inside = self.set(f"and i1 {inside}, {not_before}")
        return window, self.set(f"and i1 {inside}, {whole}")
