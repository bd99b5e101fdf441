"""Batch norm folded into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from gradwalk.engine.modes import no_grad
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.tensors import creation

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that computes what `conv` and the batch norm after it do in evaluation.

    >>> import gradwalk as gw
    >>> conv, bn = gw.nn.Conv2d(1, 2, 3).eval(), gw.nn.BatchNorm2d(2).eval()
    >>> bn.running_mean.copy_(gw.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    >>> x = gw.randn(1, 1, 5, 5)
    >>> gw.allclose(gw.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    True
    """
    fused = _ready("fuse_conv_bn_eval", conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of a convolution with a batch norm folded in."""
    axis = 1 if transpose else 0  # where the output channels are
    shape = [1] * conv_w.ndim
    shape[axis] = -1
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, tuple(shape))


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that computes what `linear` and the batch norm after it do in evaluation."""
    if bn.num_features not in (1, linear.out_features):
        raise ValueError(
            f"fuse_linear_bn_eval: a batch norm of {bn.num_features} features after a layer of "
            f"{linear.out_features}"
        )
    fused = _ready("fuse_linear_bn_eval", linear, bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of a linear layer with a batch norm folded in."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _ready(asked_by: str, layer: Module, bn: Module) -> Any:
    """A copy of the layer, if both are in evaluation."""
    if layer.training or bn.training:
        raise ValueError(f"{asked_by}: both layers must be in evaluation. Fix: call eval() first.")
    return copy.deepcopy(layer)


def _folded(
    weight: Any, bias: Any, mean: Any, variance: Any, eps: float, scale: Any, shift: Any,
    shape: tuple[int, ...],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(w·x + b − mean) / √(variance + eps) × scale + shift, as w and b."""
    with no_grad():
        bias = creation.zeros_like(mean) if bias is None else bias
        factor = (variance + eps).rsqrt()
        if scale is not None:
            factor = factor * scale
        moved = (bias - mean) * factor
        if shift is not None:
            moved = moved + shift
        scaled = weight * factor.reshape(shape)
    return (
        Parameter(scaled.to(weight.dtype), weight.requires_grad),
        Parameter(moved.to(weight.dtype), bias.requires_grad),
    )
