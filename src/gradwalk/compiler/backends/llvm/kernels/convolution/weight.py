"""The gradient of the weight, from x and that of y.

Rows of the tile are the numbers of a patch, its vectors run along the output channels, and the sum
goes over pixels: numbers of x are read where they are (or in a padded copy), y is transposed so
that channels are contiguous.

The batch is cut into a number of parts that depends on the sizes alone; each has a sum of its own,
and the output is (parts, O, C / groups · places), to be added up by its consumer. Threads share
(part, group, panel of outputs, block of rows).
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.kernels.convolution.driver import Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    DEPTH,
    ROW_BLOCK,
    Convolution,
    one_stride,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import WideDriver
from gradwalk.compiler.backends.llvm.target import Host


def weight_driver(conv: Convolution, host: Host, parts: int) -> Driver:
    """Write the driver; its operands are x and the gradient of y."""
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
        with f.loop(*f.part_of_batch(part, n_parts, n_batch)) as image:
            a = f.image(f.at(f.first, f.multiply(image.index, x_image), f.multiply(group, x_group)))
            y = f.at(f.second, f.multiply(image.index, y_image), f.multiply(output, y_output))
            with f.loop(0, n_pixels, DEPTH, at_least_once=True) as stretch:
                depth = f.smaller(f.subtract(n_pixels, stretch.index), DEPTH)
                source = f.at(y, f.multiply(stretch.index, y_pixel))
                f.pack(source, y_pixel, y_output, depth, panel.columns, area["y"], panel.width)
                f.tiles(
                    functions, n_rows, count, a, f.entry(area["patch"], row),
                    f.entry(area["pixels"], stretch.index), depth, area["y"], area["sums"],
                    width, area["places"], f.lanes, "true",
                )  # fmt: skip
        f.transpose(area["sums"], width, count, panel.columns, area["transposed"], n_line)
        f.finish_rows(part, output, row, panel.columns, count, area["transposed"], n_line)
    return f
