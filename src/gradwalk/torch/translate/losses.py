"""Losses; PyTorch encodes their reduction as a number."""

from __future__ import annotations

from gradwalk.torch.translate.table import AtenCall, direct


def reduction(c: AtenCall) -> str:
    """The name of a loss's reduction."""
    return ("none", "mean", "sum")[c.reduction]


for name in ("mse_loss", "l1_loss", "soft_margin_loss"):
    direct(name, name, "self target", reduction=reduction)
direct("smooth_l1_loss", "smooth_l1_loss", "self target", reduction=reduction, beta="beta")
direct("huber_loss", "huber_loss", "self target", reduction=reduction, delta="delta")
direct(
    "nll_loss_forward nll_loss2d_forward nll_loss_nd", "nll_loss", "self target weight?",
    reduction=reduction, ignore_index=lambda c: int(c.ignore_index),
)  # fmt: skip
direct(
    "binary_cross_entropy", "binary_cross_entropy_loss", "self target weight?", reduction=reduction
)
direct(
    "binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits",
    "self target weight? pos_weight?", given=lambda c: c.given("weight", "pos_weight"),
    reduction=reduction,
)  # fmt: skip
