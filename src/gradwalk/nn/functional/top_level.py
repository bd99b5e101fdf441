"""Functions of networks that PyTorch has at its top level, such as `torch.conv2d`.

Those called native are the forms of PyTorch's own kernels, which also return the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradwalk.nn.functional.activation import (
    celu,
    celu_,
    hardshrink,
    prelu,
    relu_,
    selu,
    selu_,
    threshold,
    threshold_,
)
from gradwalk.nn.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from gradwalk.nn.functional.distance import cosine_similarity, pairwise_distance
from gradwalk.nn.functional.dropout import rrelu, rrelu_
from gradwalk.nn.functional.interpolation import grid_sample
from gradwalk.nn.functional.normalization import batch_norm, group_norm, layer_norm, rms_norm
from gradwalk.nn.functional.pooling import (
    adaptive_avg_pool1d,
    avg_pool1d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from gradwalk.nn.functional.shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from gradwalk.nn.functional.sparse import bilinear

__all__ = [
    "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "grid_sampler_2d", "grid_sampler_3d", "group_norm", "hardshrink",
    "layer_norm", "max_pool1d", "max_pool2d", "max_pool3d", "native_batch_norm",
    "native_group_norm", "native_layer_norm", "pairwise_distance", "pixel_shuffle",
    "pixel_unshuffle", "prelu", "relu_", "rms_norm", "rrelu", "rrelu_", "selu", "selu_",
    "threshold", "threshold_",
]  # fmt: skip

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """`layer_norm`, the means and 1 / the standard deviations.

    >>> import gradwalk as gw
    >>> gw.native_layer_norm(gw.tensor([1.0, 3.0]), (2,), None, None, 0.0)
    (tensor([-1.,  1.]), tensor([2.]), tensor([1.]))
    """
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    return out, *_statistics(input.detach(), axes, eps, keepdim=True)


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """`group_norm`, and the means and 1 / the standard deviations of each image and group."""
    out = group_norm(input, group, weight, bias, eps)
    return out, *_statistics(input.reshape(N, group, C // group * HxW), (2,), eps)


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """`batch_norm`, and the means and 1 / the standard deviations of the batch while training."""
    out = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    return out, *_statistics(input.detach(), (0, *range(2, input.ndim)), eps)


def _statistics(
    x: Any, axes: tuple[int, ...], eps: float, keepdim: bool = False
) -> tuple[Any, Any]:
    if not math.prod([x.shape[axis] for axis in axes]):
        x = x.new_zeros([1 if axis in axes else n for axis, n in enumerate(x.shape)])
    variance = x.var(axes, correction=0, keepdim=keepdim)
    return x.mean(axes, keepdim=keepdim), (variance + eps).rsqrt()


def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sample` of images; the modes are numbers: bilinear, nearest, bicubic; zeros, border,
    reflection."""
    return _grid_sampler("grid_sampler_2d", 4, input, grid, interpolation_mode, padding_mode,
                         align_corners)  # fmt: skip


def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sample` of volumes; the modes are numbers, as in `grid_sampler_2d`."""
    return _grid_sampler("grid_sampler_3d", 5, input, grid, interpolation_mode, padding_mode,
                         align_corners)  # fmt: skip


def _grid_sampler(
    name: str, ndim: int, input: Any, grid: Any, mode: int, padding: int, align_corners: bool
) -> Any:
    if input.ndim != ndim:
        raise ValueError(f"{name} takes {ndim} dimensions, not shape {tuple(input.shape)}")
    if mode not in range(len(_MODES)) or padding not in range(len(_PADDINGS)):
        raise ValueError(f"{name}: unknown interpolation_mode {mode} or padding_mode {padding}")
    return grid_sample(input, grid, _MODES[mode], _PADDINGS[padding], align_corners)
