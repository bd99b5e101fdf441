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

    def pixel_table(
        self, table: str, images: int, strides: Sequence[int], apart: Sequence[int] = (1, 1, 1)
    ) -> None:
        """Offsets of the output's pixels in so many images of an array, which has strides over
        (image, and the three dimensions); neighbours are `apart` steps apart."""
        image, *spatial = strides
        steps = [s * n for s, n in zip(spatial, apart, strict=True)]
        self.fill_table(table, (images, *self.conv.out), (image, *steps))

    def patch_areas(self, cut: Blocks, images: int, **others: int) -> dict[str, str]:
        """Areas for a product of patches of x: tables of pixels, patches and places of sums, padded
        images, sums, and sums transposed. The tables are filled."""
        conv, size = self.conv, self.conv.dtype.itemsize
        area = self.areas(
            pixels=images * conv.pixels * WORD, patch=conv.patch * WORD, places=cut.block * WORD,
            image=images * conv.padded_size * size,
            sums=(cut.line + self.lanes) * self.width * size,  # an image may end in a square
            transposed=self.width * cut.line * size, **others,
        )  # fmt: skip
        channel, *spatial = conv.patch_strides
        image = conv.padded_size or conv.x[0]
        self.pixel_table(area["pixels"], images, (image, *spatial), conv.stride)
        # Numbers of a patch, in the order of the weight.
        steps = [s * n for s, n in zip(spatial, conv.dilation, strict=True)]
        self.fill_table(area["patch"], (conv.channels, *conv.kernel), (channel, *steps))
        self.fill_table(area["places"], (1, 1, 1, cut.block), (0, 0, 0, self.width))
        # The padding around the copies of x is cleared once.
        self.clear(area["image"], self.runtime(images * conv.padded_size * size))
        inside = sum(p * s for p, s in zip(conv.before, spatial, strict=True))
        self._image, self._copy_target = area["image"], self.at(area["image"], self.runtime(inside))
        self._copy_size, self._x_image = self.runtimes(conv.padded_size, conv.x[0])
        self._size = self.runtimes(*conv.size)
        self._from = self.runtimes(*conv.x[1:])
        self._to = self.runtimes(*conv.patch_strides)
        return area

    def images(
        self, in_place: str, count: I64, channels: tuple[I64, I64], changed: str = "true"
    ) -> str:
        """Images of x: where they are, or in padded copies, of some channels, made if `changed`."""
        first, end = channels
        with self.when(self.set(f"and i1 {self.needs_copy}, {changed}")):
            source = self.at(in_place, self.multiply(first, self._from[0]))
            target = self.at(self._copy_target, self.multiply(first, self._to[0]))
            with self.loop(0, count) as image:
                self.copy(
                    self.at(source, self.multiply(image.index, self._x_image)),
                    self.at(target, self.multiply(image.index, self._copy_size)),
                    (self.subtract(end, first), *self._size), self._from, self._to,
                )  # fmt: skip
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
    """y from x and the weight; threads share (group, stretch of outputs, images, block of pixels).

    Rows of the tile are pixels, its vectors run along the output channels: numbers of x are read
    where they are (or in padded copies), the weight is packed once by every thread that uses it.
    Images of few pixels are computed together. Finished sums, pixel by pixel, are transposed so
    that rows are channels, and go through the epilogue.
    """
    f = WideDriver("forward", conv, host)
    width = f.width
    together = conv.images(PIXEL_BLOCK)
    cut = f.cut(together * conv.pixels, PIXEL_BLOCK)
    image_groups = -(-conv.batch // together)
    cuts = -(-UNITS // max(conv.groups * image_groups * cut.blocks, 1)) if together > 1 else 1
    mine = -(-cut.panels // min(cuts, cut.panels))  # panels in a stretch
    cuts = -(-cut.panels // mine)
    area = f.patch_areas(cut, together, weight=mine * conv.patch * width * conv.dtype.itemsize)
    n_rows, n_panels, n_patch = f.runtimes(cut.rows, cut.panels, conv.patch)
    n_outputs, n_pixels, n_block = f.runtimes(conv.outputs, conv.pixels, cut.block)
    n_line, n_blocks, n_batch = f.runtimes(cut.line, cut.blocks, conv.batch)
    n_cuts, n_mine, n_channels = f.runtimes(cuts, mine, conv.channels)
    n_together, n_groups = f.runtimes(together, image_groups)
    x_image, x_group = f.runtimes(conv.x[0], conv.x[1] * conv.channels)
    w_output, w_number = f.runtimes(conv.weight[0], conv.patch_stride)
    panel_size = f.multiply(n_patch, width)

    units = f.runtime(conv.groups * cuts * image_groups * cut.blocks)
    with f.loop(*f.share(units), carried=[("i64", -1), ("i64", -1)]) as unit:
        stretch_before, images_before = unit.carried
        all_images, number = f.divide(unit.index, n_blocks)
        group_cut, image_group = f.divide(all_images, n_groups)
        group, part = f.divide(group_cut, n_cuts)
        first_output = f.multiply(group, n_outputs)
        first_panel = f.multiply(part, n_mine)
        panels = f.smaller(f.subtract(n_panels, first_panel), n_mine)

        with f.when(f.differ(group_cut, stretch_before)), f.loop(0, panels) as each:
            panel = f.panel(f.add(first_panel, each.index), n_outputs)
            source = f.at(f.second, f.multiply(f.add(first_output, panel.start), w_output))
            target = f.at(area["weight"], f.multiply(each.index, panel_size))
            f.pack(source, w_number, w_output, n_patch, panel.columns, target, panel.width)
        first_image = f.multiply(image_group, n_together)
        images = f.smaller(f.subtract(n_batch, first_image), n_together)
        in_place = f.at(f.first, f.multiply(first_image, x_image), f.multiply(group, x_group))
        a = f.images(in_place, images, (0, n_channels), f.differ(all_images, images_before))
        unit.carry(group_cut, all_images)

        pixel = f.multiply(number, n_block)
        count = f.smaller(f.subtract(f.multiply(images, n_pixels), pixel), n_block)
        pixels = f.entry(area["pixels"], pixel)
        each_count = f.smaller(count, n_pixels)  # pixels of one image
        with f.loop(0, panels) as each:
            panel = f.panel(f.add(first_panel, each.index), n_outputs)
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
            output = f.add(first_output, panel.start)
            with f.loop(0, images) as image:
                sums = f.at(area["sums"], f.multiply(f.multiply(image.index, n_pixels), width))
                f.transpose(sums, width, each_count, panel.columns, area["transposed"], n_line)
                f.finish_rows(
                    f.add(first_image, image.index), output, pixel, panel.columns, each_count,
                    area["transposed"], n_line,
                )  # fmt: skip
    return f


def input_driver(conv: Convolution, host: Host) -> Driver:
    """The gradient of x, from that of y and the weight; also a transposed convolution.

    Rows of the tile are pixels of y, its vectors run along the channels of x: the product of a
    pixel's outputs with the weights of one place in the kernel is what the pixel gives to one pixel
    of x. It is added there, in a padded image whose channels are contiguous; that image is then
    transposed, and the part that is not padding goes through the epilogue. No product with padding
    is ever computed. Images of few pixels are computed together. Threads share (group, stretch of
    channels, images).
    """
    f = WideDriver("input", conv, host)
    together = conv.images(PIXEL_BLOCK)
    rows = rows_of_tile(together * conv.pixels, host)
    image_groups = -(-conv.batch // together)
    size, lanes, width = conv.dtype.itemsize, f.lanes, f.width
    vectors = -(-conv.channels // lanes)
    cuts = min(vectors, -(-UNITS // max(image_groups * conv.groups, 1)))
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
        pixels=together * conv.pixels * WORD, targets=together * conv.pixels * WORD,
        steps=conv.outputs * WORD, shifts=(count + 1) * WORD,
        weight=up(count, 2) * conv.outputs * lanes * size,
        image=(together * image_size + lanes * stretch) * size, transposed=stretch * line * size,
    )  # fmt: skip
    steps = (height * wide_line * stretch, wide_line * stretch, stretch)  # in the image
    f.pixel_table(area["pixels"], together, (conv.y[0], *conv.y[2:]))
    f.pixel_table(area["targets"], together, (image_size, *steps), conv.stride)
    f.fill_table(area["steps"], (1, 1, 1, conv.outputs), (0, 0, 0, conv.y[1]))
    places = [s * d for s, d in zip(steps, conv.dilation, strict=True)]
    f.fill_table(area["shifts"], (*conv.kernel, mine), (*places, lanes))
    n_rows, n_count, n_mine = f.runtimes(rows, count, mine)
    n_cuts, n_batch = f.runtimes(cuts, conv.batch)
    n_together, n_groups = f.runtimes(together, image_groups)
    n_outputs, n_channels, n_pixels = f.runtimes(conv.outputs, conv.channels, conv.pixels)
    n_stretch, n_line = f.runtimes(stretch, line)
    n_lines, line_steps = f.runtimes(*lines), f.runtimes(*steps[:2])
    inside = f.runtime(sum(p * s for p, s in zip(conv.before, steps, strict=True)))
    y_image, y_group = f.runtimes(conv.y[0], conv.y[1] * conv.outputs)
    w_output, w_channel, w_place = f.runtimes(*conv.weight)
    n_image, image_bytes = f.runtimes(image_size, image_size * size)
    pair_size = f.multiply(n_outputs, width)

    def is_pair(vector: I64) -> str:
        return f.compare("slt", f.add(vector, 1), n_count)

    units = f.runtime(conv.groups * cuts * image_groups)
    with f.loop(*f.share(units), carried=[("i64", -1)]) as unit:
        (before,) = unit.carried
        group_cut, image_group = f.divide(unit.index, n_groups)
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

        first_image = f.multiply(image_group, n_together)
        images = f.smaller(f.subtract(n_batch, first_image), n_together)
        f.clear(area["image"], f.multiply(images, image_bytes))
        y = f.at(f.first, f.multiply(first_image, y_image), f.multiply(group, y_group))
        with f.loop(0, n_count, 2) as vector:
            pair = f.set(f"udiv i64 {vector.index}, 2")
            after = f.add(vector.index, 1)
            here, there = (f.word(area["shifts"], index) for index in (vector.index, after))
            functions = f.tile_functions(n_rows, is_pair(vector.index))
            f.tiles(
                functions, n_rows, f.multiply(images, n_pixels), y, area["pixels"], area["steps"],
                n_outputs,
                f.at(area["weight"], f.multiply(pair, pair_size)),
                f.at(area["image"], here), area["targets"], f.subtract(there, here), "true",
            )  # fmt: skip

        with (
            f.loop(0, images) as image,
            f.loop(0, n_lines[0]) as deep,
            f.loop(0, n_lines[1]) as high,
        ):
            source = f.at(
                area["image"], f.multiply(image.index, n_image), inside,
                f.multiply(deep.index, line_steps[0]), f.multiply(high.index, line_steps[1]),
            )  # fmt: skip
            f.transpose(source, n_stretch, n_lines[2], channels, area["transposed"], n_line)
            number = f.add(f.multiply(deep.index, n_lines[1]), high.index)
            f.finish_rows(
                f.add(first_image, image.index), f.add(f.multiply(group, n_channels), channel),
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
    together = conv.images(DEPTH)
    cut = f.cut(conv.patch, ROW_BLOCK)
    area = f.patch_areas(cut, together, y=min(together * conv.pixels, DEPTH) * width * size)
    n_rows, n_parts, n_panels, n_blocks = f.runtimes(cut.rows, parts, cut.panels, cut.blocks)
    n_patch, n_block, n_pixels = f.runtimes(conv.patch, cut.block, conv.pixels)
    n_batch, n_outputs, n_groups = f.runtimes(conv.batch, conv.outputs, conv.groups)
    n_line, n_together, n_places = f.runtimes(cut.line, together, conv.places)
    x_image, x_group = f.runtimes(conv.x[0], conv.x[1] * conv.channels)
    y_image, y_output, y_pixel = f.runtimes(*conv.y[:2], one_stride(conv.out, conv.y[2:]))

    with f.loop(*f.share(f.runtime(parts * conv.groups * cut.panels * cut.blocks))) as unit:
        part, group, number, block = f.unravel(unit.index, [n_parts, n_groups, n_panels, n_blocks])
        row = f.multiply(block, n_block)
        count = f.smaller(f.subtract(n_patch, row), n_block)
        last = f.subtract(f.add(row, count), 1)
        first_channel, last_channel = (f.divide(each, n_places)[0] for each in (row, last))
        channels = first_channel, f.add(last_channel, 1)
        panel = f.panel(number, n_outputs)
        functions = f.tile_functions(n_rows, panel.wide)
        output = f.add(f.multiply(group, n_outputs), panel.start)
        f.clear(area["sums"], f.multiply(n_block, width * size))
        start, end = f.share(n_batch, 1, part, n_parts)
        with f.loop(start, end, n_together) as first:
            images = f.smaller(f.subtract(end, first.index), n_together)
            x = f.at(f.first, f.multiply(first.index, x_image), f.multiply(group, x_group))
            a = f.images(x, images, channels)
            y = f.at(f.second, f.multiply(first.index, y_image), f.multiply(output, y_output))
            # Images of more than DEPTH pixels come one at a time, others whole.
            with f.loop(0, n_pixels, DEPTH, at_least_once=True) as stretch:
                depth = f.smaller(f.subtract(n_pixels, stretch.index), DEPTH)
                with f.loop(0, images) as image:
                    source = f.at(
                        y, f.multiply(image.index, y_image), f.multiply(stretch.index, y_pixel)
                    )
                    packed = f.multiply(f.multiply(image.index, n_pixels), panel.width)
                    target = f.at(area["y"], packed)
                    f.pack(source, y_pixel, y_output, depth, panel.columns, target, panel.width)
                f.tiles(
                    functions, n_rows, count, a, f.entry(area["patch"], row),
                    f.entry(area["pixels"], stretch.index), f.multiply(images, depth), area["y"],
                    area["sums"], area["places"], f.lanes, "true",
                )  # fmt: skip
        f.transpose(area["sums"], width, count, panel.columns, area["transposed"], n_line)
        f.finish_rows(part, output, row, panel.columns, count, area["transposed"], n_line)
    return f
