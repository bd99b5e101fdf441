"""Pooling."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.convolution import Pairs, Sizes, padding_of, sizes_of
from gradwalk.onnx.operators.table import OnnxNode, constant, operator
from gradwalk.ops.network import convolution, pooling


def _windows(node: OnnxNode, x: Any) -> dict[str, Any]:
    """The attributes of our pooling ops."""
    kernel = tuple(map(int, node.get("kernel_shape")))
    n, size = len(kernel), tuple(x.shape[2:])
    stride, dilation = sizes_of(node, "strides", n), sizes_of(node, "dilations", n)
    padding = padding_of(node, size, kernel, stride, dilation)
    out = []
    for own, k, s, d, (before, after) in zip(size, kernel, stride, dilation, padding, strict=True):
        room = own + before + after - d * (k - 1) - 1
        count = (room + (s - 1 if node.get("ceil_mode", 0) else 0)) // s + 1
        if node.get("ceil_mode", 0) and (count - 1) * s >= own + before:
            count -= 1  # the last window must begin inside the input or the padding before it
        out.append(count)
    return dict(kernel=kernel, out=tuple(out), stride=stride, padding=padding, dilation=dilation)


@operator("MaxPool")
def max_pool(node: OnnxNode, x: Any) -> Any:
    windows = _windows(node, x)
    values = pooling.max_pool(x, **windows)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return values
    places = pooling.max_pool_indices(x, **windows)  # in one channel
    size = tuple(x.shape[2:])
    if node.get("storage_order", 0):  # counted along the first dimension first
        table = np.arange(math.prod(size)).reshape(size[::-1]).T.reshape(-1)
        places = constant(table)[places]
    channels = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(size))
    return values, places + constant(channels * math.prod(size))


def _sums(x: Any, kernel: Sizes, out: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Any:
    """The sum of every window, which may have gaps."""
    if all(d == 1 for d in dilation):
        return pooling.pool_sum(x, kernel=kernel, out=out, stride=stride, padding=padding)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, stride, kernel, dilation)]
    covering = tuple(
        (before, max(after, r - n - before))
        for n, r, (before, after) in zip(x.shape[2:], reach, padding, strict=True)
    )
    ones = constant(np.ones((1, 1, *kernel), x.dtype))
    planes = gw.reshape(x, (-1, 1, *x.shape[2:]))
    total = convolution.conv(
        planes, ones, stride=stride, padding=covering, dilation=dilation, groups=1
    )
    kept = total[(slice(None), slice(None), *(slice(o) for o in out))]
    return gw.reshape(kept, (*x.shape[:2], *out))


@operator("AveragePool")
def average_pool(node: OnnxNode, x: Any) -> Any:
    windows = _windows(node, x)
    include = bool(node.get("count_include_pad", 0))
    counts = []
    for axis, (own, (before, after)) in enumerate(
        zip(x.shape[2:], windows["padding"], strict=True)
    ):
        k, o, s, d = (windows[name][axis] for name in ("kernel", "out", "stride", "dilation"))
        places = np.arange(o)[:, None] * s - before + np.arange(k) * d
        low, high = (-before, own + after) if include else (0, own)
        counts.append(((places >= low) & (places < high)).sum(1))
    count = functools.reduce(np.multiply.outer, counts)
    return _sums(x, **windows) / constant(count.astype(x.dtype))


@operator("LpPool")
def lp_pool(node: OnnxNode, x: Any) -> Any:
    p = node.get("p", 2)
    return _sums(gw.abs(x) ** p, **_windows(node, x)) ** (1 / p)


def _all_places(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(node: OnnxNode, x: Any) -> Any:
    return gw.mean(x, _all_places(x), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(node: OnnxNode, x: Any) -> Any:
    return gw.amax(x, _all_places(x), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(node: OnnxNode, x: Any) -> Any:
    p = node.get("p", 2)
    return gw.sum(gw.abs(x) ** p, _all_places(x), keepdim=True) ** (1 / p)


@operator("MaxUnpool", numbers=(2,))
def max_unpool(node: OnnxNode, x: Any, places: Any, wanted: Any = None) -> Any:
    kernel = tuple(map(int, node.get("kernel_shape")))
    n = len(kernel)
    stride, pads = sizes_of(node, "strides", n), sizes_of(node, "pads", 2 * n, 0)
    inner = [
        (own - 1) * s + k - pads[i] - pads[i + n]
        for i, (own, s, k) in enumerate(zip(x.shape[2:], stride, kernel, strict=True))
    ]
    shape = [*x.shape[:2], *inner]
    flat = x.new_zeros((math.prod(shape),))
    filled = gw.index_put(flat, (gw.reshape(places, (-1,)),), gw.reshape(x, (-1,)))
    out = gw.reshape(filled, tuple(shape))
    if wanted is None or list(wanted) == shape:
        return out
    # The indices count places of the smaller output, which is then extended.
    for axis, size in enumerate(map(int, wanted)):
        more = (*out.shape[:axis], size - out.shape[axis], *out.shape[axis + 1 :])
        out = gw.cat([out, out.new_zeros(more)], axis)
    return out
