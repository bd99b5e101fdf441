"""Pooling: windows of an image, one output each, in vectors along the last dimension.

    max_pool_indices   where the largest of every window lies
    pool_sum           the sum of every window
    pool_spread        its transpose: every pixel gets the sum of the windows it is in

Every pooling is written with three spatial dimensions; missing ones come first and have size 1.
Images x are (lead, *size) and their windows y (lead, *out), with the last dimension contiguous;
threads share rows, that is (lead, all but the last dimension).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector, counting, spread
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import Triple, one_stride, three
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.pooling import pool_spread, pool_sum

UNROLLED = 16  # places of a window up to which they are written one by one

_Row = tuple[I64, I64, I64]  # lead, and the first two spatial indices
_Inner = tuple[I64, I64, I64]  # a place in the window
_AtPlace = Callable[[list[Vector], _Inner], list[Vector]]


def pool_kernel(
    op: Op, places: Sequence[Slice], attrs: Mapping[str, Any], vector_bytes: int
) -> Kernel:
    """The kernel of one of the three ops. Arrays: its result, its operand."""
    out, given = places
    if op is pool_spread:
        f = _PoolBuilder(out, given, attrs, vector_bytes)
        f.over_rows(f.image_size, f.pixels, f.sum_of_windows)
    else:
        f = _PoolBuilder(given, out, attrs, vector_bytes)
        f.over_rows(f.out_size, f.outputs, f.sum if op is pool_sum else f.index_of_largest)
    return f.kernel()


class _PoolBuilder(KernelBuilder):
    """A kernel over windows being written; `start` is the first column of a vector.

    Sizes and strides of arrays are read when it runs; all else is written into the text.
    """

    def __init__(self, x: Slice, y: Slice, attrs: Mapping[str, Any], vector_bytes: int) -> None:
        super().__init__(2)
        count = len(attrs["kernel"])
        if not 1 <= count <= 3 or x.dtype.name not in ("float32", "float64"):
            raise NoKernel(f"pooling of {x.dtype} in {count} dimensions")
        if 0 in attrs["kernel"] or any(p < 0 for pair in attrs["padding"] for p in pair):
            raise NoKernel("negative padding, or windows of nothing")
        lead = len(x.shape) - count
        self.lead = math.prod(x.shape[:lead])
        self.image_size, self.out_size = three(x.shape[lead:], 1), three(y.shape[lead:], 1)
        self.window, self.stride = three(attrs["kernel"], 1), three(attrs["stride"], 1)
        self.dilation = three(attrs.get("dilation", (1,) * count), 1)
        self.before = three([before for before, _ in attrs["padding"]], 0)
        self.vector = Type(x.dtype, vector_bytes // x.dtype.itemsize)
        self.lane_index = Type(INT64.dtype, self.vector.lanes)
        self.number = self.vector.of(np.int32 if x.dtype.itemsize == 4 else np.int64)  # of a pixel
        self.pixels, self.outputs = self.runtimes(*self.image_size), self.runtimes(*self.out_size)
        self.x, self.y = self._strides(x, lead), self._strides(y, lead)

    def _strides(self, place: Slice, lead: int) -> list[str]:
        """Strides over lead and the first two spatial dimensions."""
        *rows, last = three(place.strides[lead:], 0)
        if last != 1 and place.shape[-1] > 1:
            raise NoKernel("rows that are not contiguous")
        return self.runtimes(one_stride(place.shape[:lead], place.strides[:lead]), *rows)

    def _reaches_out(self, d: int) -> bool:
        """Whether some window has places outside of x along this dimension."""
        last = (self.out_size[d] - 1) * self.stride[d] + (self.window[d] - 1) * self.dilation[d]
        return self.before[d] > 0 or last - self.before[d] >= self.image_size[d]

    # -- the three ops, one vector of results each -------------------------------------------------

    def index_of_largest(self, row: _Row, start: str, mask: str) -> None:
        """Indices count in the flat image; of equal numbers the first wins, of NaNs the last."""
        lowest = self.constant(self.vector, -math.inf)

        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            best, chosen = carried
            pixel, inside = self._read(row, start, inner, mask)
            if inside is not None:
                pixel = inside.choose(pixel, lowest)
            better = (pixel > best) | pixel.compare("ne", pixel)
            index = self._index_of(row, start, inner)
            return [better.choose(pixel, best), better.choose(index, chosen)]

        _, chosen = self._over_places([lowest, self._first_inside(row, start)], place)
        target = self.element(self.bases[0], INT64.dtype, self.dot(row, self.y), start)
        self.store(chosen.to(np.int64), target, mask)

    def sum(self, row: _Row, start: str, mask: str) -> None:
        """The sum of the pixels of a window."""

        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            pixel, _ = self._read(row, start, inner, mask)
            return [carried[0] + pixel]

        self._store_sum(self.y, row, start, place, mask)

    def sum_of_windows(self, row: _Row, start: str, mask: str) -> None:
        """The sum of the windows that a pixel is in."""

        def place(carried: list[Vector], inner: _Inner) -> list[Vector]:
            indices = [self._window(d, row[1 + d], inner[d]) for d in (0, 1)]
            windows_row, exists = self._start(row[0], indices, self.y)
            times = self.set(f"zext i1 {exists} to i64")
            with self.loop(0, times, carried=carried) as once:
                (total,) = once.carried
                once.carry(total + self._read_windows(windows_row, start, inner[2]))
            return once.results

        self._store_sum(self.x, row, start, place, mask)

    # -- loops -------------------------------------------------------------------------------------

    def over_rows(
        self, size: Triple, counts: list[str], vector: Callable[[_Row, str, str], None]
    ) -> None:
        """All vectors of an array of this size, whose lengths are `counts`."""
        lanes = self.vector.lanes
        with self.loop(*self.share(self.runtime(self.lead * size[0] * size[1]))) as unit:
            lead, second = self.divide(unit.index, counts[1])
            first: I64 = 0
            if size[0] > 1:
                lead, first = self.divide(lead, counts[0])
            with self.loop(0, counts[2], lanes) as column:
                left = self.subtract(counts[2], column.index)
                mask = self.first_lanes(left, lanes)
                vector((lead, first, second), column.index, mask)

    def _over_places(self, carried: list[Vector], place: _AtPlace) -> list[Vector]:
        """The places of a window in order; `place` returns what the carried values become."""
        if math.prod(self.window) <= UNROLLED:
            for a, b, c in np.ndindex(*self.window):
                carried = place(carried, (a, b, c))
            return carried

        def nest(carried: list[Vector], *inner: I64) -> list[Vector]:
            if len(inner) == 3:
                a, b, c = inner
                return place(carried, (a, b, c))
            with self.loop(0, self.window[len(inner)], carried=carried) as loop:
                loop.carry(*nest(loop.carried, *inner, loop.index))
            return loop.results

        return nest(carried)

    def _store_sum(
        self, strides: list[str], row: _Row, start: str, place: _AtPlace, mask: str
    ) -> None:
        """Store what `place` adds up over the places of a window in the first array."""
        (total,) = self._over_places([self.constant(self.vector, 0)], place)
        target = self.element(self.bases[0], self.vector.dtype, self.dot(row, strides), start)
        self.store(total, target, mask)

    # -- where things are --------------------------------------------------------------------------

    def _pixel(self, dimension: int, output: I64, inner: I64) -> I64:
        """output · stride + inner · dilation − before, of one dimension."""
        moved = self.multiply(output, self.stride[dimension])
        place = self.multiply(inner, self.dilation[dimension])
        return self.add(moved, place, -self.before[dimension])

    def _spread(self, number: I64, kind: Type) -> Vector:
        """An i64 in every lane, as this type."""
        return Vector(self, INT64, number).to(kind.dtype).spread(kind.lanes)

    def _index_of(self, row: _Row, start: str, inner: _Inner) -> Vector:
        """The flattened index of a place, for every lane."""
        outputs = (*row[1:], start)
        pixels = [self._pixel(d, outputs[d], inner[d]) for d in range(3)]
        return self._flattened(pixels[:2]) + self._columns(pixels[2], self.number)

    def _columns(self, first: I64, kind: Type) -> Vector:
        """The columns of neighbouring windows, from the first on."""
        return self._spread(first, kind) + counting(self, kind, self.stride[2])

    def _flattened(self, pixels: list[I64]) -> Vector:
        """The flattened index of the first pixel of a row."""
        height, width = self.pixels[1:]
        row = self.add(self.multiply(pixels[0], height), pixels[1])
        return self._spread(self.multiply(row, width), self.number)

    def _first_inside(self, row: _Row, start: str) -> Vector:
        """The flattened index of the first place of every window that is not padding."""
        pixels = []
        for d, output in enumerate(row[1:]):
            pixel = self._pixel(d, output, 0)
            if self.before[d]:
                missing = self.larger(self.subtract(0, pixel), 0)
                up = self.add(missing, self.dilation[d] - 1)
                places = self.set(f"udiv i64 {up}, {self.dilation[d]}")
                pixel = self.add(pixel, self.multiply(places, self.dilation[d]))
            pixels.append(pixel)
        columns = self._columns(self._pixel(2, start, 0), self.number)
        if self.before[2]:
            step = self.dilation[2]
            missing_columns = (-columns).at_least(0) + (step - 1)
            columns = columns + missing_columns.instruction("udiv", step) * step
        return self._flattened(pixels) + columns

    # -- reading -----------------------------------------------------------------------------------

    def _start(
        self, lead: I64, indices: Sequence[tuple[I64, str | None]], strides: list[str]
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
        return self.element(self.bases[1], self.vector.dtype, offset), exists

    def _read(
        self, row: _Row, start: str, inner: _Inner, mask: str
    ) -> tuple[Vector, Vector | None]:
        """The pixels at one place of neighbouring windows (0 outside), and which are inside (None:
        all that matter)."""
        word = self.lane_index
        indices: list[tuple[I64, str | None]] = []
        for d in (0, 1):
            pixel = self._pixel(d, row[1 + d], inner[d])
            # 0 ≤ pixel < size is one unsigned comparison.
            inside_row = None
            if self._reaches_out(d):
                inside_row = self.compare("ult", pixel, self.pixels[d])
            indices.append((pixel, inside_row))
        line, exists = self._start(row[0], indices, self.x)
        column = self._pixel(2, start, inner[2])
        inside = None
        if exists is not None or self._reaches_out(2):
            inside = self._columns(column, word).below(self._spread(self.pixels[2], word))
            if exists is not None:
                one = Vector(self, Type(np.dtype(np.bool_)), exists)
                inside = inside & one.spread(word.lanes)
        allowed = Vector(self, word.of(np.bool_), mask)
        lanes = (allowed if inside is None else allowed & inside).text
        place = self.element(line, self.vector.dtype, column)
        if self.stride[2] == 1:
            return self.load(place, self.vector, lanes), inside
        if self.stride[2] == 2:
            return self.load_every_second(place, self.vector, lanes), inside
        return self.gather(place, counting(self, word, self.stride[2]), self.vector, lanes), inside

    def _read_windows(self, row: str, start: str, inner: I64) -> Vector:
        """For neighbouring pixels the windows that have them at this place; 0 if none has."""
        lanes, word = self.vector.lanes, self.lane_index
        stride = self.stride[2]
        below = self._spread(self.outputs[2], word)
        if not isinstance(inner, int) or lanes % stride:
            shift = self.add(start, self.before[2], self.subtract(0, inner))
            pixels = spread(self, shift, lanes) + counting(self, word)
            windows = pixels.instruction("sdiv", stride)
            mask = windows.below(below) & (windows * stride).compare("eq", pixels)
            return self.gather(row, windows, self.vector, mask.text)
        # Vectors of pixels start at multiples of the stride: which lanes have a window is known.
        first = (inner - self.before[2]) % stride
        shift = self.add(start, self.before[2] - inner + first)
        window = self.set(f"sdiv i64 {shift}, {stride}")
        inside = (spread(self, window, lanes) + counting(self, word)).below(below)
        read = self.load(self.element(row, self.vector.dtype, window), self.vector, inside.text)
        places = [lanes if (i - first) % stride else (i - first) // stride for i in range(lanes)]
        return read.shuffled(places, "zeroinitializer")

    def _window(self, dimension: int, pixel: I64, inner: I64) -> tuple[I64, str]:
        """Which window has this pixel at this place, and whether there is one."""
        d = dimension
        moved = self.add(pixel, self.before[d], self.subtract(0, inner))
        window = self.set(f"sdiv i64 {moved}, {self.stride[d]}")
        whole = self.compare("eq", self.multiply(window, self.stride[d]), moved)
        inside = self.compare("ult", window, self.outputs[d])
        not_before = self.compare("sge", moved, 0)
        inside = self.set(f"and i1 {inside}, {not_before}")
        return window, self.set(f"and i1 {inside}, {whole}")
