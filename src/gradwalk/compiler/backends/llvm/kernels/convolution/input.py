"""The gradient of x, from that of y and the weight: also what a transposed convolution computes.

Rows of the tile are pixels of y, its vectors run along the channels of x: the product of a pixel's
outputs with the weights of one place in the kernel is what the pixel gives to one pixel of x. It is
added there, in a padded image whose channels are contiguous; that image is then transposed, and the
part that is not padding goes through the epilogue. No product with padding is ever computed.

Threads share (group, stretch of channels, image).
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    UNITS,
    Convolution,
    rows_of_tile,
    up,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import WideDriver
from gradwalk.compiler.backends.llvm.target import Host

LONGEST_LINE = 1024  # pixels of x that are transposed at once


def input_driver(conv: Convolution, host: Host) -> Driver:
    """Write the driver; its operands are the gradient of y and the weight."""
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
        return f.set(f"icmp slt i64 {f.add(vector, 1)}, {n_count}")

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
                f.at(area["image"], here), None, area["targets"], f.subtract(there, here), "true",
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
