"""Pooling: windows of an image, one output each, in vectors along the last dimension.

    max_pool_indices   where the largest of every window lies; with `values` also how large it is
    pool_sum           the sum of every window
    pool_spread        its transpose: every pixel gets the sum of the windows it is in

Every pooling is written with three spatial dimensions; missing ones come first and have size 1.
Arrays are (lead, *size) and (lead, *out) with the last dimension contiguous; threads share rows,
that is (lead, all but the last dimension).

    gather_last, scatter_last   picking along the last dimension by an array of indices, and its
                                transpose; threads share (lead)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    checked_index,
    element_pointer,
    first_lanes,
    gather,
    load,
    load_every_second,
    store,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value

Triple = tuple[int, int, int]
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


def max_pool_kernel(windows: Windows, vector_bytes: int, values: bool = False) -> Kernel:
    """Arrays: the indices (int64), x, and with `values` the largest numbers. The indices count in
    the flattened size; of equal numbers the first wins, of NaNs the last."""
    f = _Windows(windows, vector_bytes, 3 if values else 2)
    number = f.vector.of(np.int32 if windows.dtype.itemsize == 4 else np.int64)

    def row(f: _Windows, lead: str, at: tuple[str, str], start: str, mask: str) -> None:
        first = f.first_inside(at, start, number)
        lowest = f.vector.constant(-math.inf)
        carried = [(f.vector.text, lowest), (number.text, first.text)]

        def place(values: list[str], inner: tuple[str, str, str]) -> list[str]:
            best, chosen = Value(f, f.vector, values[0]), Value(f, number, values[1])
            found, inside = f.read(lead, at, start, inner)
            if inside is not None:
                found = inside.choose(found, found.constant(-math.inf))
            better = (found > best) | found.compare("ne", found)
            index = f.index_of(at, start, inner, number)
            return [better.choose(found, best).text, better.choose(index, chosen).text]

        best, chosen = f.over_places(carried, place)
        target = element_pointer(f, f.bases[0], np.dtype(np.int64), f.y_offset(lead, at, start))
        store(f, Value(f, number, chosen).to(np.int64), target, mask)
        if values:
            target = element_pointer(f, f.bases[2], windows.dtype, f.y_offset(lead, at, start))
            store(f, Value(f, f.vector, best), target, mask)

    f.over_outputs(row)
    return f.kernel()


def pool_sum_kernel(windows: Windows, vector_bytes: int) -> Kernel:
    """Arrays: the sums, x."""
    f = _Windows(windows, vector_bytes, 2)

    def row(f: _Windows, lead: str, at: tuple[str, str], start: str, mask: str) -> None:
        def place(values: list[str], inner: tuple[str, str, str]) -> list[str]:
            found, _ = f.read(lead, at, start, inner)
            return [(Value(f, f.vector, values[0]) + found).text]

        (total,) = f.over_places([(f.vector.text, f.vector.constant(0))], place)
        target = element_pointer(f, f.bases[0], windows.dtype, f.y_offset(lead, at, start))
        store(f, Value(f, f.vector, total), target, mask)

    f.over_outputs(row)
    return f.kernel()


def pool_spread_kernel(windows: Windows, vector_bytes: int) -> Kernel:
    """Arrays: the array of pixels, that of the windows."""
    f = _Windows(windows, vector_bytes, 2)

    def row(f: _Windows, lead: str, at: tuple[str, str], start: str, mask: str) -> None:
        def place(values: list[str], inner: tuple[str, str, str]) -> list[str]:
            windows_row, exists = f.row_of_windows(lead, at, inner)
            times = f.set(f"zext i1 {exists} to i64")
            with f.loop("0", times, carried=[(f.vector.text, values[0])]) as once:
                found = f.read_windows(windows_row, start, inner[2])
                once.carry((Value(f, f.vector, once.carried[0]) + found).text)
            return once.results

        (total,) = f.over_places([(f.vector.text, f.vector.constant(0))], place)
        target = element_pointer(f, f.bases[0], windows.dtype, f.x_offset(lead, at, start))
        store(f, Value(f, f.vector, total), target, mask)

    f.over_rows(windows.size, row)
    return f.kernel()


Row = Callable[["_Windows", str, tuple[str, str], str, str], None]
Place = Callable[[list[str], tuple[str, str, str]], list[str]]


class _Windows(KernelWriter):
    """A kernel over windows being written. A row is (lead, two indices `at`); `start` is the first
    column of a vector, `inner` a place in the window."""

    def __init__(self, windows: Windows, vector_bytes: int, arrays: int) -> None:
        super().__init__(arrays)
        self.windows = windows
        self.vector = Kind(windows.dtype, vector_bytes // windows.dtype.itemsize)
        self.pixels = [self.runtime(n) for n in windows.size]
        self.outputs = [self.runtime(n) for n in windows.out]
        self.x = [self.runtime(s) for s in windows.x]
        self.y = [self.runtime(s) for s in windows.y]

    # -- loops -------------------------------------------------------------------------------------

    def over_outputs(self, row: Row) -> None:
        """All vectors of the outputs."""
        self.over_rows(self.windows.out, row)

    def over_rows(self, size: Triple, row: Row) -> None:
        """All vectors of an array of this size."""
        counts = self.outputs if size is self.windows.out else self.pixels
        lanes = self.vector.lanes
        first, end = self.share(self.runtime(self.windows.lead * size[0] * size[1]))
        with self.loop(first, end) as unit:
            rest = self.set(f"udiv i64 {unit.index}, {counts[1]}")
            second = self.set(f"urem i64 {unit.index}, {counts[1]}")
            lead, at_first = rest, "0"
            if size[0] > 1:
                lead = self.set(f"udiv i64 {rest}, {counts[0]}")
                at_first = self.set(f"urem i64 {rest}, {counts[0]}")
            with self.loop("0", counts[2], str(lanes)) as column:
                left = self.set(f"sub i64 {counts[2]}, {column.index}")
                mask = first_lanes(self, left, lanes)
                self.columns_left = mask
                row(self, lead, (at_first, second), column.index, mask)

    def over_places(self, carried: Sequence[tuple[str, str]], place: Place) -> list[str]:
        """The places of a window in order; `place` says what the carried values are after it."""
        kernel = self.windows.kernel
        values = [value for _, value in carried]
        if math.prod(kernel) <= UNROLLED:
            for inner in np.ndindex(*kernel):
                a, b, c = (str(i) for i in inner)
                values = place(values, (a, b, c))
            return values
        kinds = [kind for kind, _ in carried]
        with self.loop("0", str(kernel[0]), carried=list(zip(kinds, values))) as deep:
            with self.loop("0", str(kernel[1]), carried=list(zip(kinds, deep.carried))) as high:
                with self.loop("0", str(kernel[2]), carried=list(zip(kinds, high.carried))) as wide:
                    inner_index = (deep.index, high.index, wide.index)
                    wide.carry(*place(wide.carried, inner_index))
                high.carry(*wide.results)
            deep.carry(*high.results)
        return deep.results

    # -- where things are --------------------------------------------------------------------------

    def y_offset(self, lead: str, at: tuple[str, str], column: str) -> str:
        """Of an output."""
        return self._offset(self.y, lead, at, column)

    def x_offset(self, lead: str, at: tuple[str, str], column: str) -> str:
        """Of a pixel."""
        return self._offset(self.x, lead, at, column)

    def _offset(self, strides: list[str], lead: str, at: tuple[str, str], column: str) -> str:
        terms = (self.multiply(i, s) for i, s in zip((lead, *at), strides, strict=True))
        return self.add(*terms, column)

    def _pixel(self, dimension: int, output: str, inner: str) -> str:
        """output · stride + inner · dilation − before, of one dimension."""
        w = self.windows
        moved = self.multiply(output, str(w.stride[dimension]))
        place = self.multiply(inner, str(w.dilation[dimension]))
        return self.add(moved, place, str(-w.before[dimension]))

    def _inside(self, dimension: int, pixel: str, sizes: list[str]) -> str:
        """0 ≤ pixel < size, as an i1: one unsigned comparison."""
        return self.set(f"icmp ult i64 {pixel}, {sizes[dimension]}")

    def _steps(self, number: Kind, step: int) -> Value:
        """0, step, 2 · step, ..."""
        listed = ", ".join(f"{number.element} {i * step}" for i in range(number.lanes))
        return Value(self, number, f"<{listed}>")

    def _spread(self, number: str, kind: Kind) -> Value:
        """An i64 in every lane, as this kind."""
        one = Value(self, Kind(np.dtype(np.int64)), number)
        return one.to(kind.dtype).spread(kind.lanes)

    def index_of(
        self, at: tuple[str, str], start: str, inner: tuple[str, str, str], number: Kind
    ) -> Value:
        """The flattened index of a place, for every lane."""
        pixels = [self._pixel(d, o, i) for d, (o, i) in enumerate(zip((*at, start), inner))]
        return self._flattened(pixels[:2], number) + self._columns(pixels[2], number)

    def _columns(self, first: str, number: Kind) -> Value:
        return self._spread(first, number) + self._steps(number, self.windows.stride[2])

    def _flattened(self, pixels: list[str], number: Kind) -> Value:
        height, width = self.pixels[1:]
        row = self.add(self.multiply(pixels[0], height), pixels[1])
        return self._spread(self.multiply(row, width), number)

    def first_inside(self, at: tuple[str, str], start: str, number: Kind) -> Value:
        """The flattened index of the first place of every window that is not padding."""
        w = self.windows
        pixels = []
        for d, output in enumerate(at):
            pixel = self._pixel(d, output, "0")
            if w.before[d]:
                missing = self.larger(self.set(f"sub i64 0, {pixel}"), "0")
                up = self.add(missing, str(w.dilation[d] - 1))
                places = self.set(f"udiv i64 {up}, {w.dilation[d]}")
                pixel = self.add(pixel, self.multiply(places, str(w.dilation[d])))
            pixels.append(pixel)
        columns = self._columns(self._pixel(2, start, "0"), number)
        if w.before[2]:
            step = w.dilation[2]
            missing_columns = (-columns).at_least(0) + (step - 1)
            kind = number.text
            places = self.set(f"udiv {kind} {missing_columns.text}, {number.constant(step)}")
            columns = columns + Value(self, number, places) * step
        return self._flattened(pixels, number) + columns

    # -- reading -----------------------------------------------------------------------------------

    def _row(
        self, dimensions: list[tuple[str, str | None]], base: str, strides: list[str], lead: str
    ) -> tuple[str, str | None]:
        """Where a row begins, and whether it exists (an i1; None: always). One that does not is
        replaced by row 0, and its numbers are left out later."""
        exists: str | None = None
        offset = self.multiply(lead, strides[0])
        for (index, inside), stride in zip(dimensions, strides[1:], strict=True):
            if inside is not None:
                index = self.set(f"select i1 {inside}, i64 {index}, i64 0")
                exists = inside if exists is None else self.set(f"and i1 {exists}, {inside}")
            offset = self.add(offset, self.multiply(index, stride))
        return element_pointer(self, base, self.windows.dtype, offset), exists

    def read(
        self, lead: str, at: tuple[str, str], start: str, inner: tuple[str, str, str]
    ) -> tuple[Value, Value | None]:
        """The pixels at one place of neighbouring windows (0 outside), and which are inside; None
        if all are that matter."""
        w = self.windows
        rows = []
        for d in (0, 1):
            pixel = self._pixel(d, at[d], inner[d])
            rows.append((pixel, self._inside(d, pixel, self.pixels) if w.reaches_out(d) else None))
        row, exists = self._row(rows, self.bases[1], self.x, lead)
        column = self._pixel(2, start, inner[2])
        word = Kind(np.dtype(np.int64), self.vector.lanes)
        inside = None
        if exists is not None or w.reaches_out(2):
            columns = self._columns(column, word)
            below = self._spread(self.pixels[2], word)
            inside = Value(
                self, word.of(np.bool_),
                self.set(f"icmp ult {word.text} {columns.text}, {below.text}"),
            )  # fmt: skip
            if exists is not None:
                inside = inside & Value(self, Kind(np.dtype(np.bool_)), exists).spread(word.lanes)
        allowed = Value(self, word.of(np.bool_), self.columns_left)
        mask = (allowed if inside is None else allowed & inside).text
        place = element_pointer(self, row, w.dtype, column)
        if w.stride[2] == 1:
            return load(self, place, self.vector, mask), inside
        if w.stride[2] == 2:
            return load_every_second(self, place, self.vector, mask), inside
        return gather(self, place, self._steps(word, w.stride[2]), self.vector, mask), inside

    def row_of_windows(
        self, lead: str, at: tuple[str, str], inner: tuple[str, str, str]
    ) -> tuple[str, str]:
        """The row of windows that have the pixels of this row at this place, and whether there is
        one."""
        rows: list[tuple[str, str | None]] = [self._window(d, at[d], inner[d]) for d in (0, 1)]
        row, exists = self._row(rows, self.bases[1], self.y, lead)
        assert exists is not None
        return row, exists

    def read_windows(self, row: str, start: str, inner: str) -> Value:
        """For neighbouring pixels the windows that have them at this place; 0 if none has."""
        w, lanes = self.windows, self.vector.lanes
        word = Kind(np.dtype(np.int64), lanes)
        stride = w.stride[2]
        below = self._spread(self.outputs[2], word)
        if not inner.isdigit() or lanes % stride:
            shift = self.add(start, str(w.before[2]), self.set(f"sub i64 0, {inner}"))
            pixels = self._spread(shift, word) + self._steps(word, 1)
            quotient = self.set(f"sdiv {word.text} {pixels.text}, {word.constant(stride)}")
            windows = Value(self, word, quotient)
            below_text = self.set(f"icmp ult {word.text} {windows.text}, {below.text}")
            whole = (windows * stride).compare("eq", pixels)
            mask = Value(self, whole.kind, below_text) & whole
            return gather(self, row, windows, self.vector, mask.text)
        # Vectors of pixels start at multiples of the stride: which lanes have a window is known.
        first = (int(inner) - w.before[2]) % stride
        shift = self.add(start, str(w.before[2] - int(inner) + first))
        window = self.set(f"sdiv i64 {shift}, {stride}")
        windows = self._spread(window, word) + self._steps(word, 1)
        inside = self.set(f"icmp ult {word.text} {windows.text}, {below.text}")
        found = load(self, element_pointer(self, row, w.dtype, window), self.vector, inside)
        listed = ", ".join(
            f"i32 {lanes if (i - first) % stride else (i - first) // stride}" for i in range(lanes)
        )
        kind = self.vector.text
        spread = self.set(
            f"shufflevector {kind} {found.text}, {kind} zeroinitializer, <{lanes} x i32> <{listed}>"
        )
        return Value(self, self.vector, spread)

    def _window(self, dimension: int, pixel: str, inner: str) -> tuple[str, str]:
        """Which window has this pixel at this place, and whether there is one."""
        w, d = self.windows, dimension
        moved = self.add(pixel, str(w.before[d]), self.set(f"sub i64 0, {inner}"))
        stride = str(w.stride[d])
        window = self.set(f"sdiv i64 {moved}, {stride}")
        whole = self.set(f"icmp eq i64 {self.multiply(window, stride)}, {moved}")
        inside = self._inside(d, window, self.outputs)
        not_before = self.set(f"icmp sge i64 {moved}, 0")
        inside = self.set(f"and i1 {inside}, {not_before}")
        return window, self.set(f"and i1 {inside}, {whole}")


# -- picking along the last dimension --------------------------------------------------------------


@dataclass(frozen=True)
class Picks:
    """`count` indices for each of `lead` rows of `length` numbers; strides of the lead."""

    dtype: np.dtype[Any]
    lead: int
    count: int
    length: int
    rows: int  # stride of the rows of `length`
    picked: int  # of the rows of `count`
    indices: int


def gather_last_kernel(picks: Picks, vector_bytes: int) -> Kernel:
    """Arrays: the picked numbers, the rows, the indices (int64)."""
    f = KernelWriter(3)
    word = Kind(np.dtype(np.int64), vector_bytes // 8)
    count, length = f.runtime(picks.count), f.runtime(picks.length)
    strides = [f.runtime(s) for s in (picks.picked, picks.rows, picks.indices)]
    kinds = (picks.dtype, picks.dtype, word.dtype)
    first, end = f.share(f.runtime(picks.lead))
    with f.loop(first, end) as row:
        out, rows, indices = (
            element_pointer(f, base, kind, f.multiply(row.index, stride))
            for base, kind, stride in zip(f.bases, kinds, strides, strict=True)
        )
        with f.loop("0", count, str(word.lanes)) as column:
            mask = first_lanes(f, f.set(f"sub i64 {count}, {column.index}"), word.lanes)
            index = load(f, element_pointer(f, indices, word.dtype, column.index), word, mask)
            index = checked_index(f, index, length, mask)
            found = gather(f, rows, index, Kind(picks.dtype, word.lanes), mask)
            store(f, found, element_pointer(f, out, picks.dtype, column.index), mask)
    return f.kernel()


def scatter_last_kernel(picks: Picks, apart: bool, vector_bytes: int) -> Kernel:
    """Arrays: the rows, which are cleared, the numbers to be added to them, the indices (int64);
    `apart`: no place of a row is met twice."""
    f = KernelWriter(3)
    word = np.dtype(np.int64)
    several = vector_bytes // word.itemsize  # indices that are checked together
    count, length = f.runtime(picks.count), f.runtime(picks.length)
    size = f.runtime(picks.length * picks.dtype.itemsize)
    strides = [f.runtime(s) for s in (picks.rows, picks.picked, picks.indices)]
    kinds = (picks.dtype, picks.dtype, word)
    full = f.set(f"and i64 {count}, {-several}")
    first, end = f.share(f.runtime(picks.lead))
    with f.loop(first, end) as row:
        rows, given, indices = (
            element_pointer(f, base, kind, f.multiply(row.index, stride))
            for base, kind, stride in zip(f.bases, kinds, strides, strict=True)
        )
        _clear(f, rows, size)
        for start, stop, lanes in (("0", full, several), (full, count, 1)):
            with f.loop(start, stop, str(lanes)) as column:
                place = element_pointer(f, indices, word, column.index)
                index = checked_index(f, load(f, place, Kind(word, lanes)), length)
                place = element_pointer(f, given, picks.dtype, column.index)
                values = load(f, place, Kind(picks.dtype, lanes))
                for lane in range(lanes):
                    value = values.lane(lane)
                    place = element_pointer(f, rows, picks.dtype, index.lane(lane).text)
                    store(f, value if apart else load(f, place, value.kind) + value, place)
    return f.kernel()


def _clear(f: Function, place: str, size: str) -> None:
    given = (("ptr", place), ("i8", "0"), ("i64", size), ("i1", "false"))
    f.call("void", "llvm.memset.p0.i64", *given)
