"""What a convolution is: its sizes, the strides of its arrays, and how a machine cuts it up.

    y[image, o, pixel] = Σ over c and place in the kernel: weight[o, c, place] · x[image, c, there]

Every convolution is written as one with three spatial dimensions; missing ones come first and have
size 1. Strides are in elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.compiler.plan.lowering import joined

Triple = tuple[int, int, int]

DEPTH = 256  # numbers of a sum after which it goes to memory, so that b stays in the cache
ROW_BLOCK = 512  # rows of the weight's gradient summed together
PIXEL_BLOCK = 160  # pixels of the output computed together
UNITS = 16  # pieces of work that keep many threads busy


@dataclass(frozen=True)
class Convolution:
    """Sizes and strides; channels and outputs are those of one group."""

    dtype: np.dtype[Any]
    batch: int
    groups: int
    channels: int
    outputs: int
    size: Triple
    out: Triple
    kernel: Triple
    stride: Triple
    dilation: Triple
    before: Triple
    after: Triple
    x: tuple[int, ...]  # strides over (batch, channel, *size)
    y: tuple[int, ...]
    weight: tuple[int, int, int]  # over (output, channel, place in the kernel)
    patch_stride: int  # of the weight, over channel and place together
    weight_group: int  # from one group of the weight to the next
    weight_start: int = 0  # where the first place of the kernel lies
    apart: Triple = (1, 1, 1)  # distance of neighbouring pixels of x once it is padded

    @property
    def padded(self) -> bool:
        """Whether x is padded."""
        return any((*self.before, *self.after))

    @property
    def full(self) -> Triple:
        """The size with padding."""
        sizes = zip(self.size, self.apart, self.before, self.after, strict=True)
        a, b, c = ((n - 1) * step + 1 + p + q for n, step, p, q in sizes)
        return a, b, c

    @property
    def pixels(self) -> int:
        """Pixels of the output."""
        return math.prod(self.out)

    def images(self, most: int) -> int:
        """How many images are computed together, as about `most` pixels: a tile is filled, and a
        weight is read, for all of them. A batch is cut evenly."""
        groups = -(-self.batch // max(most // self.pixels, 1))
        return -(-self.batch // max(groups, 1)) or 1

    @property
    def places(self) -> int:
        """Places in the kernel."""
        return math.prod(self.kernel)

    @property
    def patch(self) -> int:
        """Numbers in the sum of one output."""
        return self.channels * self.places

    @property
    def patch_strides(self) -> tuple[int, int, int, int]:
        """How x is read: strides over (channel, *size), of its padded copy if there is one."""
        if not self.padded:
            _, a, b, c, d = self.x
            return a, b, c, d
        depth, height, width = self.full
        return depth * height * width, height * width, width, 1

    @property
    def padded_size(self) -> int:
        """Numbers in the copy of an image with its padding; 0 without padding."""
        return self.patch_strides[0] * self.channels * self.padded


def convolution_of(x: Slice, weight: Slice, y: Slice, attrs: Mapping[str, Any]) -> Convolution:
    """The convolution of arrays (batch, C, *size), (O, C / groups, *kernel), (batch, O, *out)."""
    padding, groups, count = attrs["padding"], attrs["groups"], len(x.shape) - 2
    if count > 3 or not count >= 1:
        raise NoKernel(f"{count} spatial dimensions")
    if x.dtype != y.dtype or x.dtype != weight.dtype or x.dtype.name not in ("float32", "float64"):
        raise NoKernel(f"dtypes {x.dtype}, {weight.dtype}, {y.dtype}")
    if any(p < 0 for pair in padding for p in pair):
        raise NoKernel("negative padding")
    if 0 in (*x.shape[1:], *weight.shape, *y.shape[1:]):
        raise NoKernel("no channels or no pixels")

    def strides(place: Slice) -> tuple[int, ...]:
        return (*place.strides[:2], *three(place.strides[2:], 0))

    o, c, *kernel = weight.strides
    outputs = y.shape[1] // groups
    return Convolution(
        x.dtype, x.shape[0], groups, x.shape[1] // groups, outputs,
        three(x.shape[2:], 1), three(y.shape[2:], 1), three(weight.shape[2:], 1),
        three(attrs["stride"], 1), three(attrs["dilation"], 1),
        three([p for p, _ in padding], 0), three([p for _, p in padding], 0),
        strides(x), strides(y), (o, c, one_stride(weight.shape[2:], kernel)),
        one_stride(weight.shape[1:], weight.strides[1:]), o * outputs,
    )  # fmt: skip


def transposed(conv: Convolution) -> Convolution | None:
    """The gradient of x as a convolution of y, with zeros between its pixels where there is a
    stride, and the weight turned round; None if the padding exceeds the kernel."""
    reach = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel, strict=True)]
    a, b, c = (r - p for r, p in zip(reach, conv.before, strict=True))
    used = [(n - 1) * s + 1 for n, s in zip(conv.out, conv.stride, strict=True)]
    room = zip(conv.size, reach, (a, b, c), used, strict=True)
    d, e, f = (n + r - p - u for n, r, p, u in room)
    if min(a, b, c, d, e, f) < 0:
        return None
    output, channel, place = conv.weight
    return replace(
        conv, channels=conv.outputs, outputs=conv.channels, size=conv.out, out=conv.size,
        x=conv.y, y=conv.x, stride=(1, 1, 1), apart=conv.stride, before=(a, b, c), after=(d, e, f),
        weight=(channel, output, -place), weight_start=(conv.places - 1) * place,
    )  # fmt: skip


def three(numbers: Sequence[int], filling: int) -> Triple:
    """Numbers of up to three spatial dimensions; missing ones come first."""
    a, b, c = (*(filling,) * (3 - len(numbers)), *numbers)
    return a, b, c


def one_stride(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The stride of several dimensions as one."""
    stride = joined(shape, strides)
    if stride is None:
        raise NoKernel("an array that does not lie in order")
    return stride


def matrix_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of an output or extra over (batch, 1, 1, channel, pixel)."""
    image, channel, *spatial = strides
    return image, 0, 0, channel, one_stride(shape[2:], spatial)


# Rows of the tiles that there are, by whether there are many registers. Eight keep the multiplier
# busy; more than ten would not leave enough address registers.
ROWS = {True: (10, 8, 7), False: (6, 5, 4)}


def rows_of_tile(rows: int, host: Host) -> int:
    """The rows of a tile that leaves few of so many rows to be done one by one."""
    fitting = [n for n in ROWS[host.has_many_registers] if n <= rows] or [1]
    return min(fitting, key=lambda n: rows % n * 3 + rows // n)


def up(number: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-number // unit) * unit
