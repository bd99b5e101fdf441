"""Convolutions and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.images import sampled
from gradwalk.onnx.operators.quantization import centered, requantized
from gradwalk.onnx.operators.table import OnnxNode, constant, operator
from gradwalk.ops.network import convolution as ops

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def sizes_of(node: OnnxNode, name: str, n: int, default: int = 1) -> Sizes:
    """One number for each of n dimensions."""
    return tuple(map(int, node.get(name, (default,) * n)))


def padding_of(node: OnnxNode, size: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pairs:
    """How many places are added before and after each dimension."""
    n, automatic = len(kernel), node.get("auto_pad", "NOTSET")
    if automatic == "VALID":
        return ((0, 0),) * n
    if automatic == "NOTSET":
        given = sizes_of(node, "pads", 2 * n, 0)
        return tuple(zip(given[:n], given[n:], strict=True))
    pairs = []
    for own, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = max((-(-own // s) - 1) * s + (k - 1) * d + 1 - own, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if automatic == "SAME_UPPER" else (large, small))
    return tuple(pairs)


def _attributes(node: OnnxNode, x: Any, weight: Any) -> dict[str, Any]:
    kernel = tuple(weight.shape[2:])
    n = len(kernel)
    stride, dilation = sizes_of(node, "strides", n), sizes_of(node, "dilations", n)
    padding = padding_of(node, tuple(x.shape[2:]), kernel, stride, dilation)
    return dict(stride=stride, padding=padding, dilation=dilation, groups=int(node.get("group", 1)))


@operator("Conv")
def conv(node: OnnxNode, x: Any, weight: Any, bias: Any = None) -> Any:
    attributes = _attributes(node, x, weight)
    if bias is None:
        return ops.conv(x, weight, **attributes)
    return ops.conv_bias(x, weight, bias, **attributes)


@operator("ConvTranspose")
def conv_transpose(node: OnnxNode, x: Any, weight: Any, bias: Any = None) -> Any:
    kernel, size = tuple(weight.shape[2:]), tuple(x.shape[2:])
    n = len(kernel)
    stride, dilation = sizes_of(node, "strides", n), sizes_of(node, "dilations", n)
    extra = sizes_of(node, "output_padding", n, 0)
    # the size before anything is cut off
    whole = [
        (own - 1) * s + (k - 1) * d + 1 + e
        for own, s, k, d, e in zip(size, stride, kernel, dilation, extra, strict=True)
    ]
    automatic, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if wanted is None and automatic.startswith("SAME"):
        wanted = [own * s for own, s in zip(size, stride, strict=True)]
    if wanted is not None:
        padding, shape = [], tuple(int(size) for size in list(wanted)[-n:])
        for full, kept in zip(whole, shape, strict=True):
            total = max(full - kept, 0)
            small, large = total // 2, total - total // 2
            padding.append((large, small) if automatic == "SAME_LOWER" else (small, large))
    else:
        padding = list(padding_of(node, size, kernel, stride, dilation))
        shape = tuple(full - b - a for full, (b, a) in zip(whole, padding, strict=True))
    groups = int(node.get("group", 1))
    out = ops.conv_input(
        x, weight, shape=shape, stride=stride, padding=tuple(padding), dilation=dilation,
        groups=groups,
    )  # fmt: skip
    return out if bias is None else out + gw.reshape(bias, (-1, *(1,) * n))


@operator("ConvInteger")
def conv_integer(
    node: OnnxNode, x: Any, weight: Any, x_zero: Any = None, w_zero: Any = None
) -> Any:
    attributes = _attributes(node, x, weight)
    return ops.conv(centered(x, x_zero), centered(weight, w_zero, 0), **attributes).to(gw.int32)


@operator("QLinearConv")
def qlinear_conv(
    node: OnnxNode, x: Any, x_scale: Any, x_zero: Any, weight: Any, w_scale: Any, w_zero: Any,
    scale: Any, zero: Any, bias: Any = None,
) -> Any:  # fmt: skip
    attributes = _attributes(node, x, weight)
    spread = (-1, *(1,) * (x.ndim - 2))
    out = ops.conv(centered(x, x_zero), centered(weight, w_zero, 0), **attributes)
    if bias is not None:
        out = out + gw.reshape(bias.double(), spread)
    factor = x_scale.double() * w_scale.double() / scale.double()
    return requantized(out * (gw.reshape(factor, spread) if factor.ndim else factor), zero)


@operator("Col2Im", numbers=(1, 2))
def col2im(node: OnnxNode, x: Any, image: Any, block: Any) -> Any:
    size, kernel = tuple(map(int, image)), tuple(map(int, block))
    n, places = len(kernel), math.prod(kernel)
    stride, dilation = sizes_of(node, "strides", n), sizes_of(node, "dilations", n)
    padding = padding_of(node, size, kernel, stride, dilation)
    out = ops.out_size(size, kernel, stride, padding, dilation)
    channels = x.shape[1] // places
    # The transpose of a convolution that copies each place of the kernel to a channel of its own.
    weight = np.tile(np.eye(places).reshape(places, 1, *kernel), (channels, *(1,) * (n + 1)))
    columns = gw.reshape(x, (x.shape[0], x.shape[1], *out))
    return ops.conv_input(
        columns, constant(weight.astype(x.dtype)), shape=size, stride=stride, padding=padding,
        dilation=dilation, groups=channels,
    )  # fmt: skip


@operator("DeformConv")
def deform_conv(
    node: OnnxNode, x: Any, weight: Any, offset: Any, bias: Any = None, mask: Any = None
) -> Any:
    """Sample the input where the offsets point, then multiply by the weight."""
    batch, channels = x.shape[:2]
    kernel, size = tuple(weight.shape[2:]), tuple(x.shape[2:])
    n, places = len(kernel), math.prod(kernel)
    attributes = _attributes(node, x, weight)
    out = tuple(offset.shape[2:])
    groups, spread = attributes["groups"], int(node.get("offset_group", 1))
    grid = np.stack(np.meshgrid(*map(np.arange, kernel), indexing="ij")).reshape(
        n, places, *(1,) * n
    )
    steps = np.stack(np.meshgrid(*map(np.arange, out), indexing="ij")).reshape(n, 1, *out)
    across = (-1, 1, *(1,) * n)
    start = np.array([before for before, _ in attributes["padding"]]).reshape(across)
    base = steps * np.reshape(attributes["stride"], across) - start
    base = base + grid * np.reshape(attributes["dilation"], across)  # (n, places, *out)
    moved = gw.reshape(offset, (batch, spread, places, n, *out))
    moved = gw.movedim(moved, 3, 0) + constant(base.astype(x.dtype)[:, None, None])
    per_group = gw.reshape(x, (batch * spread, channels // spread, *size))
    where = [gw.reshape(part, (batch * spread, places * math.prod(out))) for part in moved]
    columns = sampled(per_group, where)  # (batch × spread, channels / spread, places × out)
    if mask is not None:
        columns = columns * gw.reshape(mask, (batch * spread, 1, -1))
    rows = gw.reshape(columns, (batch, groups, (channels // groups) * places, math.prod(out)))
    matrix = gw.reshape(weight, (groups, weight.shape[0] // groups, -1))
    result = gw.reshape(matrix @ rows, (batch, weight.shape[0], *out))
    return result if bias is None else result + gw.reshape(bias, (-1, *(1,) * n))
