"""y from x and the weight.

Rows of the tile are pixels, its vectors run along the output channels: numbers of x are read where
they are (or in a padded copy), the weight is packed once by every thread. Finished sums, pixel by
pixel, are transposed so that rows are channels, and go through the epilogue.

Threads share (group, image, block of pixels).
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.kernels.convolution.driver import Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    DEPTH,
    PIXEL_BLOCK,
    Convolution,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import WideDriver
from gradwalk.compiler.backends.llvm.target import Host


def forward_driver(conv: Convolution, host: Host) -> Driver:
    """Write the driver; its operands are x and the weight."""
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
                adds = f.set(f"icmp sgt i64 {stretch.index}, 0")
                f.tiles(
                    functions, n_rows, count, a, pixels, f.entry(area["patch"], stretch.index),
                    depth, f.at(b, f.multiply(stretch.index, panel.width)), area["sums"], width,
                    area["places"], f.lanes, adds,
                )  # fmt: skip
            f.transpose(area["sums"], width, count, panel.columns, area["transposed"], n_line)
            output = f.add(first_output, panel.start)
            f.finish_rows(image, output, pixel, panel.columns, count, area["transposed"], n_line)
    return f
