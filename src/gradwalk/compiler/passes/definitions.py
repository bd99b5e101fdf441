"""What some ops without `expand` compute, in other ops: only forward, so nothing is differentiated.

Their forwards are NumPy functions that a kernel cannot run; written like this they are fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradwalk.ops.arithmetic import abs, exp, log, log1p, power, sqrt
from gradwalk.ops.choice import maximum, where
from gradwalk.ops.index import getitem
from gradwalk.ops.loss import logsumexp_op
from gradwalk.ops.losses import binary_cross_entropy_logits_op, binary_cross_entropy_op
from gradwalk.ops.measures import norm_op
from gradwalk.ops.op import Op
from gradwalk.ops.reduction import (
    amax_op,
    amin_op,
    mean_op,
    reduced_shape,
    std_op,
    sum_op,
    var_op,
)
from gradwalk.ops.remainders import isfinite
from gradwalk.ops.shape import cast, flip, reshape

Axes = tuple[int, ...]


def _var(x: Any, *, axis: Axes, correction: float, keepdim: bool) -> Any:
    apart = x - mean_op(x, axis=axis, keepdim=True)
    freedom = math.prod(x.shape[i] for i in axis) - correction
    total = sum_op(apart * apart, axis=axis, keepdim=keepdim)
    return total / (float(freedom) if freedom > 0 else 0.0)


def _norm(x: Any, *, p: float, axis: Axes, keepdim: bool) -> Any:
    if p == 2:
        return sqrt(sum_op(x * x, axis=axis, keepdim=keepdim))
    if p == 0:
        return sum_op(cast(x != 0, dtype=x.dtype), axis=axis, keepdim=keepdim)
    size = abs(x)
    if p == 1:
        return sum_op(size, axis=axis, keepdim=keepdim)
    if math.isinf(p):
        return (amax_op if p > 0 else amin_op)(size, axis=axis, keepdim=keepdim)
    return power(sum_op(power(size, exponent=p), axis=axis, keepdim=keepdim), exponent=1 / p)


def _logsumexp(x: Any, *, axis: Axes, keepdim: bool) -> Any:
    top = amax_op(x, axis=axis, keepdim=True)
    top = where(isfinite(top), top, 0)  # as its forward has it
    out = log(sum_op(exp(x - top), axis=axis, keepdim=True)) + top
    return out if keepdim else reshape(out, shape=reduced_shape(x.shape, axis=axis, keepdim=False))


def _cross_entropy_of_logits(x: Any, target: Any) -> Any:
    return log1p(exp(-abs(x))) + maximum(x, 0.0) - x * target


def _cross_entropy(x: Any, target: Any) -> Any:
    least = -100.0  # as its forward has it
    return (target - 1.0) * maximum(log1p(-x), least) - target * maximum(log(x), least)


def _flip(x: Any, *, axis: Axes) -> Any:
    steps = (("slice", None, None, -1 if i in axis else None) for i in range(x.ndim))
    return getitem(x, index=tuple(steps))


DEFINITIONS: dict[Op, Callable[..., Any]] = {
    var_op: _var,
    std_op: lambda x, **attrs: sqrt(_var(x, **attrs)),
    norm_op: _norm,
    logsumexp_op: _logsumexp,
    binary_cross_entropy_op: _cross_entropy,
    binary_cross_entropy_logits_op: _cross_entropy_of_logits,
    flip: _flip,
}
