"""Losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.dtypes import is_floating, real_only, result_dtype
from gradwalk.ops.elementwise import activation
from gradwalk.ops.elementwise.arithmetic import abs as absolute
from gradwalk.ops.elementwise.arithmetic import exp, log
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.index.indexing import gather, take
from gradwalk.ops.linear.matmul import linear
from gradwalk.ops.network import softmax as fused
from gradwalk.ops.reduce.reduction import mean, sum
from gradwalk.ops.shape.reshaping import broadcast_to, cast, new_result, reshape, squeeze, unsqueeze
from gradwalk.tensors.autocast import in_float32

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy", "mse_loss",
    "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


def how_reduced(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> str:
    """The reduction, also from PyTorch's deprecated flags."""
    if size_average is not None or reduce is not None:
        warnings.warn(
            "size_average and reduce are deprecated, use reduction='mean', 'sum' or 'none'",
            DeprecationWarning,
            stacklevel=3,
        )
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
    return reduction


def reduced(loss: Any, reduction: str) -> Any:
    """The losses, their mean, or their sum."""
    real_only("a loss", loss)
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum(loss)


# -- classes -------------------------------------------------------------------------------------


@in_float32
@new_result
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """−log softmax(input) at the target classes, or averaged by target probabilities.

    Plain class indices, without weights or smoothing, are one fused op.

    >>> import gradwalk as gw
    >>> gw.nn.functional.cross_entropy(gw.tensor([[0.0, 0.0]]), gw.tensor([1]))
    tensor(0.6931)
    """
    how = how_reduced(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be from 0 to 1, not {label_smoothing}")
    if is_floating(target.dtype):
        if ignore_index >= 0:
            raise ValueError("cross_entropy: targets that are probabilities ignore no index")
        return _cross_entropy_of_probabilities(input, target, weight, how, label_smoothing)
    if weight is None and not label_smoothing:
        return fused.cross_entropy(input, target, ignore_index=ignore_index, reduction=how)
    axis = 0 if input.ndim == 1 else 1
    log_p = fused.log_softmax(input, axis)
    hit = nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction=how)
    if not label_smoothing:
        return hit
    # The smoothing term: every class equally, weighted, where the target is not ignored.
    spread = -log_p if weight is None else -log_p * _by_class(weight, log_p, axis)
    used = target != ignore_index
    each = where(used, sum(spread, axis), 0)
    if how == "mean":
        if weight is None:
            total = sum(cast(used, dtype=log_p.dtype))
        else:
            total = sum(_picked_weights(weight, target, used))
        each = sum(each) / total
    elif how == "sum":
        each = sum(each)
    return hit * (1 - label_smoothing) + each * (label_smoothing / input.shape[axis])


def _by_class(weight: Any, like: Any, axis: int) -> Any:
    """One number per class in a shape that broadcasts against the logits."""
    return reshape(weight, shape=(weight.shape[0], *(1,) * (like.ndim - axis - 1)))


def _cross_entropy_of_probabilities(
    input: Any, target: Any, weight: Any, how: str, smoothing: float
) -> Any:
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"cross_entropy: target probabilities need the input's shape {tuple(input.shape)}, "
            f"got {tuple(target.shape)}"
        )
    axis = 0 if input.ndim == 1 else 1
    if smoothing:
        target = target * (1 - smoothing) + smoothing / input.shape[axis]
    product = fused.log_softmax(input, axis) * target
    if weight is not None:
        product = product * _by_class(weight, input, axis)
    each = -sum(product, axis)
    if how == "mean":  # over rows: PyTorch divides by their number also with weights
        return sum(each) / max(math.prod(each.shape), 1)
    return reduced(each, how)


def _picked_weights(weight: Any, target: Any, used: Any) -> Any:
    return where(used, take(weight, where(used, target, 0)), 0)


@in_float32
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """−input at the target classes, for inputs that are log-probabilities."""
    how = how_reduced(reduction, size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    expected = (*input.shape[:axis], *input.shape[axis + 1 :])
    if target.dtype.kind not in "iu" or tuple(target.shape) != expected:
        raise ValueError(
            f"nll_loss: an input of shape {tuple(input.shape)} needs integer targets of shape "
            f"{expected}, got {target.dtype} of {tuple(target.shape)}"
        )
    if weight is not None and tuple(weight.shape) != (input.shape[axis],):
        raise ValueError(
            f"nll_loss: {input.shape[axis]} classes need as many weights, not a weight of shape "
            f"{tuple(weight.shape)}"
        )
    fused.check_classes(target, input.shape[axis], ignore_index)
    target = fused.without_negatives(target, input.shape[axis], ignore_index)
    used = target != ignore_index
    classes = where(used, target, 0)
    picked = squeeze(gather(input, axis, unsqueeze(classes, axis)), axis)
    scale = None if weight is None else _picked_weights(weight, target, used)
    each = where(used, -picked if scale is None else -picked * scale, 0)
    if how == "mean":
        total = sum(cast(used, dtype=input.dtype)) if scale is None else sum(scale)
        return sum(each) / total
    return reduced(each, how)


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy` of `linear(input, weight)`, where `weight` is (classes, ..., in features).

    `options`, which cut the work in PyTorch into chunks, change nothing here.
    """
    if ignore_index is not None and is_floating(target.dtype):
        raise ValueError("linear_cross_entropy: targets that are probabilities ignore no index")
    shape = tuple(linear_weight.shape)
    if len(shape) > 2 and len(input.shape) < 2:
        raise ValueError(
            f"linear_cross_entropy: a weight of shape {shape} needs a batch of inputs, "
            f"not one of shape {tuple(input.shape)}"
        )
    rows = math.prod(shape[:-1])
    bias = None if linear_bias is None else reshape(linear_bias, shape=(rows,))
    logits = linear(input, reshape(linear_weight, shape=(rows, shape[-1])), bias)
    logits = reshape(logits, shape=(*input.shape[:-1], *shape[:-1]))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


@in_float32
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target × (log target − input), for inputs that are log-probabilities."""
    how = "batchmean" if reduction == "batchmean" else how_reduced(reduction, size_average, reduce)
    if log_target:
        each = exp(target) * (target - input)
    else:
        some = target != 0  # below 0, which is no probability, log is NaN
        each = where(some, target * log(where(some, target, 1)), 0) - target * input
    if how == "batchmean":
        return sum(each) / (input.shape[0] if input.ndim else 1)
    return reduced(each, how)


# -- regression ----------------------------------------------------------------------------------


def _difference(
    name: str, input: Any, target: Any, weight: Any, how: str, each: Callable[[Any], Any]
) -> Any:
    """A weighted and reduced loss of input − target."""
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"{name}: a target of shape {tuple(target.shape)} is broadcast against an input of "
            f"shape {tuple(input.shape)}; this is rarely intended",
            stacklevel=3,
        )
    loss = each(input - target)
    if weight is not None:
        loss = loss * weight
        if how == "mean":
            return sum(loss) / sum(broadcast_to(weight, tuple(loss.shape)))
    return reduced(loss, how)


@in_float32
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """(input − target)².

    >>> import gradwalk as gw
    >>> gw.nn.functional.mse_loss(gw.tensor([1.0, 2.0]), gw.tensor([1.0, 4.0]))
    tensor(2.)
    """
    how = how_reduced(reduction, size_average, reduce)
    return _difference("mse_loss", input, target, weight, how, lambda d: d * d)


@in_float32
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """|input − target|."""
    how = how_reduced(reduction, size_average, reduce)
    return _difference("l1_loss", input, target, weight, how, absolute)


def _bent(d: Any, delta: float) -> Any:
    """d² / 2 up to delta, linear beyond; avoids the gradient of |d| at 0."""
    near = clip(d, -delta, delta)
    return near * (d - near * 0.5)


@in_float32
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """d² / 2 for |d| up to delta, delta × (|d| − delta / 2) beyond; d = input − target."""
    if delta <= 0:
        raise ValueError(f"huber_loss needs a positive delta, not {delta}")
    how = how_reduced(reduction)
    return _difference("huber_loss", input, target, weight, how, lambda d: _bent(d, delta))


@in_float32
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """huber_loss / beta; with beta 0, l1_loss."""
    how = how_reduced(reduction, size_average, reduce)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss needs a beta of at least 0, not {beta}")
    if not beta:
        return l1_loss(input, target, reduction=how)
    return _difference(
        "smooth_l1_loss", input, target, None, how, lambda d: _bent(d, beta) * (1 / beta)
    )


def _same_shape(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"{name}: input {tuple(input.shape)} and target {tuple(target.shape)} must have the "
            "same shape"
        )
    dtype = result_dtype([input, target])
    return input, target if target.dtype == dtype else cast(target, dtype=dtype)


def _check_probabilities(input: Any) -> None:
    """Raise, as PyTorch does, if an input is known and not from 0 to 1; NaN is let through."""
    values = numbers_of(input)
    if values is not None and values.size and (values.min() < 0 or values.max() > 1):
        raise ValueError(
            "binary_cross_entropy takes probabilities, from 0 to 1; the input has "
            f"{float(values.min()):g} to {float(values.max()):g}.\n"
            "Fix: apply sigmoid, or use binary_cross_entropy_with_logits for scores"
        )


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """−t log x − (1 − t) log(1 − x) for probabilities x; no log is below −100."""
    how = how_reduced(reduction, size_average, reduce)
    input, target = _same_shape("binary_cross_entropy", input, target)
    _check_probabilities(input)
    loss = fused.binary_cross_entropy_op(input, target)
    return reduced(loss if weight is None else loss * weight, how)


@in_float32
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """binary_cross_entropy of sigmoid(input), stable; `pos_weight` multiplies the t part."""
    how = how_reduced(reduction, size_average, reduce)
    input, target = _same_shape("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = fused.binary_cross_entropy_logits_op(input, target)
    else:
        more = (pos_weight - 1) * target + 1
        loss = (1 - target) * input - more * activation.logsigmoid(input)
    return reduced(loss if weight is None else loss * weight, how)


@in_float32
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of Poisson counts; `full` adds Stirling's formula for log t!."""
    how = how_reduced(reduction, size_average, reduce)
    if log_input:
        loss = exp(input) - target * input
    else:
        loss = input - target * log(input + eps)
    if full:
        above = target > 1
        t = where(above, target, 1)
        loss = loss + where(above, t * log(t) - t + 0.5 * log(2 * math.pi * t), 0)
    return reduced(loss, how)


@in_float32
def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood of normal numbers with mean `input` and variance `var`."""
    how = how_reduced(reduction)
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has a negative entry")
        var = input.detach() * 0 + float(var)
    elif tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = unsqueeze(var, -1)
        elif var.ndim != input.ndim or [n for n, m in zip(var.shape, input.shape) if n != m] != [1]:
            raise ValueError(
                f"gaussian_nll_loss: var of shape {tuple(var.shape)} does not fit an input of "
                f"shape {tuple(input.shape)}"
            )
    numbers = numbers_of(var)  # None while they are unknown
    if numbers is not None and (numbers < 0).any():
        raise ValueError("gaussian_nll_loss: var has a negative entry")
    # At least eps, but with the gradient of var itself, as in PyTorch.
    fixed = var.detach()
    var = var + (clip(fixed, min=eps) - fixed)
    d = input - target
    loss = (log(var) + d * d / var) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, how)
