"""Losses; PyTorch encodes their reduction as a number."""

from __future__ import annotations

from typing import Any

from gradwalk.torch.translate.table import AtenCall, Known, entry

HOW = ("none", "mean", "sum")


def _loss(name: str, op: str, **attrs: str) -> None:
    """Register a loss that compares `self` with `target`."""

    def known(c: AtenCall) -> Known:
        found = {k: c.values[v] for k, v in attrs.items()}
        return Known(op, (c.self, c.target), {"reduction": HOW[c.reduction], **found})

    entry(name)(known)


_loss("mse_loss", "mse_loss")
_loss("l1_loss", "l1_loss")
_loss("smooth_l1_loss", "smooth_l1_loss", beta="beta")
_loss("huber_loss", "huber_loss", delta="delta")
_loss("soft_margin_loss", "soft_margin_loss")


@entry("nll_loss_forward", "nll_loss2d_forward", "nll_loss_nd")
def _nll_loss(c: AtenCall) -> Known:
    attrs: dict[str, Any] = {"reduction": HOW[c.reduction], "ignore_index": int(c.ignore_index)}
    return Known("nll_loss", (c.self, c.target, *c.given("weight")), attrs)


@entry("binary_cross_entropy")
def _binary(c: AtenCall) -> Known:
    attrs = {"reduction": HOW[c.reduction]}
    return Known("binary_cross_entropy_loss", (c.self, c.target, *c.given("weight")), attrs)


@entry("binary_cross_entropy_with_logits")
def _logits(c: AtenCall) -> Known:
    weights = c.given("weight", "pos_weight")
    given = tuple(name for name in ("weight", "pos_weight") if c.values[name] is not None)
    attrs = {"given": given, "reduction": HOW[c.reduction]}
    return Known("binary_cross_entropy_with_logits", (c.self, c.target, *weights), attrs)
