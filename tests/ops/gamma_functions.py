"""PyTorch's lgamma and digamma with exact derivatives.

PyTorch's derivative of digamma, `trigamma`, is accurate to nine digits only; its `zeta`, which is
the same function, is fully accurate.
"""

from __future__ import annotations

from typing import Any

import torch


class Digamma(torch.autograd.Function):
    """digamma, whose derivative is zeta(2, x)."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return gs[0] * polygamma(1, *ctx.saved_tensors)


class Lgamma(torch.autograd.Function):
    """lgamma, whose derivative is digamma."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return gs[0] * Digamma.apply(*ctx.saved_tensors)


def polygamma(n: int, x: Any) -> Any:
    """Polygamma, computed with zeta where PyTorch's is inexact."""
    if n == 0:
        return Digamma.apply(x)
    return torch.special.zeta(2.0, x) if n == 1 else torch.polygamma(n, x)


GAMMA: dict[str, Any] = {
    "lgamma": Lgamma.apply,
    "digamma": Digamma.apply,
    "polygamma": polygamma,
}
