"""y from x and the weight.

Rows of the tile are pixels, its vectors run along the output channels: numbers of x are read where
they are (or in a padded copy), the weight is packed once by every thread. Finished sums, pixel by
pixel, are turned so that rows are channels, and go through the epilogue.

Threads share (group, image, block of pixels).
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import (
    DEPTH,
    PIXEL_BLOCK,
    Convolution,
    rows_of_tile,
    up,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import WideDriver
from gradwalk.compiler.backends.llvm.target import Host


def forward_driver(conv: Convolution, host: Host) -> Driver:
    """The driver; its operands are x and the weight."""
    f = WideDriver("forward", conv, host)
    size, lanes, width = conv.dtype.itemsize, f.lanes, f.width
    rows = rows_of_tile(conv.pixels, host)
    blocks = -(-conv.pixels // PIXEL_BLOCK)
    block = up(-(-conv.pixels // blocks), rows)
    blocks = -(-conv.pixels // block)
    panels = -(-conv.outputs // width)
    line = up(block, lanes)  # whole squares to be turned
    area = f.areas(
        pixels=conv.pixels * WORD, steps=conv.patch * WORD, places=rows * WORD,
        image=conv.padded_bytes, weight=panels * conv.patch * width * size,
        sums=line * width * size, turned=width * line * size,
    )  # fmt: skip
    f.pixel_table(area["pixels"], conv.patch_strides[1:], conv.stride)
    f.patch_table(area["steps"])
    f.fill_table(area["places"], (1, 1, 1, rows), (0, 0, 0, width))
    f.prepare_copies(area["image"])
    n_rows, n_panels, n_patch = (f.runtime(n) for n in (rows, panels, conv.patch))
    n_outputs, n_pixels, n_block = (f.runtime(n) for n in (conv.outputs, conv.pixels, block))
    n_line, n_blocks, n_batch = (f.runtime(n) for n in (line, blocks, conv.batch))
    x_image, x_group = f.runtime(conv.x[0]), f.runtime(conv.x[1] * conv.channels)
    w_output, w_number = f.runtime(conv.weight[0]), f.runtime(conv.patch_stride)
    panel_size = f.multiply(n_patch, str(width))

    first, end = f.share(conv.groups * conv.batch * blocks)
    with f.loop(first, end, carried=[("i64", "-1"), ("i64", "-1")]) as unit:
        group_before, image_before = unit.carried
        group_image, number = f.divided(unit.index, n_blocks)
        group, image = f.divided(group_image, n_batch)
        first_output = f.multiply(group, n_outputs)

        with f.when(f.differs(group, group_before)), f.loop("0", n_panels) as panel:
            start = f.multiply(panel.index, str(width))
            columns = f.smaller(f.minus(n_outputs, start), str(width))
            wide = f.set(f"icmp sgt i64 {columns}, {lanes}")
            source = f.at(f.second, f.multiply(f.add(first_output, start), w_output))
            target = f.at(area["weight"], f.multiply(panel.index, panel_size))
            b_width = f.choose(wide, "i64", str(width), str(lanes))
            f.pack(source, w_number, w_output, n_patch, columns, target, b_width)
        in_place = f.at(f.first, f.multiply(image, x_image), f.multiply(group, x_group))
        other_image = f.differs(group_image, image_before)
        with f.when(f.set(f"and i1 {f.needs_copy}, {other_image}")):
            f.copy_image(in_place)
        a = f.choose(f.needs_copy, "ptr", area["image"], in_place)
        unit.carry(group, group_image)

        pixel = f.multiply(number, n_block)
        count = f.smaller(f.minus(n_pixels, pixel), n_block)
        pixels = f.entry(area["pixels"], pixel)
        with f.loop("0", n_panels) as panel:
            start = f.multiply(panel.index, str(width))
            columns = f.smaller(f.minus(n_outputs, start), str(width))
            wide = f.set(f"icmp sgt i64 {columns}, {lanes}")
            b_width = f.choose(wide, "i64", str(width), str(lanes))
            functions = f.tile_functions(n_rows, wide)
            b = f.at(area["weight"], f.multiply(panel.index, panel_size))
            with f.loop("0", n_patch, str(DEPTH), at_least_once=True) as stretch:
                depth = f.smaller(f.minus(n_patch, stretch.index), str(DEPTH))
                adds = f.set(f"icmp sgt i64 {stretch.index}, 0")
                f.tiles(
                    functions, n_rows, count, a, pixels, f.entry(area["steps"], stretch.index),
                    depth, f.at(b, f.multiply(stretch.index, b_width)), area["sums"], str(width),
                    area["places"], str(lanes), adds,
                )  # fmt: skip
            f.turn(area["sums"], str(width), count, columns, area["turned"], n_line)
            f.finish_rows(
                image, f.add(first_output, start), pixel, columns, count, area["turned"], n_line
            )
    return f
