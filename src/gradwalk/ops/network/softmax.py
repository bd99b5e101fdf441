"""softmax and its family, and the losses: composites with their own, stable rules.

Each has `expand`, its definition in other ops: the tools open it, and second derivatives use it
where the rule keeps a residual.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.graph.abstract import AbstractArray, numbers_of
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.activation import sigmoid
from gradwalk.ops.elementwise.arithmetic import exp, log, log1p, sub
from gradwalk.ops.elementwise.choice import clip_op, maximum, where
from gradwalk.ops.index.indexing import along, getitem
from gradwalk.ops.reduce.reduction import (
    Dim,
    amax_op,
    keep,
    mean_op,
    reduce_over,
    reduced_shape,
    sum_op,
)
from gradwalk.ops.reduce.row_sums import sum_over, total
from gradwalk.ops.shape.reshaping import cast, normal_axis, permute, reshape


def _logsumexp_forward(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    top = np.amax(x, axis=axis, keepdims=True, initial=-math.inf)  # of no elements: -inf
    top = np.where(np.isfinite(top), top, 0)  # all -inf, or an inf: exp and log give the answer
    out = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdim else np.squeeze(out, axis)


logsumexp_op = define(
    "logsumexp",
    _logsumexp_forward,
    vjp=[
        lambda g, x, out, axis: (
            keep(g, x.shape, axis)
            # A row of -inf has out = -inf; -inf - -inf would be NaN, its gradient is 0.
            * exp(x - keep(where(out == -math.inf, 0, out), x.shape, axis))
        )
    ],
    shape=reduced_shape,
    to_float=True,
    promotes=True,
)


def _softmax_forward(x: Any, *, axis: int) -> Any:
    shifted = x - np.amax(x, axis=axis, keepdims=True, initial=-math.inf)
    np.exp(shifted, out=shifted)
    shifted /= sum_over(shifted, (axis,))
    return shifted


def _log_softmax_forward(x: Any, *, axis: int) -> Any:
    shifted = x - np.amax(x, axis=axis, keepdims=True, initial=-math.inf)
    shifted -= np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return shifted


def _softmax_expanded(x: Any, *, axis: int) -> Any:
    e = exp(x - amax_op(x, axis=(axis,), keepdim=True))
    return e / sum_op(e, axis=(axis,), keepdim=True)


softmax_op = define(
    "softmax",
    _softmax_forward,
    vjp=[lambda g, out, axis: out * (g - sum_op(g * out, axis=(axis,), keepdim=True))],
    shape=lambda x, *, axis: x,
    expand=_softmax_expanded,
    to_float=True,
    promotes=True,
)
log_softmax_op = define(
    "log_softmax",
    _log_softmax_forward,
    vjp=[lambda g, out, axis: g - exp(out) * sum_op(g, axis=(axis,), keepdim=True)],
    shape=lambda x, *, axis: x,
    expand=lambda x, *, axis: x - logsumexp_op(x, axis=(axis,), keepdim=True),
    to_float=True,
    promotes=True,
)


@public(namespaces="gradwalk special", method=True, numpy=True)
def logsumexp(input: Any, dim: Dim, keepdim: bool = False) -> Any:
    """log Σ exp(x), stable for large x."""
    return reduce_over(logsumexp_op, input, dim, keepdim)


@public(namespaces="gradwalk special", method=True, numpy=True)
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """exp(x) / Σ exp(x) along `dim`, stable for large x.

    >>> import gradwalk as gw
    >>> gw.softmax(gw.tensor([1e4, 1e4]), dim=0)
    tensor([0.5000, 0.5000])
    """
    x = input if dtype is None else cast(input, dtype=np.dtype(dtype))
    return softmax_op(x, axis=normal_axis(dim, x.ndim)) if x.ndim else exp(x - x)


@public(namespaces="gradwalk special", method=True, numpy=True)
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """log(softmax(x)) along `dim`, without taking the log of a number near zero."""
    x = input if dtype is None else cast(input, dtype=np.dtype(dtype))
    return log_softmax_op(x, axis=normal_axis(dim, x.ndim)) if x.ndim else sub(x, x)


# -- cross entropy with class indices ----------------------------------------------------------


def _cross_entropy_forward(logits: Any, target: Any, *, ignore_index: int) -> tuple[Any, Any]:
    """Loss of every row of (rows, classes), and the softmax it went through."""
    if isinstance(logits, AbstractArray):  # while a kernel is made
        loss = _cross_entropy_expanded(logits, target, ignore_index=ignore_index)
        return loss, exp(log_softmax_op(logits, axis=1))
    rows = np.arange(len(target))
    used = target != ignore_index
    all_used = used.all()
    shifted = logits - np.maximum.reduce(logits, 1, keepdims=True)
    picked = shifted[rows, target if all_used else np.where(used, target, 0)]
    np.exp(shifted, out=shifted)
    sums = total(shifted, (1,), True)
    shifted /= sums
    loss = np.log(sums[:, 0]) - picked
    return loss if all_used else np.where(used, loss, 0), shifted


def _cross_entropy_rule(g: Any, target: Any, probabilities: Any, ignore_index: int) -> Any:
    """(p − y) for every row, times its g: never the log of a small number."""
    used = target != ignore_index
    if isinstance(probabilities, AbstractArray):  # while a kernel is made
        p: Any = probabilities
        hit = np.arange(p.shape[1]) == target[:, None]
        gradient = where(hit, p - 1, p) * g[:, None]
        return where(used[:, None], gradient, 0)
    gradient = probabilities.copy()
    gradient[np.arange(len(target)), np.where(used, target, 0)] -= 1
    gradient *= g[:, None]
    if not used.all():
        gradient[~used] = 0
    return gradient


def _cross_entropy_expanded(logits: Any, target: Any, *, ignore_index: int) -> Any:
    used = target != ignore_index
    classes = where(used, target, 0)
    log_p = log_softmax_op(logits, axis=1)
    fixed, arrays = along(reshape(classes, shape=(*classes.shape, 1)), 1)
    picked = reshape(getitem(log_p, *arrays, index=fixed), shape=tuple(target.shape))
    return where(used, -picked, 0)


cross_entropy_op = define(
    "cross_entropy",
    _cross_entropy_forward,
    vjp=[_cross_entropy_rule, None],
    residuals=("probabilities",),
    shape=lambda logits, target, *, ignore_index: target,
    expand=_cross_entropy_expanded,
    formula={"logits": "g × (softmax({logits}) − one at {target}), row by row"},
)


@public(out=False)
def cross_entropy(
    logits: Any, target: Any, *, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """−log softmax(logits)[target], fused; classes along dimension 1 (0 for a single row).

    >>> import gradwalk as gw
    >>> gw.cross_entropy(gw.tensor([[1e4, -1e4]]), gw.tensor([0]))
    tensor(0.)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
    if target.dtype.kind not in "iu":
        raise TypeError(
            f"cross_entropy takes class indices (integers); this target holds {target.dtype}"
        )
    shape = tuple(logits.shape)
    axis = 0 if len(shape) == 1 else 1
    expected = shape[:axis] + shape[axis + 1 :]
    if target.shape != expected:
        raise ValueError(
            f"cross_entropy: logits of shape {shape} need a target of shape {expected}, got "
            f"{tuple(target.shape)}"
        )
    all_used = check_classes(target, shape[axis], ignore_index)
    target = without_negatives(target, shape[axis], ignore_index)
    rows = _as_rows(logits, axis)
    flat = target if target.ndim == 1 else reshape(target, shape=(int(np.prod(expected)),))
    losses = cross_entropy_op(rows, flat, ignore_index=ignore_index)
    if reduction == "none":
        return reshape(losses, shape=expected)
    if reduction == "mean" and all_used:
        return mean_op(losses, axis=(0,), keepdim=False)
    summed = sum_op(losses, axis=(0,), keepdim=False)
    if reduction == "sum":
        return summed
    count = sum_op(cast(flat != ignore_index, dtype=losses.dtype), axis=(0,), keepdim=False)
    return summed / count


def _as_rows(logits: Any, axis: int) -> Any:
    """Logits as (rows, classes)."""
    if logits.ndim == 2:
        return logits
    order = (*(i for i in range(logits.ndim) if i != axis), axis)
    rows = int(np.prod([logits.shape[i] for i in order[:-1]]))
    return reshape(permute(logits, axes=order), shape=(rows, logits.shape[axis]))


def without_negatives(index: Any, count: int, kept: int | None = None) -> Any:
    """Replace negative class numbers (except `kept`) by one out of range, whose use raises.

    Only for numbers that are unknown, as in a trace, where −1 would index the last class.
    """
    if numbers_of(index) is not None:
        return index
    wrong = index < 0
    return where(wrong if kept is None else wrong & (index != kept), count, index)


def check_classes(target: Any, classes: int, ignore_index: int | None = None) -> bool:
    """Raise if a class does not exist; return whether no row is ignored."""
    values = numbers_of(target)
    if values is None or not values.size:
        return False
    if np.minimum.reduce(values, None) >= 0 and np.maximum.reduce(values, None) < classes:
        return ignore_index is None or not 0 <= ignore_index < classes
    bad = values[(values < 0) | (values >= classes)]
    bad = bad if ignore_index is None else bad[bad != ignore_index]
    if bad.size:
        raise IndexError(
            f"a target of class {int(bad.flat[0])} is out of range for {classes} classes "
            f"(0 to {classes - 1})"
        )
    return False


# -- binary cross entropy ------------------------------------------------------------------------

_LEAST_LOG = -100.0  # PyTorch's stand-in for log 0, which keeps a loss finite
_LEAST_SLOPE = 9.999999960041972e-13  # 1e-12 in float32, also PyTorch's


def _cross_forward(x: Any, target: Any) -> Any:
    hit = np.maximum(np.log(x), _LEAST_LOG)
    miss = np.maximum(np.log1p(-x), _LEAST_LOG)
    return (target - 1) * miss - target * hit


# −t log x − (1 − t) log(1 − x) for probabilities x.
binary_cross_entropy_op: Op = define(
    "binary_cross_entropy",
    _cross_forward,
    vjp=[
        lambda g, x, target: g * ((x - target) / maximum(x * (1 - x), _LEAST_SLOPE)),
        lambda g, x: (
            g
            * (
                clip_op(log1p(-x), min=_LEAST_LOG, max=None)
                - clip_op(log(x), min=_LEAST_LOG, max=None)
            )
        ),
    ],
    shape=lambda x, target: x,
    promotes=True,
)


def _logits_forward(x: Any, target: Any) -> Any:
    out = np.log1p(np.exp(-np.abs(x)))
    out += np.maximum(x, 0)
    out -= x * target
    return out


# The same for x = sigmoid(logit), without ever taking the log of a small number.
binary_cross_entropy_logits_op: Op = define(
    "binary_cross_entropy_logits",
    _logits_forward,
    vjp=[lambda g, x, target: g * (sigmoid(x) - target), lambda g, x: -(g * x)],
    shape=lambda x, target: x,
    promotes=True,
)
