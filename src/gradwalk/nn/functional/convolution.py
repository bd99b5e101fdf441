"""Convolutions in one, two and three dimensions, computed by ops/network/convolution.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.nn.functional.dimensions import Size, check_rank, for_dimensions, sizes
from gradwalk.ops.core.op import Shape
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.index.indexing import getitem, put
from gradwalk.ops.network import convolution as ops
from gradwalk.ops.shape.reshaping import pad, permute, reshape

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "conv_tbc", "fold", "unfold",
]  # fmt: skip


def padding_pairs(padding: Size | str, kernel: Shape, stride: Shape, dilation: Shape) -> ops.Pairs:
    """The padding before and after each dimension."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError("padding='same' needs stride 1")
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ValueError(f"padding must be numbers, 'same' or 'valid', not {padding!r}")
    return tuple((p, p) for p in sizes("padding", padding, len(kernel), 0))


def transposed_size(
    size: Shape, stride: Shape, padding: Shape, dilation: Shape, kernel: Shape
) -> Shape:
    """The size of a transposed convolution's output, without output padding."""
    each = zip(size, stride, padding, dilation, kernel, strict=True)
    return tuple((length - 1) * s - 2 * p + d * (k - 1) + 1 for length, s, p, d, k in each)


def _batched(name: str, x: Any, n: int) -> tuple[Any, bool]:
    """x with a batch dimension, and whether it had one."""
    check_rank(name, x, n)
    return (x, True) if x.ndim == n + 2 else (reshape(x, shape=(1, *x.shape)), False)


def _as_before(out: Any, batched: bool) -> Any:
    """The result without a batch dimension that the input did not have."""
    return out if batched else reshape(out, shape=tuple(out.shape[1:]))


def conv(
    n: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Any:
    """A convolution over n dimensions."""
    x, batched = _batched(f"conv{n}d", input, n)
    if weight.ndim != n + 2 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise OperandError(
            f"conv{n}d: input {tuple(x.shape)} and weight {tuple(weight.shape)} do not fit with "
            f"groups={groups}: the weight must be (out, channels / groups, *kernel)"
        )
    kernel = tuple(weight.shape[2:])
    strides, dilations = sizes("stride", stride, n), sizes("dilation", dilation, n)
    pads = padding_pairs(padding, kernel, strides, dilations)
    attrs = dict(stride=strides, padding=pads, dilation=dilations, groups=groups)
    operands = (x, weight) if bias is None else (x, weight, bias)
    op = ops.conv if bias is None else ops.conv_bias
    return _as_before(op(*operands, **attrs), batched)


conv1d = for_dimensions(
    conv, 1, "Slide `weight` (out, channels / groups, k) over (batch, channels, length)."
)
conv2d = for_dimensions(
    conv,
    2,
    """Slide `weight` (out, channels / groups, kh, kw) over (batch, channels, height, width).

    `padding` is numbers, "valid" (none) or "same" (the output as large as the input).

    >>> import gradwalk as gw
    >>> gw.nn.functional.conv2d(gw.ones(1, 1, 3, 3), gw.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """,
)
conv3d = for_dimensions(conv, 3, "Slide `weight` over (batch, channels, depth, height, width).")


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """`conv1d` of (time, batch, channels), with `weight` (k, channels, out)."""
    x, w = permute(input, axes=(1, 2, 0)), permute(weight, axes=(2, 1, 0))
    return permute(conv(1, x, w, bias, padding=pad), axes=(2, 0, 1))


def conv_transpose(
    n: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Any:
    """The transpose of a convolution over n dimensions."""
    name = f"conv_transpose{n}d"
    x, batched = _batched(name, input, n)
    if weight.ndim != n + 2 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise OperandError(
            f"{name}: input {tuple(x.shape)} and weight {tuple(weight.shape)} do not fit with "
            f"groups={groups}: the weight must be (channels, out / groups, *kernel)"
        )
    strides, dilations = sizes("stride", stride, n), sizes("dilation", dilation, n)
    pads = sizes("padding", padding, n, 0)
    extra = sizes("output_padding", output_padding, n, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: output_padding {extra} must be smaller than stride {strides} or dilation "
            f"{dilations}"
        )
    smallest = transposed_size(x.shape[2:], strides, pads, dilations, weight.shape[2:])
    shape = tuple(size + e for size, e in zip(smallest, extra, strict=True))
    if any(size < 1 for size in shape):
        raise ValueError(f"{name}: the output would have size {shape}")
    padded = tuple((p, p) for p in pads)
    attrs = dict(shape=shape, stride=strides, padding=padded, dilation=dilations, groups=groups)
    out = ops.conv_input(x, weight, **attrs)
    if bias is not None:
        out = out + reshape(bias, shape=(bias.shape[0], *(1,) * n))
    return _as_before(out, batched)


conv_transpose1d = for_dimensions(
    conv_transpose,
    1,
    "The transpose of conv1d in its input; `weight` is (channels, out / groups, k).",
)
conv_transpose2d = for_dimensions(
    conv_transpose,
    2,
    """The transpose of conv2d in its input: the gradient of conv2d as a layer.

    >>> import gradwalk as gw
    >>> gw.nn.functional.conv_transpose2d(gw.ones(1, 1, 2, 2), gw.ones(1, 1, 2, 2), stride=2).shape
    (1, 1, 4, 4)
    """,
)
conv_transpose3d = for_dimensions(conv_transpose, 3, "The transpose of conv3d in its input.")


# -- patches ---------------------------------------------------------------------------------------


def _patches(
    size: Size, kernel_size: Size, dilation: Size, padding: Size, stride: Size
) -> tuple[Shape, Shape, Any]:
    """The kernel, the padding, and the places (kernel, patches) in a padded, flattened image."""
    shape, kernel = sizes("size", size, 2), sizes("kernel_size", kernel_size, 2)
    pads, strides = sizes("padding", padding, 2, 0), sizes("stride", stride, 2)
    dilations = sizes("dilation", dilation, 2)
    full = tuple(n + 2 * p for n, p in zip(shape, pads, strict=True))
    counts = ops.out_size(full, kernel, strides, ((0, 0),) * 2, dilations)
    down, across = (
        (np.arange(k) * d)[:, None] + np.arange(count) * s
        for k, d, count, s in zip(kernel, dilations, counts, strides, strict=True)
    )  # (kernel, patches) along each dimension
    flat = down[:, None, :, None] * full[1] + across[None, :, None, :]
    return kernel, pads, flat.reshape(math.prod(kernel), math.prod(counts))


def unfold(
    input: Any, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Any:
    """The patches of (N, C, H, W) that a convolution meets, as columns: (N, C × kernel, patches).

    >>> import gradwalk as gw
    >>> gw.nn.functional.unfold(gw.arange(9.0).reshape(1, 1, 3, 3), 2).shape
    (1, 4, 4)
    """
    x, batched = _batched("unfold", input, 2)
    kernel, (high, wide), flat = _patches(x.shape[2:], kernel_size, dilation, padding, stride)
    x = pad(x, (wide, wide, high, high))
    batch, channels = x.shape[:2]
    rows = reshape(x, shape=(batch, channels, math.prod(x.shape[2:])))
    columns = getitem(rows, flat, index=("...", ("array", 0)))
    shape = (batch, channels * math.prod(kernel), flat.shape[1])
    return _as_before(reshape(columns, shape=shape), batched)


def fold(
    input: Any,
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Any:
    """The transpose of `unfold`: the columns added at their places in an image."""
    batched = input.ndim == 3
    columns = input if batched else reshape(input, shape=(1, *input.shape))
    out = sizes("output_size", output_size, 2)
    kernel, (high, wide), flat = _patches(out, kernel_size, dilation, padding, stride)
    batch, rows = columns.shape[:2]
    channels = rows // math.prod(kernel)
    if channels * math.prod(kernel) != rows or columns.shape[2] != flat.shape[1]:
        raise ValueError(
            f"fold to {out} with kernel_size {kernel} takes (N, C × {math.prod(kernel)}, "
            f"{flat.shape[1]}), not {tuple(input.shape)}"
        )
    full = (out[0] + 2 * high, out[1] + 2 * wide)
    parts = reshape(columns, shape=(batch, channels, *flat.shape))
    shape = (batch, channels, math.prod(full))
    image = put(parts, flat, index=("...", ("array", 0)), shape=shape)
    image = reshape(image, shape=(batch, channels, *full))
    return _as_before(pad(image, (-wide, -wide, -high, -high)), batched)
