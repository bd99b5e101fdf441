"""Convolution in any number of dimensions, as matrix products on patches.

Three ops, each linear in both operands, are one another's derivatives:

    conv         x, weight -> y        slide the weight over x
    conv_input   y, weight -> x        its transpose in x: what conv_transpose computes
    conv_weight  x, y -> weight        its transpose in the weight

Shapes: x (batch, C, *size), weight (O, C / groups, *kernel), y (batch, O, *out).

Memory beyond operands and result: the padded x, and columns, that is patches side by side, of a
few images at a time (at most `CHUNK` bytes, or one image: C × kernel × out numbers). Nothing but
the operands is kept for backward; the columns are made again, which costs a sixth of a step and
saves a factor of the kernel's size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from gradwalk.ops.op import Op, Shape, define
from gradwalk.ops.shape import getitem_slice

__all__: list[str] = []

CHUNK = 1 << 21
# From this many channels on, one product per place of the kernel beats columns for the transpose.
MANY = 8

Pairs = tuple[tuple[int, int], ...]


def out_size(size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Shape:
    """How many places the kernel can take along each dimension."""
    found = tuple(
        (n + before + after - d * (k - 1) - 1) // s + 1
        for n, k, s, (before, after), d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if any(n < 1 for n in found):
        raise ValueError(
            f"a kernel of size {kernel} (dilation {dilation}) does not fit an input of size "
            f"{size} with padding {padding}"
        )
    return found


def padded(x: Any, padding: Pairs, value: float = 0.0) -> Any:
    """The array x with `value` around its trailing dimensions."""
    if not any(before or after for before, after in padding):
        return x
    lead = x.ndim - len(padding)
    size = [n + b + a for n, (b, a) in zip(x.shape[lead:], padding, strict=True)]
    out = np.full((*x.shape[:lead], *size), value, x.dtype)
    out[inside(x.shape[lead:], padding)] = x
    return out


def inside(size: Shape, padding: Pairs) -> tuple[Any, ...]:
    """The part of a padded array that is not padding."""
    return (..., *(slice(b, b + n) for n, (b, _) in zip(size, padding, strict=True)))


def places(
    kernel: Shape, out: Shape, stride: Shape, dilation: Shape
) -> Iterator[tuple[Shape, tuple[Any, ...]]]:
    """Each place in the kernel, and the slice of a padded x that it meets, over all outputs."""
    for place in product(*map(range, kernel)):
        yield (
            place,
            (
                ...,
                *(
                    slice(i * d, i * d + s * (n - 1) + 1, s)
                    for i, d, s, n in zip(place, dilation, stride, out, strict=True)
                ),
            ),
        )


def _columns(
    x: Any, kernel: Shape, out: Shape, stride: Shape, dilation: Shape, groups: int
) -> Iterator[tuple[slice, Any]]:
    """A few images at a time: which, and their patches as (images, groups, patch, places)."""
    batch, channels = x.shape[:2]
    area = math.prod(kernel)
    shape = (groups, channels // groups * area, math.prod(out))
    if area == 1:  # a patch is one pixel: nothing to copy
        part = x[(..., *(slice(0, s * (n - 1) + 1, s) for s, n in zip(stride, out, strict=True)))]
        yield slice(0, batch), part.reshape(batch, *shape)
        return
    steps = x.strides[2:]
    patches = np.lib.stride_tricks.as_strided(
        x,
        (batch, channels, *kernel, *out),
        (
            *x.strides[:2],
            *(n * d for n, d in zip(steps, dilation, strict=True)),
            *(n * s for n, s in zip(steps, stride, strict=True)),
        ),
        writeable=False,
    )
    each = max(channels * area * shape[-1] * x.itemsize, 1)
    count = max(1, min(batch, CHUNK // each))
    buffer = np.empty((count, *patches.shape[1:]), x.dtype)
    for start in range(0, batch, count):
        images = slice(start, min(start + count, batch))
        part = buffer[: images.stop - start]
        part[...] = patches[images]
        yield images, part.reshape(-1, *shape)


def _conv_forward(
    x: Any, weight: Any, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    kernel = weight.shape[2:]
    out = out_size(x.shape[2:], kernel, stride, padding, dilation)
    x = padded(x, padding)
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)  # (groups, O / groups, patch)
    result = np.empty((len(x), groups, rows.shape[1], math.prod(out)), x.dtype)
    for images, columns in _columns(x, kernel, out, stride, dilation, groups):
        np.matmul(rows, columns, out=result[images])
    return result.reshape(len(x), weight.shape[0], *out)


def _conv_input_forward(
    y: Any,
    weight: Any,
    *,
    shape: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> Any:
    batch, out = y.shape[0], y.shape[2:]
    kernel, each = weight.shape[2:], weight.shape[1]  # channels of x in each group
    full = tuple(n + b + a for n, (b, a) in zip(shape, padding, strict=True))
    scatter = _by_places if each >= MANY else _by_columns
    each_out = y.shape[1] // groups
    grouped = y.reshape(batch, groups, each_out, *out)
    rows = weight.reshape(groups, each_out, *weight.shape[1:])
    x = scatter(grouped, rows, full, list(places(kernel, out, stride, dilation)))
    return x[inside(shape, padding)]


def _by_columns(y: Any, weight: Any, full: Shape, where: list[Any]) -> Any:
    """Columns of a few images by one product, then added up place by place."""
    batch, groups, outputs, *out = y.shape
    each, kernel = weight.shape[2], weight.shape[3:]
    rows = weight.reshape(groups, outputs, -1).mT  # (groups, patch, O / groups)
    flat = y.reshape(batch, groups, outputs, math.prod(out))
    x = np.zeros((batch, groups, each, *full), y.dtype)
    size = max(groups * rows.shape[1] * flat.shape[-1] * y.itemsize, 1)
    count = max(1, min(batch, CHUNK // size))
    for start in range(0, batch, count):
        images = slice(start, start + count)
        columns = np.matmul(rows, flat[images]).reshape(-1, groups, each, *kernel, *out)
        for place, part in where:
            x[images][part] += columns[(slice(None),) * 3 + place]
    return x.reshape(batch, groups * each, *full)


def _by_places(y: Any, weight: Any, full: Shape, where: list[Any]) -> Any:
    """One product per place of the kernel, channels last, so that what is added lies together."""
    batch, groups, outputs, *out = y.shape
    each = weight.shape[2]
    n = len(out)
    last = np.ascontiguousarray(np.moveaxis(y, (1, 0, 2), (0, n + 1, n + 2)))
    last = last.reshape(
        groups, math.prod(out) * batch, outputs
    )  # (groups, out × batch, O / groups)
    kernels = np.ascontiguousarray(np.moveaxis(weight, (0, 1, 2), (-3, -2, -1)))
    x = np.zeros((groups, *full, batch, each), y.dtype)
    product_ = np.empty((groups, last.shape[1], each), y.dtype)
    for place, part in where:
        np.matmul(last, kernels[place], out=product_)
        x[(slice(None), *part[1:])] += product_.reshape(groups, *out, batch, each)
    x = np.moveaxis(x, (n + 1, 0, n + 2), (0, 1, 2))
    return np.ascontiguousarray(x).reshape(batch, groups * each, *full)


def _conv_weight_forward(
    x: Any,
    y: Any,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> Any:
    batch, outputs, *out = y.shape
    x = padded(x, padding)
    flat = y.reshape(batch, groups, outputs // groups, math.prod(out))
    each = x.shape[1] // groups * math.prod(kernel)
    total = np.zeros((groups, outputs // groups, each), x.dtype)
    for images, columns in _columns(x, kernel, tuple(out), stride, dilation, groups):
        total += np.matmul(flat[images], columns.mT).sum(0)
    return total.reshape(outputs, x.shape[1] // groups, *kernel)


# -- the ops -------------------------------------------------------------------------------------


def _like(y: Any, shape: Shape) -> Any:
    """Cut y to `shape`: a transposed convolution may leave room for further outputs."""
    for axis, n in enumerate(shape):
        if y.shape[axis] != n:
            y = getitem_slice(y, axis, 0, n)
    return y


conv: Op = define(
    "conv",
    _conv_forward,
    vjp=[
        lambda g, weight, x_shape, stride, padding, dilation, groups: conv_input(
            g,
            weight,
            shape=x_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        lambda g, x, weight_shape, stride, padding, dilation, groups: conv_weight(
            x,
            g,
            kernel=weight_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
    ],
    shape=lambda x, weight, *, stride, padding, dilation, groups: (
        x[0],
        weight[0],
        *out_size(x[2:], weight[2:], stride, padding, dilation),
    ),
    multilinear=True,
    promotes=True,
)
conv_input: Op = define(
    "conv_input",
    _conv_input_forward,
    vjp=[
        lambda g, weight, y_shape, stride, padding, dilation, groups: _like(
            conv(g, weight, stride=stride, padding=padding, dilation=dilation, groups=groups),
            y_shape,
        ),
        lambda g, y, weight_shape, stride, padding, dilation, groups: conv_weight(
            g,
            y,
            kernel=weight_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
    ],
    shape=lambda y, weight, *, shape, stride, padding, dilation, groups: (
        y[0],
        weight[1] * groups,
        *shape,
    ),
    multilinear=True,
    promotes=True,
)
conv_weight: Op = define(
    "conv_weight",
    _conv_weight_forward,
    vjp=[
        lambda g, y, x_shape, stride, padding, dilation, groups: conv_input(
            y,
            g,
            shape=x_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        lambda g, x, y_shape, stride, padding, dilation, groups: _like(
            conv(x, g, stride=stride, padding=padding, dilation=dilation, groups=groups), y_shape
        ),
    ],
    shape=lambda x, y, *, kernel, stride, padding, dilation, groups: (
        y[1],
        x[1] // groups,
        *kernel,
    ),
    multilinear=True,
    promotes=True,
)
