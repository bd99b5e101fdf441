"""Convolution in any number of dimensions, as matrix products on patches.

Three ops, each linear in both operands, are one another's derivatives:

    conv         x, weight -> y        slide the weight over x
    conv_input   y, weight -> x        its transpose in x: what conv_transpose computes
    conv_weight  x, y -> weight        its transpose in the weight

Shapes: x (batch, C, *size), weight (O, C / groups, *kernel), y (batch, O, *out).

In memory the batch comes last, also in the results: (batch, O, *out) is a view of (O, *out, batch).
Then the pixels of a patch's row, for all images, are one run of memory, the whole batch is one
product, and what follows (activations, pooling, normalisation, the next convolution) works on such
memory as it is. `Tensor.view` reorders it when a view is requested.

Memory beyond operands and result: a copy of x, padded and with the batch last, and columns, that is
patches side by side, for a few rows of the output at a time (at most `CHUNK` bytes, or one row:
C × kernel × out width × batch numbers). Nothing but the operands is kept for backward; the columns
are rebuilt, which costs a tenth of a step and saves memory by a factor of the kernel's size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import getitem_slice, reshape

CHUNK = 1 << 21  # bytes of columns that stay in the cache until they are multiplied

Pairs = tuple[tuple[int, int], ...]


def out_size(size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Shape:
    """The number of positions of the kernel along each dimension."""
    counts = tuple(
        (n + before + after - d * (k - 1) - 1) // s + 1
        for n, k, s, (before, after), d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if any(n < 1 for n in counts):
        raise OperandError(
            f"a kernel of size {kernel} (dilation {dilation}) does not fit an input of size "
            f"{size} with padding {padding}"
        )
    return counts


def padded(x: Any, padding: Pairs, value: float = 0.0) -> Any:
    """The array x with `value` around its trailing dimensions, in the same order in memory."""
    if not any(before or after for before, after in padding):
        return x
    lead = x.ndim - len(padding)
    size = [n + b + a for n, (b, a) in zip(x.shape[lead:], padding, strict=True)]
    out = np.full_like(x, value, shape=(*x.shape[:lead], *size))
    out[inside(x.shape[lead:], padding)] = x
    return out


def inside(size: Shape, padding: Pairs) -> tuple[Any, ...]:
    """The part of a padded array that is not padding."""
    return (..., *(slice(b, b + n) for n, (b, _) in zip(size, padding, strict=True)))


@functools.lru_cache(maxsize=256)
def places(
    kernel: Shape, out: Shape, stride: Shape, dilation: Shape
) -> list[tuple[Shape, tuple[Any, ...]]]:
    """Each place in the kernel, and the slice of a padded x that it meets, over all outputs."""
    met = []
    for place in product(*map(range, kernel)):
        starts = zip(place, dilation, stride, out, strict=True)
        slices = (slice(i * d, i * d + s * (n - 1) + 1, s) for i, d, s, n in starts)
        met.append((place, (..., *slices)))
    return met


def is_batch_last(x: Any) -> bool:
    """Whether (batch, *rest) lies in memory as (*rest, batch)."""
    return bool(_moved(x).flags.c_contiguous)


def _moved(x: Any) -> Any:
    """np.moveaxis(x, 0, -1) in a tenth of its time."""
    return x.transpose(*range(1, x.ndim), 0)


def batch_last(x: Any) -> Any:
    """(batch, *rest) as contiguous (*rest, batch); a view where it lies in memory like that."""
    if is_batch_last(x):
        return _moved(x)
    rows = x.reshape(len(x), math.prod(x.shape[1:]))
    if rows.strides[0] % 1024 == 0 and len(x) > 4:
        # A column of such an array lies in few sets of the cache, and copying it is six times
        # slower than with a little room after every row.
        apart = np.empty((len(x), rows.shape[1] + 16), x.dtype)[:, : rows.shape[1]]
        apart[...] = rows
        rows = apart
    return np.ascontiguousarray(rows.T).reshape(*x.shape[1:], len(x))


def batch_first(y: Any) -> Any:
    """A view of (*rest, batch) as (batch, *rest)."""
    return y.transpose(y.ndim - 1, *range(y.ndim - 1))


def _row_chunks(rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Rows of the output, a few at a time."""
    count = max(1, min(rows, CHUNK // max(bytes_per_row, 1)))
    for start in range(0, rows, count):
        yield slice(start, min(start + count, rows))


def _columns(
    x: Any, kernel: Shape, out: Shape, stride: Shape, dilation: Shape, groups: int
) -> Iterator[tuple[slice, Any]]:
    """A few rows of the output at a time: which, and their patches as (groups, patch, places).

    x is (C, *size, batch) and padded.
    """
    channels, batch = x.shape[0], x.shape[-1]
    steps = x.strides[1:-1]
    patches = np.lib.stride_tricks.as_strided(
        x,
        (channels, *kernel, *out, batch),
        (
            x.strides[0],
            *(n * d for n, d in zip(steps, dilation, strict=True)),
            *(n * s for n, s in zip(steps, stride, strict=True)),
            x.strides[-1],
        ),
        writeable=False,
    )
    patch = channels // groups * math.prod(kernel)
    if patches.flags.c_contiguous:  # a patch is one pixel: nothing to copy
        yield slice(0, out[0]), patches.reshape(groups, patch, math.prod(out) * batch)
        return
    row = math.prod(out[1:]) * batch
    every = (slice(None),) * (1 + len(kernel))
    buffer = None
    for rows in _row_chunks(out[0], groups * patch * row * x.itemsize):
        count = rows.stop - rows.start
        if buffer is None or len(buffer) != groups * patch * count * row:
            buffer = np.empty(groups * patch * count * row, x.dtype)
        part = buffer.reshape(channels, *kernel, count, *out[1:], batch)
        part[...] = patches[(*every, rows)]
        yield rows, part.reshape(groups, patch, count * row)


def _matrices(weight: Any, groups: int) -> Any:
    """The weight as (groups, O / groups, patch)."""
    return weight.reshape(groups, len(weight) // groups, math.prod(weight.shape[1:]))


def _flat(y: Any, groups: int) -> Any:
    """y with the batch last as (groups, O / groups, rows, places in a row × batch)."""
    return y.reshape(groups, y.shape[0] // groups, y.shape[1], math.prod(y.shape[2:]))


def _chunk(flat: Any, rows: slice) -> Any:
    """Some rows of the result of `_flat`, as matrices."""
    part = flat[:, :, rows]
    return part.reshape(*part.shape[:2], part.shape[2] * part.shape[3])


def _conv_forward(
    x: Any, weight: Any, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    kernel = weight.shape[2:]
    out = out_size(x.shape[2:], kernel, stride, padding, dilation)
    work = batch_last(padded(x, padding))
    matrix = _matrices(weight, groups)
    result = np.empty((weight.shape[0], *out, len(x)), x.dtype)
    flat = _flat(result, groups)
    for rows, columns in _columns(work, kernel, out, stride, dilation, groups):
        np.matmul(matrix, columns, out=_chunk(flat, rows))
    return batch_first(result)


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
    batch, out = len(y), y.shape[2:]
    kernel, each = weight.shape[2:], weight.shape[1]  # channels of x in each group
    full = tuple(n + b + a for n, (b, a) in zip(shape, padding, strict=True))
    flat = _flat(batch_last(y), groups)
    matrix = _matrices(weight, groups).mT  # (groups, patch, O / groups)
    x = np.zeros((groups * each, *full, batch), y.dtype)
    row = groups * matrix.shape[1] * math.prod(out[1:]) * batch * y.itemsize
    for rows in _row_chunks(out[0], row):
        columns = np.matmul(matrix, _chunk(flat, rows))
        count = rows.stop - rows.start
        columns = columns.reshape(groups * each, *kernel, count, *out[1:], batch)
        for place, (_, first, *others) in places(kernel, (count, *out[1:]), stride, dilation):
            begin = rows.start * stride[0]
            below = slice(first.start + begin, first.stop + begin, first.step)
            x[(slice(None), below, *others)] += columns[(slice(None), *place)]
    x = x[(slice(None), *(slice(b, b + n) for n, (b, _) in zip(shape, padding, strict=True)))]
    return batch_first(x)


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
    outputs, *out = y.shape[1:]
    work = batch_last(padded(x, padding))
    flat = _flat(batch_last(y), groups)
    each = x.shape[1] // groups * math.prod(kernel)
    total = np.zeros((groups, each, outputs // groups), x.dtype)
    for rows, columns in _columns(work, kernel, tuple(out), stride, dilation, groups):
        total += np.matmul(columns, _chunk(flat, rows).mT)  # quicker than its transpose
    return total.mT.reshape(outputs, x.shape[1] // groups, *kernel)


# -- the ops -------------------------------------------------------------------------------------


def _like(y: Any, shape: Shape) -> Any:
    """Cut y to `shape`: a transposed convolution may leave room for further outputs."""
    for axis, n in enumerate(shape):
        if y.shape[axis] != n:
            y = getitem_slice(y, axis, 0, n)
    return y


def _conv_shape(
    x: Shape, weight: Shape, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Shape:
    return (x[0], weight[0], *out_size(x[2:], weight[2:], stride, padding, dilation))


conv: Op = define(
    "conv",
    _conv_forward,
    vjp=[
        lambda g, weight, x_shape, attrs: conv_input(g, weight, shape=x_shape[2:], **attrs),
        lambda g, x, weight_shape, attrs: conv_weight(x, g, kernel=weight_shape[2:], **attrs),
    ],
    shape=_conv_shape,
    multilinear=True,
    promotes=True,
)


def _conv_bias_forward(
    x: Any, weight: Any, bias: Any, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    out = _conv_forward(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    out += bias.reshape(len(bias), *(1,) * (x.ndim - 2))
    return out


def _conv_bias_rule(
    g: Any, x: Any, weight: Any, attrs: dict[str, Any], *, wants: tuple[bool, ...]
) -> tuple[Any, ...]:
    if g.__class__ is np.ndarray:
        g = batch_first(batch_last(g))  # once for all three
    axes = (0, *range(2, g.ndim))
    return (
        conv_input(g, weight, shape=x.shape[2:], **attrs) if wants[0] else None,
        conv_weight(x, g, kernel=weight.shape[2:], **attrs) if wants[1] else None,
        sum_op(g, axis=axes, keepdim=False) if wants[2] else None,
    )


def _conv_bias_expanded(x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    lifted = reshape(bias, shape=(bias.shape[0], *(1,) * (len(x.shape) - 2)))
    return conv(x, weight, **attrs) + lifted


# `conv` plus a bias: saves a pass and a node.
conv_bias: Op = define(
    "conv_bias",
    _conv_bias_forward,
    joint=_conv_bias_rule,
    shape=lambda x, weight, bias, **attrs: _conv_shape(x, weight, **attrs),
    expand=_conv_bias_expanded,
    formula={
        "x": "conv_input(g, {weight})",
        "weight": "conv_weight({x}, g)",
        "bias": "Σ g over batch and places",
    },
    promotes=True,
    on_complex=True,
)


def _without(attrs: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if key != name}


conv_input: Op = define(
    "conv_input",
    _conv_input_forward,
    vjp=[
        lambda g, weight, y_shape, attrs: _like(
            conv(g, weight, **_without(attrs, "shape")), y_shape
        ),
        lambda g, y, weight_shape, attrs: conv_weight(
            g, y, kernel=weight_shape[2:], **_without(attrs, "shape")
        ),
    ],
    shape=lambda y, weight, *, shape, groups, **_: (y[0], weight[1] * groups, *shape),
    multilinear=True,
    promotes=True,
)
conv_weight: Op = define(
    "conv_weight",
    _conv_weight_forward,
    vjp=[
        lambda g, y, x_shape, attrs: conv_input(
            y, g, shape=x_shape[2:], **_without(attrs, "kernel")
        ),
        lambda g, x, y_shape, attrs: _like(conv(x, g, **_without(attrs, "kernel")), y_shape),
    ],
    shape=lambda x, y, *, kernel, groups, **_: (y[1], x[1] // groups, *kernel),
    multilinear=True,
    promotes=True,
)
