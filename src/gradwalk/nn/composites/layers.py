"""Composites of layers. Optional operands come last: `given` names those that are present."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn.composites.composite import composed, composite
from gradwalk.nn.functional import interpolation, normalization, pooling
from gradwalk.nn.functional.attention import scaled_dot_product_attention
from gradwalk.ops.core.op import Shape
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network.convolution import conv_input
from gradwalk.ops.network.recurrent import lstm_op
from gradwalk.ops.reduce.norms import vector_norm
from gradwalk.ops.reduce.reduction import mean_op, var_op
from gradwalk.ops.shape.reshaping import reshape
from gradwalk.tensors.apply import wrap

Names = tuple[str, ...]

# -- convolution and pooling -----------------------------------------------------------------------


@composed()
def conv_input_bias(
    y: Any,
    weight: Any,
    bias: Any,
    *,
    shape: Shape,
    stride: Shape,
    padding: tuple[tuple[int, int], ...],
    dilation: Shape,
    groups: int,
) -> Any:
    """A transposed convolution, plus a bias."""
    out = conv_input(
        y, weight, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return out + reshape(bias, shape=(bias.shape[0], *(1,) * len(shape)))


@composed(x="g / elements of a window, to each of them")
def avg_pool(
    x: Any,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    include_pad: bool,
    divisor: int | None,
) -> Any:
    options = kernel, stride, padding, ceil_mode, include_pad, divisor
    return pooling.avg_pool(len(kernel), x, *options)


composite("adaptive_avg_pool", lambda x, *, size: pooling.adaptive_avg_pool(len(size), x, size))
composite("adaptive_max_pool", lambda x, *, size: pooling.adaptive_max_pool(2, x, size))


@composed()
def upsample(
    x: Any, *, mode: str, size: Shape, scales: tuple[float, ...] | None, align_corners: bool | None
) -> Any:
    wanted = size if scales is None else None
    return interpolation.interpolate(x, wanted, scales, mode, align_corners)


@composed(x="g through the transposed weights")
def upsample_smooth(x: Any, *, mode: str, size: Shape, scales: tuple[float | None, ...]) -> Any:
    """Resize with a filter that is as wide as the output's pixels: no aliasing."""
    rows, columns = (
        _weights(_FILTERS[mode], n, m, scale).astype(x.dtype)
        for n, m, scale in zip(x.shape[-2:], size, scales)
    )
    return matmul(matmul(wrap(rows), x), wrap(columns.T))


def _weights(shape: Any, n: int, m: int, scale: float | None) -> Any:
    """The weight of each of n elements in each of m."""
    filter, support = shape
    step = n / m if scale is None else 1 / scale
    width = max(step, 1.0)
    middle = step * (np.arange(m)[:, None] + 0.5)
    first = np.maximum(np.trunc(middle - support * width + 0.5), 0)
    last = np.minimum(np.trunc(middle + support * width + 0.5), n)
    place = np.arange(n)[None, :]
    inside = (place >= first) & (place < last)
    found = np.where(inside, filter((place - middle + 0.5) / width), 0)
    return found / found.sum(1, keepdims=True)


def _triangle(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Any, a: float = -0.5) -> Any:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


_FILTERS = {"bilinear": (_triangle, 1), "bicubic": (_cubic, 2)}  # with half their widths


# -- normalization ---------------------------------------------------------------------------------


_NORMALISED = {
    "x": "(h − mean(h) − n × mean(h × n)) / std({x}), h = g × weight, n = normalised {x}",
    "parameters": "weight: Σ g × n, n = normalised {x}; bias: Σ g",
}


@composed(**_NORMALISED)
def layer_norm(x: Any, *parameters: Any, given: Names, count: int, eps: float) -> Any:
    shape = tuple(x.shape[x.ndim - count :])
    return normalization.layer_norm(x, shape, **dict(zip(given, parameters)), eps=eps)


@composed(
    x="(h − n × mean(h × n)) / rms({x}), h = g × weight, n = {x} / rms({x})",
    weight="Σ g × n, n = {x} / rms({x})",
)
def rms_norm(x: Any, *weight: Any, count: int, eps: float) -> Any:
    shape = tuple(x.shape[x.ndim - count :])
    return normalization.rms_norm(x, shape, weight[0] if weight else None, eps)


@composed(**_NORMALISED)
def group_norm(x: Any, *parameters: Any, given: Names, groups: int, eps: float) -> Any:
    return normalization.group_norm(x, groups, **dict(zip(given, parameters)), eps=eps)


@composed(**_NORMALISED)
def batch_norm(x: Any, *parameters: Any, given: Names, training: bool, eps: float) -> Any:
    statistics: dict[str, Any] = {"running_mean": None, "running_var": None}
    statistics |= dict(zip(given, parameters))
    return normalization.batch_norm(x, **statistics, training=training, eps=eps)


@composed(outputs=("out", "running_mean", "running_var"), **_NORMALISED)
def batch_norm_update(
    x: Any, *parameters: Any, given: Names, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    """Batch norm in training, with the running statistics after the update."""
    named = dict(zip(given, parameters))
    mean, var = named.pop("running_mean"), named.pop("running_var")
    out = normalization.batch_norm(x, None, None, **named, training=True, eps=eps)
    axes, still = (0, *range(2, x.ndim)), x.detach()
    now = mean_op(still, axis=axes, keepdim=False)
    spread = var_op(still, axis=axes, correction=1, keepdim=False)
    moved = mean * (1 - momentum) + now * momentum
    return out, moved, var * (1 - momentum) + spread * momentum


@composed()
def weight_norm(v: Any, length: Any, *, axis: int) -> Any:
    axes = tuple(i for i in range(v.ndim) if i != axis)
    return v * (length / vector_norm(v, 2, axes, True))


# -- attention, dropout, recurrent layers ----------------------------------------------------------


@composed()
def masked_attention(query: Any, key: Any, value: Any, mask: Any, *, scale: float) -> Any:
    shared = query.ndim > 2 and query.shape[-3] != key.shape[-3]  # a head of keys by several heads
    return scaled_dot_product_attention(query, key, value, mask, scale=scale, enable_gqa=shared)


@composed()
def grouped_attention(query: Any, key: Any, value: Any, *, scale: float, causal: bool) -> Any:
    return scaled_dot_product_attention(
        query, key, value, is_causal=causal, scale=scale, enable_gqa=True
    )


composite(
    "dropout",
    lambda x, mask, *, p: x * mask * (1 / (1 - p) if p < 1 else 0.0),
    x="g × {mask} / (1 − p)",
)


@composed(outputs=("out", "last_h", "last_c"))
def lstm_layer(
    x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, bias_x: Any, bias_h: Any, *, reverse: bool
) -> tuple[Any, Any, Any]:
    out, last_c = lstm_op(x, h, c, weight_x, weight_h, bias_x + bias_h, reverse=reverse)
    return out, out[0 if reverse else -1], last_c
