"""Composites of losses. Optional operands come last: `given` names those that are present."""

from __future__ import annotations

from typing import Any

from gradwalk.nn.composites.composite import composed, composite
from gradwalk.nn.functional import loss, margins

composite(
    "mse_loss",
    lambda x, target, *, reduction: loss.mse_loss(x, target, reduction=reduction),
    x="2 × g × ({x} − {target}), over the count if it is a mean",
    target="−2 × g × ({x} − {target}), over the count if it is a mean",
)
composite(
    "l1_loss",
    lambda x, target, *, reduction: loss.l1_loss(x, target, reduction=reduction),
    x="g × sign({x} − {target}), over the count if it is a mean",
    target="−g × sign({x} − {target}), over the count if it is a mean",
)
composite(
    "smooth_l1_loss",
    lambda x, target, *, reduction, beta: loss.smooth_l1_loss(
        x, target, reduction=reduction, beta=beta
    ),
)
composite(
    "huber_loss",
    lambda x, target, *, reduction, delta: loss.huber_loss(x, target, reduction, delta),
)
composite(
    "soft_margin_loss",
    lambda x, target, *, reduction: margins.soft_margin_loss(x, target, reduction=reduction),
)


@composed(x="−g at {target}, over the count if it is a mean")
def nll_loss(x: Any, target: Any, *weight: Any, reduction: str, ignore_index: int) -> Any:
    scale = weight[0] if weight else None
    return loss.nll_loss(x, target, scale, reduction=reduction, ignore_index=ignore_index)


@composed()
def binary_cross_entropy_loss(x: Any, target: Any, *weight: Any, reduction: str) -> Any:
    scale = weight[0] if weight else None
    return loss.binary_cross_entropy(x, target, scale, reduction=reduction)


@composed(x="g × (sigmoid({x}) − {target}), weighted, over the count if it is a mean")
def binary_cross_entropy_with_logits(
    x: Any, target: Any, *weights: Any, given: tuple[str, ...], reduction: str
) -> Any:
    optional = dict(zip(given, weights, strict=True))
    return loss.binary_cross_entropy_with_logits(x, target, reduction=reduction, **optional)
