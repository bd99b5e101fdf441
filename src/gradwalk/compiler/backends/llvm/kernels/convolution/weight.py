"""The gradient of the weight, from x and that of y.

Rows of the tile are the numbers of a patch, its vectors run along the output channels, and the sum
goes over pixels: numbers of x are read where they are (or in a padded copy), y is turned so that
channels are contiguous.

The batch is cut into a number of parts that depends on the sizes alone; each has a sum of its own,
and the output is (parts, O, C / groups · places), to be added up by whoever reads it. Threads share
(part, group, panel of outputs, block of rows).
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import (
    DEPTH,
    ROW_BLOCK,
    Convolution,
    one_stride,
    rows_of_tile,
    up,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import WideDriver
from gradwalk.compiler.backends.llvm.target import Host


def weight_driver(conv: Convolution, host: Host, parts: int) -> Driver:
    """The driver; its operands are x and the gradient of y."""
    f = WideDriver("weight", conv, host)
    size, lanes, width = conv.dtype.itemsize, f.lanes, f.width
    rows = rows_of_tile(conv.patch, host)
    blocks = -(-conv.patch // ROW_BLOCK)
    block = up(-(-conv.patch // blocks), rows)
    blocks = -(-conv.patch // block)
    panels = -(-conv.outputs // width)
    line = up(block, lanes)  # whole squares to be turned
    y_stride = one_stride(conv.out, conv.y[2:])
    area = f.areas(
        rows=conv.patch * WORD, steps=conv.pixels * WORD, places=rows * WORD,
        image=conv.padded_bytes, y=min(conv.pixels, DEPTH) * width * size,
        sums=line * width * size, turned=width * line * size,
    )  # fmt: skip
    f.pixel_table(area["steps"], conv.patch_strides[1:], conv.stride)
    f.patch_table(area["rows"])
    f.fill_table(area["places"], (1, 1, 1, rows), (0, 0, 0, width))
    f.prepare_copies(area["image"])
    n_rows, n_parts, n_panels, n_blocks = (f.runtime(n) for n in (rows, parts, panels, blocks))
    n_patch, n_block, n_pixels = (f.runtime(n) for n in (conv.patch, block, conv.pixels))
    n_batch, n_outputs, n_groups = (f.runtime(n) for n in (conv.batch, conv.outputs, conv.groups))
    n_line = f.runtime(line)
    x_image, x_group = f.runtime(conv.x[0]), f.runtime(conv.x[1] * conv.channels)
    y_image, y_output, y_pixel = (f.runtime(n) for n in (conv.y[0], conv.y[1], y_stride))

    first, end = f.share(parts * conv.groups * panels * blocks)
    with f.loop(first, end) as unit:
        rest, number = f.divided(unit.index, n_blocks)
        rest, panel = f.divided(rest, n_panels)
        part, group = f.divided(rest, n_groups)
        row = f.multiply(number, n_block)
        count = f.smaller(f.minus(n_patch, row), n_block)
        start = f.multiply(panel, str(width))
        columns = f.smaller(f.minus(n_outputs, start), str(width))
        wide = f.set(f"icmp sgt i64 {columns}, {lanes}")
        b_width = f.choose(wide, "i64", str(width), str(lanes))
        functions = f.tile_functions(n_rows, wide)
        output = f.add(f.multiply(group, n_outputs), start)
        f.clear(area["sums"], f.multiply(n_block, str(width * size)))
        first_image, end_image = (
            f.set(f"udiv i64 {f.multiply(n, n_batch)}, {n_parts}") for n in (part, f.add(part, "1"))
        )
        with f.loop(first_image, end_image) as image:
            in_place = f.at(f.first, f.multiply(image.index, x_image), f.multiply(group, x_group))
            with f.when(f.needs_copy):
                f.copy_image(in_place)
            a = f.choose(f.needs_copy, "ptr", area["image"], in_place)
            y = f.at(f.second, f.multiply(image.index, y_image), f.multiply(output, y_output))
            with f.loop("0", n_pixels, str(DEPTH), at_least_once=True) as stretch:
                depth = f.smaller(f.minus(n_pixels, stretch.index), str(DEPTH))
                source = f.at(y, f.multiply(stretch.index, y_pixel))
                f.pack(source, y_pixel, y_output, depth, columns, area["y"], b_width)
                f.tiles(
                    functions, n_rows, count, a, f.entry(area["rows"], row),
                    f.entry(area["steps"], stretch.index), depth, area["y"], area["sums"],
                    str(width), area["places"], str(lanes), "true",
                )  # fmt: skip
        f.turn(area["sums"], str(width), count, columns, area["turned"], n_line)
        f.finish_rows(part, output, row, columns, count, area["turned"], n_line)
    return f
