"""Normalization, by the two ops of ops/network/normalization.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.engine.modes import no_grad, quietly
from gradwalk.ops.core.dtypes import finfo, float32, is_floating, is_half, real_only
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Shape
from gradwalk.ops.core.out import takes_out
from gradwalk.ops.elementwise.arithmetic import rsqrt
from gradwalk.ops.elementwise.choice import clip
from gradwalk.ops.network.normalization import standardize, standardize_affine
from gradwalk.ops.network.pooling import pool_sum
from gradwalk.ops.reduce.norms import vector_norm
from gradwalk.ops.reduce.row_sums import Axes
from gradwalk.ops.shape.reshaping import cast, clone, new_result, reshape
from gradwalk.tensors.single_calls import SingleCall

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm",
    "normalize", "rms_norm",
]  # fmt: skip


def _standardized(
    x: Any,
    weight: Any,
    bias: Any,
    shape: Shape,
    axes: Axes,
    eps: float,
    center: bool = True,
) -> Any:
    """Normalized over `axes`, then × weight + bias, which broadcast as `shape`."""
    if not is_floating(x.dtype):
        raise TypeError(f"normalization takes floats, this tensor is of {x.dtype}; use x.float()")

    def lift(parameter: Any) -> Any:
        return parameter if parameter.shape == shape else reshape(parameter, shape=shape)

    if weight is not None and bias is not None:
        return standardize_affine(
            x, lift(weight), lift(bias), axes=axes, eps=float(eps), center=center
        )
    out = standardize(x, axes=axes, eps=float(eps), center=center)
    if weight is not None:
        out = out * lift(weight)
    return out if bias is None else out + lift(bias)


def _trailing(name: str, x: Any, normalized_shape: int | Sequence[int]) -> tuple[Shape, Axes]:
    shape = (
        (normalized_shape,)
        if isinstance(normalized_shape, int)
        else tuple(int(n) for n in normalized_shape)
    )
    own = tuple(x.shape)
    lead = len(own) - len(shape)
    if not shape or own[max(lead, 0) :] != shape:
        raise ValueError(f"{name}: the input's last dimensions must be {shape}, its shape is {own}")
    return (*(1,) * lead, *shape), tuple(range(lead, len(own)))


def layer_norm(
    input: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 over the last dimensions, then × weight + bias.

    >>> import gradwalk as gw
    >>> gw.nn.functional.layer_norm(gw.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    shape, axes = _trailing("layer_norm", input, normalized_shape)
    return _rounded_as(input, _standardized(input, weight, bias, shape, axes, eps))


@rounds_once
def rms_norm(
    input: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    eps: float | None = None,
) -> Any:
    """x / √(mean of x² + eps) over the last dimensions, then × weight."""
    shape, axes = _trailing("rms_norm", input, normalized_shape)
    # Halves are computed in float32, with its eps.
    computed = float32 if is_half(input.dtype) else input.dtype
    least = float(finfo(computed).eps) if eps is None else eps
    out = _standardized(input, weight, None, shape, axes, least, center=False)
    return _rounded_as(input, out)


def _channels(name: str, x: Any) -> Shape:
    """The shape in which one number per channel broadcasts against x."""
    if x.ndim < 2:
        raise ValueError(f"{name} takes (batch, channels, ...), got shape {tuple(x.shape)}")
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


@rounds_once
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 for each channel, over the batch and all positions.

    Training uses the statistics of the batch and moves the running ones towards them, in place;
    evaluation uses the running ones.

    >>> import gradwalk as gw
    >>> mean, var = gw.zeros(1), gw.ones(1)
    >>> _ = gw.nn.functional.batch_norm(gw.tensor([[1.0], [3.0]]), mean, var, training=True)
    >>> mean
    tensor([0.2000])
    """
    if not eps > 0:
        raise ValueError(f"batch_norm: eps must be positive, not {eps}")
    if not math.prod(input.shape) and input.ndim < 2:
        return clone(input)  # PyTorch checks nothing else without elements
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm: eps must be positive, not {eps}")
    shape = _channels("batch_norm", input)
    if not training:
        return _by_statistics(input, running_mean, running_var, weight, bias, eps, shape)
    axes = (0, *range(2, input.ndim))
    count = math.prod(input.shape[i] for i in axes)
    if not math.prod(input.shape):  # nothing to normalize or to track
        out = clone(input) if weight is None else input * reshape(weight, shape=shape)
        return out if bias is None else out + reshape(bias, shape=shape)
    if count == 1:
        raise ValueError(
            "batch_norm needs more than one value per channel when training; "
            f"this input has shape {tuple(input.shape)}"
        )
    if running_mean is not None:
        array = input.detach()._array
        array = array.astype(float32) if is_half(array.dtype) else array
        mean, variance = _moments(array, axes)
        _follow(running_mean, mean, momentum)
        _follow(running_var, variance * (count / (count - 1)), momentum)
    return _rounded_as(input, _standardized(input, weight, bias, shape, axes, eps))


def _by_statistics(
    input: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float, shape: Shape
) -> Any:
    """Normalized with running statistics, then × weight + bias: one scale and one shift."""
    if mean is None or variance is None:
        raise ValueError("batch_norm needs running statistics when it is not training")
    if is_half(variance.dtype):  # they are not rounded again on the way
        mean, variance = mean.float(), variance.float()
    scale = rsqrt(variance + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias
    out = input * reshape(scale, shape=shape) + reshape(shift, shape=shape)
    return _rounded_as(input, out)


def _rounded_as(input: Any, out: Any) -> Any:
    """A normalised half is a half, whatever the dtype of weight and bias; as in PyTorch."""
    dtype = input.dtype
    return cast(out, dtype=dtype) if is_half(dtype) != is_half(out.dtype) else out


def _moments(array: Any, axes: Axes) -> tuple[Any, Any]:
    """The mean and the variance; a device computes them once, here and to normalize."""
    if isinstance(array, np.ndarray):
        mean, variance = quietly(_array_moments, array, axes=axes)
    else:
        mean, variance = array.moments(axes)
    return mean, variance


@SingleCall
def _array_moments(array: Any, *, axes: Axes) -> tuple[Any, Any]:
    return np.mean(array, axes), np.var(array, axes)


def _follow(running: Any, now: Any, momentum: Any) -> None:
    """Move a running statistic towards that of the batch; a variance is the unbiased one."""
    part = now * getattr(momentum, "_array", momentum)  # a number, or a tensor of one
    with no_grad():
        running.mul_(1 - momentum).add_(part.astype(running.dtype))


@new_result
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Mean 0 and variance 1 for each image and group of channels."""
    _channels("group_norm", input)
    batch, channels, *size = input.shape
    if channels % num_groups:
        raise ValueError(f"group_norm: {channels} channels do not divide into {num_groups} groups")
    if batch * (channels // num_groups) * math.prod(size) == 1:
        raise ValueError(
            "group_norm needs more than one value per group; this input has shape "
            f"{tuple(input.shape)} and {num_groups} groups"
        )
    grouped = (batch, num_groups, channels // num_groups, math.prod(size))
    lifted = (1, num_groups, channels // num_groups, 1)
    x = reshape(input, shape=grouped)
    out = _standardized(x, weight, bias, lifted, (2, 3), eps)
    return _rounded_as(input, reshape(out, shape=tuple(input.shape)))


@rounds_once
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 for each image and channel."""
    shape = _channels("instance_norm", input)
    if not use_input_stats:
        return _by_statistics(input, running_mean, running_var, weight, bias, eps, shape)
    axes = tuple(range(2, input.ndim))
    count = math.prod(input.shape[2:])
    if count <= 1:
        raise ValueError(
            "instance_norm needs more than one place per channel when training; "
            f"this input has shape {tuple(input.shape)}"
        )
    if running_mean is not None:
        array = input.detach()._array
        array = array.astype(float32) if is_half(array.dtype) else array
        mean, variance = _moments(array, axes)
        _follow(running_mean, mean.mean(0), momentum)
        _follow(running_var, variance.mean(0) * (count / (count - 1)), momentum)
    return _rounded_as(input, _standardized(input, weight, bias, shape, axes, eps))


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha × mean of x² over `size` neighbouring channels) ^ beta."""
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm takes (batch, channels, ...), got {tuple(input.shape)}"
        )
    real_only("local_response_norm", input)
    if not math.prod(input.shape):
        return input
    batch, channels, *rest = input.shape
    squares = reshape(input * input, shape=(batch, channels, math.prod(rest)))
    total = pool_sum(
        squares,
        kernel=(size, 1),
        out=(channels, math.prod(rest)),
        stride=(1, 1),
        padding=((size // 2, (size - 1) // 2), (0, 0)),
    )
    around = reshape(total, shape=tuple(input.shape))
    return input / (around * (alpha / size) + k) ** beta


@takes_out
@rounds_once
def normalize(
    input: Any, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12
) -> Any:
    """x divided by its p-norm along `dim`, but at least by `eps`."""
    return input / clip(vector_norm(input, p, dim, keepdim=True), min=eps)
