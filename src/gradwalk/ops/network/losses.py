"""Losses with a rule of their own, because the obvious formula is not stable."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, define
from gradwalk.ops.elementwise.activation import sigmoid
from gradwalk.ops.elementwise.arithmetic import log, log1p
from gradwalk.ops.elementwise.choice import clip_op, maximum

__all__: list[str] = []

_LEAST_LOG = -100.0  # PyTorch's: log 0 counts as that, so that a loss stays finite
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
