"""Transforms of whole vectors to probabilities."""

from __future__ import annotations

from typing import Any

import gradwalk as gw
from gradwalk.distributions import constraints
from gradwalk.distributions.transforms.transform import Transform
from gradwalk.tensors.tensor import Tensor


class SoftmaxTransform(Transform):
    """y = softmax x, of vectors; it has no density, since x is known up to a number only."""

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return gw.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers as n + 1 probabilities: each takes a share of what the ones before it leave.

    The share is the sigmoid of x − log(number of those that follow): at 0 all are equal.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)

    def _logits(self, x: Tensor) -> Tensor:
        following = gw.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)
        return x - following.log()

    def _call(self, x: Tensor) -> Tensor:
        limits = gw.finfo(x.dtype)
        shares = gw.sigmoid(self._logits(x)).clamp(float(limits.tiny), 1 - float(limits.eps))
        one = gw.ones_like(x[..., :1])
        left = gw.cat([one, (1 - shares).cumprod(-1)], -1)
        return gw.cat([shares, one], -1) * left

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=float(gw.finfo(y.dtype).tiny))
        return taken.log() - left.log() - self._logits(gw.zeros_like(taken))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (y[..., :-1].log() - gw.softplus(self._logits(x))).sum(-1)
