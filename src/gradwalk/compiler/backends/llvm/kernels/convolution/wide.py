"""Drivers whose vectors run along channels: tables, padded copies, packing and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    DEPTH,
    PIXEL_BLOCK,
    ROW_BLOCK,
    ROWS,
    UNITS,
    Convolution,
    one_stride,
    rows_of_tile,
    up,
)
from gradwalk.compiler.backends.llvm.target import Host

LONGEST_LINE = 1024  # pixels of x that are transposed at once


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
        super().__init__(name, conv, host)
        self.host = host
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
        wide = self.compare("sgt", count, self.lanes)
        return Panel(start, count, wide, self.select(wide, "i64", self.width, self.lanes))

    # -- tables ------------------------------------------------------------------------------------

    def pixel_table(self, table: str, strides: Sequence[int], apart: Sequence[int]) -> None:
        """Offsets of the output's pixels in an array; neighbours are `apart` steps apart."""
        steps = [s * n for s, n in zip(strides, apart, strict=True)]
        self.fill_table(table, (1, *self.conv.out), (0, *steps))

    def patch_areas(self, cut: Blocks, **others: int) -> dict[str, str]:
        """Areas for a product of patches of x: tables of pixels, patches and places of sums, a
        padded image, sums, and sums transposed. The tables are filled."""
        conv, size = self.conv, self.conv.dtype.itemsize
        area = self.areas(
            pixels=conv.pixels * WORD, patch=conv.patch * WORD, places=cut.block * WORD,
            image=conv.padded_bytes, sums=cut.line * self.width * size,
            transposed=self.width * cut.line * size, **others,
        )  # fmt: skip
        self.pixel_table(area["pixels"], conv.patch_strides[1:], conv.stride)
        # Numbers of a patch, in the order of the weight.
        channel, *spatial = conv.patch_strides
        steps = [s * n for s, n in zip(spatial, conv.dilation, strict=True)]
        self.fill_table(area["patch"], (conv.channels, *conv.kernel), (channel, *steps))
        self.fill_table(area["places"], (1, 1, 1, cut.block), (0, 0, 0, self.width))
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
        turning, any_strides = self.part("pack", "k"), self.part("pack", "any")
        function = self.select(self.differ(along_k, 1), "ptr", any_strides, turning)
        given = (source, along_k, along_n, depth, columns, panel, width)
        self.call_part("pack", *given, function=function)

    def transpose(self, source: str, row: I64, *others: I64) -> None:
        """target[c, r] = source[r, c]; the others are rows, columns, the target and its row."""
        self.call_part("transpose", source, row, *others)

    def tile_functions(self, rows: I64, wide: str) -> tuple[str, str]:
        """The tile of so many rows (an i64) and that of one row: of two vectors if `wide`."""

        def of(count: int) -> str:
            narrow, broad = (self.part("tile", count, n) for n in (1, 2))
            return self.select(wide, "ptr", broad, narrow)

        single = function = of(1)
        for count in ROWS[self.many_registers]:
            same = self.compare("eq", rows, count)
            function = self.select(same, "ptr", of(count), function)
        return function, single

    def tiles(
        self, functions: tuple[str, str], rows: I64, count: I64, a: str, row_table: str, steps: str,
        depth: I64, b: str, out: str, places: str, second: I64, adds: str,
    ) -> None:  # fmt: skip
        """The sums of `count` rows, `rows` at a time and then one by one; row r goes to
        out[places[r]]."""
        done: I64 = 0
        sizes: tuple[I64, I64] = (rows, 1)
        for step, function in zip(sizes, functions, strict=True):
            end = self.add(self.subtract(count, step), 1)
            with self.loop(done, end, step) as row:
                table, targets = (self.entry(t, row.index) for t in (row_table, places))
                given = (a, table, steps, depth, b, out, targets, second, adds)
                self.call_part("tile", *given, function=function)
            done = row.index


def forward_driver(conv: Convolution, host: Host) -> Driver:
    """y from x and the weight; threads share (group, image, block of pixels).

    Rows of the tile are pixels, its vectors run along the output channels: numbers of x are read
    where they are (or in a padded copy), the weight is packed once by every thread. Finished sums,
    pixel by pixel, are transposed so that rows are channels, and go through the epilogue.
    """
    f = WideDriver("forward", conv, host)
    width = f.width
    cut = f.cut(conv.pixels, PIXEL_BLOCK)
    packed = cut.panels * conv.patch * width * conv.dtype.itemsize
    area = f.patch_areas(cut, weight=packed)
    n_rows, n_panels, n_patch = f.runtimes(cut.rows, cut.panels, conv.patch)
    n_outputs, n_pixels, n_block = f.runtimes(conv.outputs, conv.pixels, cut.block)
    n_line, n_blocks, n_batch = f.runtimes(cut.line, cut.blocks, conv.batch)
    x_image, x_group = f.runtimes(conv.x[0], conv.x[1] * conv.channels)
    w_output, w_number = f.runtimes(conv.weight[0], conv.patch_stride)
    panel_size = f.multiply(n_patch, width)

    units = f.runtime(conv.groups * conv.batch * cut.blocks)
    with f.loop(*f.share(units), carried=[("i64", -1), ("i64", -1)]) as unit:
        group_before, image_before = unit.carried
        group_image, number = f.divide(unit.index, n_blocks)
        group, image = f.divide(group_image, n_batch)
        first_output = f.multiply(group, n_outputs)

        with f.when(f.differ(group, group_before)), f.loop(0, n_panels) as each:
            panel = f.panel(each.index, n_outputs)
            source = f.at(f.second, f.multiply(f.add(first_output, panel.start), w_output))
            target = f.at(area["weight"], f.multiply(each.index, panel_size))
            f.pack(source, w_number, w_output, n_patch, panel.columns, target, panel.width)
        in_place = f.at(f.first, f.multiply(image, x_image), f.multiply(group, x_group))
        a = f.image(in_place, f.differ(group_image, image_before))
        unit.carry(group, group_image)

        pixel = f.multiply(number, n_block)
        count = f.smaller(f.subtract(n_pixels, pixel), n_block)
        pixels = f.entry(area["pixels"], pixel)
        with f.loop(0, n_panels) as each:
            panel = f.panel(each.index, n_outputs)
            functions = f.tile_functions(n_rows, panel.wide)
            b = f.at(area["weight"], f.multiply(each.index, panel_size))
            with f.loop(0, n_patch, DEPTH, at_least_once=True) as stretch:
                depth = f.smaller(f.subtract(n_patch, stretch.index), DEPTH)
                adds = f.compare("sgt", stretch.index, 0)
                f.tiles(
                    functions, n_rows, count, a, pixels, f.entry(area["patch"], stretch.index),
                    depth, f.at(b, f.multiply(stretch.index, panel.width)), area["sums"],
                    area["places"], f.lanes, adds,
                )  # fmt: skip
            f.transpose(area["sums"], width, count, panel.columns, area["transposed"], n_line)
            output = f.add(first_output, panel.start)
            f.finish_rows(image, output, pixel, panel.columns, count, area["transposed"], n_line)
    return f


def input_driver(conv: Convolution, host: Host) -> Driver:
    """The gradient of x, from that of y and the weight; also a transposed convolution.

    Rows of the tile are pixels of y, its vectors run along the channels of x: the product of a
    pixel's outputs with the weights of one place in the kernel is what the pixel gives to one pixel
    of x. It is added there, in a padded image whose channels are contiguous; that image is then
    transposed, and the part that is not padding goes through the epilogue. No product with padding
    is ever computed. Threads share (group, stretch of channels, image).
    """
    f = WideDriver("input", conv, host)
    rows = rows_of_tile(conv.pixels, host)
    size, lanes, width = conv.dtype.itemsize, f.lanes, f.width
    vectors = -(-conv.channels // lanes)
    cuts = min(vectors, -(-UNITS // max(conv.batch * conv.groups, 1)))
    mine = -(-vectors // cuts)  # vectors of channels in a stretch
    cuts = -(-vectors // mine)
    stretch = mine * lanes
    count = conv.places * mine  # vectors of the weight, by place and channel
    depth, height, wide_line = conv.full
    lines = conv.size if conv.padded or math.prod(conv.size) > LONGEST_LINE else (
        1, 1, math.prod(conv.size)
    )  # fmt: skip
    line = up(lines[2], lanes)  # whole squares to be transposed
    image_size = depth * height * wide_line * stretch
    area = f.areas(
        pixels=conv.pixels * WORD, targets=conv.pixels * WORD, steps=conv.outputs * WORD,
        shifts=(count + 1) * WORD, weight=up(count, 2) * conv.outputs * lanes * size,
        image=(image_size + lanes * stretch) * size, transposed=stretch * line * size,
    )  # fmt: skip
    steps = (height * wide_line * stretch, wide_line * stretch, stretch)  # in the image
    f.pixel_table(area["pixels"], conv.y[2:], (1, 1, 1))
    f.pixel_table(area["targets"], steps, conv.stride)
    f.fill_table(area["steps"], (1, 1, 1, conv.outputs), (0, 0, 0, conv.y[1]))
    places = [s * d for s, d in zip(steps, conv.dilation, strict=True)]
    f.fill_table(area["shifts"], (*conv.kernel, mine), (*places, lanes))
    n_rows, n_count, n_mine = f.runtimes(rows, count, mine)
    n_cuts, n_batch = f.runtimes(cuts, conv.batch)
    n_outputs, n_channels, n_pixels = f.runtimes(conv.outputs, conv.channels, conv.pixels)
    n_stretch, n_line = f.runtimes(stretch, line)
    n_lines, line_steps = f.runtimes(*lines), f.runtimes(*steps[:2])
    inside = f.runtime(sum(p * s for p, s in zip(conv.before, steps, strict=True)))
    y_image, y_group = f.runtimes(conv.y[0], conv.y[1] * conv.outputs)
    w_output, w_channel, w_place = f.runtimes(*conv.weight)
    image_bytes = f.runtime(image_size * size)
    pair_size = f.multiply(n_outputs, width)

    def is_pair(vector: I64) -> str:
        return f.compare("slt", f.add(vector, 1), n_count)

    units = f.runtime(conv.groups * cuts * conv.batch)
    with f.loop(*f.share(units), carried=[("i64", -1)]) as unit:
        (before,) = unit.carried
        group_cut, image = f.divide(unit.index, n_batch)
        group, cut = f.divide(group_cut, n_cuts)
        channel = f.multiply(cut, n_stretch)
        channels = f.smaller(f.subtract(n_channels, channel), n_stretch)

        with f.when(f.differ(group_cut, before)), f.loop(0, n_count) as vector:
            place, inner = f.divide(vector.index, n_mine)
            start = f.multiply(inner, lanes)
            pair, second = f.divide(vector.index, 2)
            even = f.subtract(vector.index, second)
            source = f.at(
                f.second, f.multiply(f.multiply(group, n_outputs), w_output),
                f.multiply(f.add(channel, start), w_channel), f.multiply(place, w_place),
            )  # fmt: skip
            columns = f.smaller(f.subtract(channels, start), lanes)
            panel = f.at(area["weight"], f.multiply(pair, pair_size), f.multiply(second, lanes))
            across = f.select(is_pair(even), "i64", width, lanes)
            f.pack(source, w_output, w_channel, n_outputs, columns, panel, across)
        unit.carry(group_cut)

        f.clear(area["image"], image_bytes)
        y = f.at(f.first, f.multiply(image, y_image), f.multiply(group, y_group))
        with f.loop(0, n_count, 2) as vector:
            pair = f.set(f"udiv i64 {vector.index}, 2")
            after = f.add(vector.index, 1)
            here, there = (f.word(area["shifts"], index) for index in (vector.index, after))
            functions = f.tile_functions(n_rows, is_pair(vector.index))
            f.tiles(
                functions, n_rows, n_pixels, y, area["pixels"], area["steps"], n_outputs,
                f.at(area["weight"], f.multiply(pair, pair_size)),
                f.at(area["image"], here), area["targets"], f.subtract(there, here), "true",
            )  # fmt: skip

        with f.loop(0, n_lines[0]) as deep, f.loop(0, n_lines[1]) as high:
            source = f.at(
                area["image"], inside,
                f.multiply(deep.index, line_steps[0]), f.multiply(high.index, line_steps[1]),
            )  # fmt: skip
            f.transpose(source, n_stretch, n_lines[2], channels, area["transposed"], n_line)
            number = f.add(f.multiply(deep.index, n_lines[1]), high.index)
            f.finish_rows(
                image, f.add(f.multiply(group, n_channels), channel),
                f.multiply(number, n_lines[2]), channels, n_lines[2], area["transposed"], n_line,
            )  # fmt: skip
    return f


def weight_driver(conv: Convolution, host: Host, parts: int) -> Driver:
    """The gradient of the weight, from x and that of y.

    Rows of the tile are the numbers of a patch, its vectors run along the output channels, and the
    sum goes over pixels: numbers of x are read where they are (or in a padded copy), y is
    transposed so that channels are contiguous.

    The batch is cut into a number of parts that depends on the sizes alone; each has a sum of its
    own, and the output is (parts, O, C / groups · places), to be added up by its consumer. Threads
    share (part, group, panel of outputs, block of rows).
    """
    f = WideDriver("weight", conv, host)
    size, width = conv.dtype.itemsize, f.width
    cut = f.cut(conv.patch, ROW_BLOCK)
    area = f.patch_areas(cut, y=min(conv.pixels, DEPTH) * width * size)
    n_rows, n_parts, n_panels, n_blocks = f.runtimes(cut.rows, parts, cut.panels, cut.blocks)
    n_patch, n_block, n_pixels = f.runtimes(conv.patch, cut.block, conv.pixels)
    n_batch, n_outputs, n_groups = f.runtimes(conv.batch, conv.outputs, conv.groups)
    n_line = f.runtime(cut.line)
    x_image, x_group = f.runtimes(conv.x[0], conv.x[1] * conv.channels)
    y_image, y_output, y_pixel = f.runtimes(*conv.y[:2], one_stride(conv.out, conv.y[2:]))

    with f.loop(*f.share(f.runtime(parts * conv.groups * cut.panels * cut.blocks))) as unit:
        part, group, number, block = f.unravel(unit.index, [n_parts, n_groups, n_panels, n_blocks])
        row = f.multiply(block, n_block)
        count = f.smaller(f.subtract(n_patch, row), n_block)
        panel = f.panel(number, n_outputs)
        functions = f.tile_functions(n_rows, panel.wide)
        output = f.add(f.multiply(group, n_outputs), panel.start)
        f.clear(area["sums"], f.multiply(n_block, width * size))
        with f.loop(*f.share(n_batch, 1, part, n_parts)) as image:
            a = f.image(f.at(f.first, f.multiply(image.index, x_image), f.multiply(group, x_group)))
            y = f.at(f.second, f.multiply(image.index, y_image), f.multiply(output, y_output))
            with f.loop(0, n_pixels, DEPTH, at_least_once=True) as stretch:
                depth = f.smaller(f.subtract(n_pixels, stretch.index), DEPTH)
                source = f.at(y, f.multiply(stretch.index, y_pixel))
                f.pack(source, y_pixel, y_output, depth, panel.columns, area["y"], panel.width)
                f.tiles(
                    functions, n_rows, count, a, f.entry(area["patch"], row),
                    f.entry(area["pixels"], stretch.index), depth, area["y"], area["sums"],
                    area["places"], f.lanes, "true",
                )  # fmt: skip
        f.transpose(area["sums"], width, count, panel.columns, area["transposed"], n_line)
        f.finish_rows(part, output, row, panel.columns, count, area["transposed"], n_line)
    return f
