"""Convolutions with few channels on one side of a group, such as depthwise ones: vectors run along
the pixels of a row.

An image is copied to scratch memory with its padding. With a stride s along the last dimension its
columns are sorted by their remainder, so that neighbouring outputs read neighbouring numbers:
column c lies at (c mod s) · segment + c div s. The gradient of x is a convolution again: of y, with
s − 1 zeros between its pixels, and the weight turned round.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import WORD, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.parts import DOTS, OUTPUTS, VECTORS
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import UNITS, Convolution
from gradwalk.compiler.backends.llvm.target import Host

FEW = 4  # channels in a group up to which vectors run along the pixels
PIXEL_BLOCK = 2048  # pixels of the output computed together


class NarrowDriver(Driver):
    """What both drivers share: the copy of an image, and the offsets in it."""

    def __init__(self, name: str, conv: Convolution, host: Host) -> None:
        super().__init__(name, conv, host)
        # Columns of a row of the copy with the same remainder.
        self.segment = -(-conv.full[2] // conv.stride[2])
        row = self.segment * conv.stride[2]
        # Strides of the copy over (channel, and the first two dimensions).
        self.copied = math.prod(conv.full[:2]) * row, conv.full[1] * row, row
        # Steps between the lines of the output in the copy.
        self.line_steps = [s * n for s, n in zip(self.copied[1:], conv.stride[:2], strict=True)]
        # Vectors at the end of the last row reach beyond the copy.
        self.image_bytes = (self.copied[0] * conv.channels + self.lanes) * conv.dtype.itemsize
        # The weight in the order of the patch table.
        kernel = conv.kernel
        self.patch_counts = conv.outputs, kernel[2], conv.channels, kernel[0] * kernel[1]

    def prepare_image(self, area: str) -> None:
        """Clear the copy's padding, and read the numbers for copying."""
        conv = self.conv
        self.clear(area, self.runtime(self.image_bytes))
        inside = conv.before[0] * self.copied[1] + conv.before[1] * self.copied[2]
        self._target = self.at(area, self.runtime(inside))
        self._counts = self.runtimes(conv.channels, *conv.size[:2])
        self._from = self.runtimes(*conv.x[1:])
        steps = (self.copied[0], self.copied[1] * conv.apart[0], self.copied[2] * conv.apart[1])
        self._to = self.runtimes(*steps, conv.apart[2])
        self._width, self._before, self._stride, self._segment = self.runtimes(
            conv.size[2], conv.before[2], conv.stride[2], self.segment
        )
        self._image, self._group = self.runtimes(conv.x[0], conv.x[1] * conv.channels)

    def copy_narrow(self, image: I64, group: I64) -> None:
        """Copy an image of x into the area, its columns sorted by their remainder."""
        source = self.at(
            self.first, self.multiply(image, self._image), self.multiply(group, self._group)
        )
        with self.loop(0, self._stride) as remainder:
            # The first column of x that has this remainder: (remainder − before) mod stride.
            shift = self.add(remainder.index, self.multiply(self._before, self._stride))
            _, first = self.divide(self.subtract(shift, self._before), self._stride)
            up = self.add(self.subtract(self._width, first), self.subtract(self._stride, 1))
            count = self.set(f"sdiv i64 {up}, {self._stride}")
            column = self.set(f"udiv i64 {self.add(first, self._before)}, {self._stride}")
            start = self.add(self.multiply(remainder.index, self._segment), column)
            inner = self.multiply(self._from[3], self._stride)
            self.copy(
                self.at(source, self.multiply(first, self._from[3])), self.at(self._target, start),
                [*self._counts, count], [*self._from[:3], inner], self._to,
            )  # fmt: skip

    def fill_patch_table(self, table: str) -> None:
        """Offsets of the numbers of a patch, in the order (column of the kernel, channel, rest)."""
        conv = self.conv
        channel, deep, high = self.copied
        counts = (1, conv.channels, *conv.kernel[:2])
        strides = (0, channel, deep * conv.dilation[0], high * conv.dilation[1])
        numbers = self.runtimes(*counts, *strides)
        each, width = self.runtimes(math.prod(counts), conv.kernel[2])
        # Where each column begins is a list after all other sizes, whose place is known at the end.
        self._list_size = len(self.sizes)
        listed = self.entry("%sizes", self.runtime(0))
        with self.loop(0, width) as j:
            start = self.word(listed, j.index)
            self.offsets(self.entry(table, self.multiply(j.index, each)), start, numbers)

    def end_sizes(self) -> None:
        """Put the list of columns after all sizes."""
        s, d = self.conv.stride[2], self.conv.dilation[2]
        self.sizes[self._list_size] = len(self.sizes)
        for j in range(self.conv.kernel[2]):
            self.sizes.append(j * d % s * self.segment + j * d // s)


def narrow_driver(conv: Convolution, host: Host) -> Driver:
    """y from x and the weight; threads share (group, image, block of rows)."""
    f = NarrowDriver("narrow", conv, host)
    size, lanes = conv.dtype.itemsize, f.lanes
    lines, wide = conv.out[0] * conv.out[1], conv.out[2]
    patch = conv.patch
    blocks = max(-(-lines * wide // PIXEL_BLOCK), -(-UNITS // max(conv.batch * conv.groups, 1)))
    block = -(-lines // min(blocks, lines))  # lines
    blocks = -(-lines // block)
    vectors = -(-wide // lanes)  # of a line
    row = block * wide + lanes  # of the sums
    area = f.areas(
        places=lines * vectors * WORD, targets=block * vectors * WORD, steps=patch * WORD,
        image=f.image_bytes, weight=conv.outputs * patch * size, sums=conv.outputs * row * size,
    )  # fmt: skip
    f.fill_table(area["places"], (1, *conv.out[:2], vectors), (0, *f.line_steps, lanes))
    f.fill_table(area["targets"], (1, 1, block, vectors), (0, 0, wide, lanes))
    f.fill_patch_table(area["steps"])
    f.prepare_image(area["image"])
    n_batch, n_blocks, n_block = f.runtimes(conv.batch, blocks, block)
    n_lines, n_vectors, n_wide = f.runtimes(lines, vectors, wide)
    n_outputs, n_patch, n_row = f.runtimes(conv.outputs, patch, row)
    output, channel, place = conv.weight
    w_start, w_group = f.runtimes(conv.weight_start, conv.weight_group)
    counts = f.patch_counts
    w_counts = f.runtimes(*counts)
    w_from = f.runtimes(output, place, channel, place * conv.kernel[2])
    w_to = f.runtimes(*(math.prod(counts[d + 1 :]) for d in range(4)))

    units = f.runtime(conv.groups * conv.batch * blocks)
    with f.loop(*f.share(units), carried=[("i64", -1), ("i64", -1)]) as unit:
        group_before, image_before = unit.carried
        group_image, number = f.divide(unit.index, n_blocks)
        group, image = f.divide(group_image, n_batch)
        with f.when(f.differ(group, group_before)):
            source = f.at(f.second, w_start, f.multiply(group, w_group))
            f.copy(source, area["weight"], w_counts, w_from, w_to)
        with f.when(f.differ(group_image, image_before)):
            f.copy_narrow(image, group)
        unit.carry(group, group_image)

        line = f.multiply(number, n_block)
        count = f.smaller(f.subtract(n_lines, line), n_block)
        places = f.entry(area["places"], f.multiply(line, n_vectors))
        for outputs, first in f.in_groups(OUTPUTS, n_outputs):
            weight = f.at(area["weight"], f.multiply(first, n_patch))
            sums = f.at(area["sums"], f.multiply(first, n_row))
            all_vectors = f.multiply(count, n_vectors)
            for several, vector in f.in_groups(VECTORS[f.many_registers], all_vectors):
                f.call_part(
                    "rows", area["image"], f.entry(places, vector), area["steps"], n_patch, weight,
                    n_patch, sums, f.entry(area["targets"], vector), n_row,
                    function=f.part("rows", outputs, several),
                )  # fmt: skip
        f.finish_rows(
            image, f.multiply(group, n_outputs), f.multiply(line, n_wide), n_outputs,
            f.multiply(count, n_wide), area["sums"], n_row,
        )  # fmt: skip
    f.end_sizes()
    return f


def narrow_weight_driver(conv: Convolution, host: Host, parts: int) -> Driver:
    """The gradient of the weight from x and that of y, whose last stride is 1; threads share (part
    of the batch, group)."""
    f = NarrowDriver("narrow_weight", conv, host)
    size, lanes = conv.dtype.itemsize, f.lanes
    places, patch = conv.places, conv.patch
    whole, rest = divmod(conv.out[2], lanes)  # vectors of a line, and what is left of it
    lines = conv.out[0] * conv.out[1]
    row = patch + lanes
    sums_size = conv.outputs * patch * lanes * size
    area = f.areas(
        x_whole=lines * whole * WORD, y_whole=lines * whole * WORD, x_rest=lines * WORD,
        y_rest=lines * WORD, patch=patch * WORD, image=f.image_bytes, sums=sums_size,
        added=conv.outputs * patch * size, ordered=conv.outputs * row * size,
    )  # fmt: skip
    for name, steps in (("x", f.line_steps), ("y", list(conv.y[2:4]))):
        f.fill_table(area[f"{name}_whole"], (1, *conv.out[:2], whole), (0, *steps, lanes))
        numbers = f.runtimes(1, 1, *conv.out[:2], 0, 0, *steps)
        f.offsets(area[f"{name}_rest"], f.runtime(whole * lanes), numbers)
    f.fill_patch_table(area["patch"])
    f.prepare_image(area["image"])
    n_batch, n_parts, n_groups = f.runtimes(conv.batch, parts, conv.groups)
    n_outputs, n_patch, n_row = f.runtimes(conv.outputs, patch, row)
    n_whole, n_rest, valid = f.runtimes(lines * whole, lines * bool(rest), rest)
    y_image, y_output, sums_bytes = f.runtimes(*conv.y[:2], sums_size)
    counts = f.patch_counts
    w_counts = f.runtimes(*counts)
    w_from = f.runtimes(*(math.prod(counts[d + 1 :]) for d in range(4)))
    w_to = [n_row, *f.runtimes(1, places, conv.kernel[2])]

    with f.loop(*f.share(f.runtime(parts * conv.groups))) as unit:
        part, group = f.divide(unit.index, n_groups)
        output = f.multiply(group, n_outputs)
        f.clear(area["sums"], sums_bytes)
        with f.loop(*f.share(n_batch, 1, part, n_parts)) as image:
            f.copy_narrow(image.index, group)
            with f.loop(0, n_outputs) as each:
                channel = f.multiply(f.add(output, each.index), y_output)
                given = f.at(f.second, f.multiply(image.index, y_image), channel)
                start = f.multiply(each.index, n_patch)
                for several, number in f.in_groups(DOTS, n_patch):
                    sums = f.at(area["sums"], f.multiply(f.add(start, number), lanes))
                    for name, count, used in (("whole", n_whole, lanes), ("rest", n_rest, valid)):
                        f.call_part(
                            "dots", area["image"], f.entry(area["patch"], number),
                            area[f"x_{name}"], given, area[f"y_{name}"], count, used, sums,
                            function=f.part("dots", several),
                        )  # fmt: skip
        total = f.multiply(n_outputs, n_patch)
        f.call_part("lanes", area["sums"], total, area["added"])
        f.copy(area["added"], area["ordered"], w_counts, w_from, w_to)
        f.finish_rows(part, output, 0, n_outputs, n_patch, area["ordered"], n_row)
    f.end_sizes()
    return f
