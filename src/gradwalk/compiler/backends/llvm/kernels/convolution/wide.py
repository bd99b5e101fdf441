"""Drivers whose vectors run along channels: tables, padded copies, packing and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    ROWS,
    Convolution,
    rows_of_tile,
    up,
)
from gradwalk.compiler.backends.llvm.target import Host


class Blocks(NamedTuple):
    """Rows of a product cut into blocks, and columns into panels."""

    rows: int  # of a tile
    block: int  # rows of a block: whole tiles
    blocks: int
    panels: int
    line: int  # rows of a block, up to whole squares to be transposed


class Panel(NamedTuple):
    """Up to two vectors of columns."""

    start: I64
    columns: str
    wide: str  # whether there are two vectors
    width: str  # columns of these vectors


class WideDriver(Driver):
    """A driver being written for a convolution."""

    def __init__(self, name: str, conv: Convolution, host: Host) -> None:
        super().__init__(name, conv.dtype, host)
        self.conv, self.host = conv, host
        self.width = 2 * self.lanes
        self.needs_copy = self.differ(self.runtime(int(conv.padded)), 0)

    def cut(self, rows: int, most: int) -> Blocks:
        """Blocks of at most about `most` rows; the columns are the outputs."""
        tile = rows_of_tile(rows, self.host)
        block = up(-(-rows // -(-rows // most)), tile)
        panels = -(-self.conv.outputs // self.width)
        return Blocks(tile, block, -(-rows // block), panels, up(block, self.lanes))

    def panel(self, number: I64, columns: I64) -> Panel:
        """One panel of so many columns in all."""
        start = self.multiply(number, self.width)
        count = self.smaller(self.subtract(columns, start), self.width)
        wide = self.set(f"icmp sgt i64 {count}, {self.lanes}")
        return Panel(start, count, wide, self.select(wide, "i64", self.width, self.lanes))

    # -- tables ------------------------------------------------------------------------------------

    def pixel_table(self, table: str, strides: Sequence[int], apart: Sequence[int]) -> None:
        """Offsets of the output's pixels in an array; neighbours are `apart` steps apart."""
        steps = [s * n for s, n in zip(strides, apart, strict=True)]
        self.fill_table(table, (1, *self.conv.out), (0, *steps))

    def patch_table(self, table: str) -> None:
        """Offsets of the numbers of a patch, in the order of the weight."""
        conv = self.conv
        channel, *spatial = conv.patch_strides
        steps = [s * n for s, n in zip(spatial, conv.dilation, strict=True)]
        self.fill_table(table, (conv.channels, *conv.kernel), (channel, *steps))

    def patch_areas(self, cut: Blocks, **others: int) -> dict[str, str]:
        """Areas for a product of patches of x: tables of pixels, patches and places of a tile, a
        padded image, sums, and sums transposed. The tables are filled."""
        conv, size = self.conv, self.conv.dtype.itemsize
        area = self.areas(
            pixels=conv.pixels * WORD, patch=conv.patch * WORD, places=cut.rows * WORD,
            image=conv.padded_bytes, sums=cut.line * self.width * size,
            transposed=self.width * cut.line * size, **others,
        )  # fmt: skip
        self.pixel_table(area["pixels"], conv.patch_strides[1:], conv.stride)
        self.patch_table(area["patch"])
        self.fill_table(area["places"], (1, 1, 1, cut.rows), (0, 0, 0, self.width))
        # The padding around the copies of x is cleared once.
        self.clear(area["image"], self.runtime(conv.padded_bytes))
        inside = sum(p * s for p, s in zip(conv.before, conv.patch_strides[1:], strict=True))
        self._image, self._copy_target = area["image"], self.at(area["image"], self.runtime(inside))
        self._counts = self.runtimes(conv.channels, *conv.size)
        self._from = self.runtimes(*conv.x[1:])
        self._to = self.runtimes(*conv.patch_strides)
        return area

    def image(self, in_place: str, changed: str | None = None) -> str:
        """An image of x: where it is, or in a padded copy, made if `changed` (default: always)."""
        copies = self.needs_copy
        if changed is not None:
            copies = self.set(f"and i1 {copies}, {changed}")
        with self.when(copies):
            self.copy(in_place, self._copy_target, self._counts, self._from, self._to)
        return self.select(self.needs_copy, "ptr", self._image, in_place)

    # -- packing and tiles -------------------------------------------------------------------------

    def pack(
        self, source: str, along_k: I64, along_n: I64, depth: I64, columns: I64,
        panel: str, width: I64,
    ) -> None:  # fmt: skip
        """panel[k, j] = source[k, j], quickly where k is contiguous."""
        kinds = ("ptr", "i64", "i64", "i64", "i64", "ptr", "i64")
        turning, any_strides = (self.part_address(f"pack.{n}", kinds) for n in ("k", "any"))
        function = self.select(self.differ(along_k, 1), "ptr", any_strides, turning)
        given = (source, along_k, along_n, depth, columns, panel, width)
        self.call_pointer("void", function, *zip(kinds, given, strict=True))

    def transpose(
        self, source: str, source_row: I64, rows: I64, columns: I64, target: str, target_row: I64
    ) -> None:
        """target[c, r] = source[r, c]."""
        self.part(
            "transpose", ("ptr", source), ("i64", source_row), ("i64", rows), ("i64", columns),
            ("ptr", target), ("i64", target_row),
        )  # fmt: skip

    def tile_functions(self, rows: I64, wide: str) -> tuple[str, str]:
        """The tile of so many rows (an i64) and that of one row: of two vectors if `wide`."""
        types = ("ptr", "ptr", "ptr", "i64", "ptr", "ptr", "ptr", "i64", "i1")

        def of(count: int) -> str:
            narrow, broad = (self.part_address(f"tile.{count}x{n}", types) for n in (1, 2))
            return self.select(wide, "ptr", broad, narrow)

        single = function = of(1)
        for count in ROWS[self.many_registers]:
            same = self.set(f"icmp eq i64 {rows}, {count}")
            function = self.select(same, "ptr", of(count), function)
        return function, single

    def tiles(
        self, functions: tuple[str, str], rows: I64, count: I64, a: str, row_table: str, steps: str,
        depth: I64, b: str, out: str, out_row: I64 | None, places: str, second: I64, adds: str,
    ) -> None:  # fmt: skip
        """The sums of `count` rows, `rows` at a time and then one by one.

        Row r goes to out[r · out_row + places[0]], or without `out_row` to out[places[r]].
        """
        done: I64 = 0
        sizes: tuple[I64, I64] = (rows, 1)
        for step, function in zip(sizes, functions, strict=True):
            end = self.add(self.subtract(count, step), 1)
            with self.loop(done, end, step) as row:
                target, listed = out, places
                if out_row is None:
                    listed = self.entry(places, row.index)
                else:
                    target = self.at(out, self.multiply(row.index, out_row))
                self.call_pointer(
                    "void", function, ("ptr", a), ("ptr", self.entry(row_table, row.index)),
                    ("ptr", steps), ("i64", depth), ("ptr", b), ("ptr", target), ("ptr", listed),
                    ("i64", second), ("i1", adds),
                )  # fmt: skip
            done = row.index
