"""Normalization, dropout and losses."""

from __future__ import annotations

from typing import Any

import gradwalk as gw
from gradwalk.nn import functional as F
from gradwalk.onnx.operators.table import OnnxNode, axis_of, operator
from gradwalk.ops.core.dtypes import is_half


@operator("BatchNormalization")
def batch_norm(node: OnnxNode, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    eps = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0):
        return F.batch_norm(x, mean, variance, scale, bias, eps=eps).to(x.dtype)
    momentum = node.get("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    of_batch, spread = gw.mean(x, axes), gw.var(x, axes, correction=0)
    out = F.batch_norm(x, None, None, scale, bias, training=True, eps=eps)
    return (
        out,
        mean * momentum + of_batch.detach() * (1 - momentum),
        variance * momentum + spread.detach() * (1 - momentum),
    )


@operator("InstanceNormalization")
def instance_norm(node: OnnxNode, x: Any, scale: Any, bias: Any) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5))


@operator("GroupNormalization")
def group_norm(node: OnnxNode, x: Any, scale: Any, bias: Any) -> Any:
    groups, eps = node.get("num_groups"), node.get("epsilon", 1e-5)
    if node.version < 21 and scale.shape[0] != x.shape[1]:  # one for each group
        scale, bias = (gw.repeat_interleave(p, x.shape[1] // groups) for p in (scale, bias))
    return F.group_norm(x, groups, scale, bias, eps)


@operator("LayerNormalization")
def layer_norm(node: OnnxNode, x: Any, scale: Any, bias: Any = None) -> Any:
    axis, eps = axis_of(node, x, -1), node.get("epsilon", 1e-5)
    shape = tuple(x.shape[axis:])
    # Weights may have fewer dimensions than what is normalized.
    weight = scale if tuple(scale.shape) == shape else gw.broadcast_to(scale, shape)
    shift = bias if bias is None or tuple(bias.shape) == shape else gw.broadcast_to(bias, shape)
    out = F.layer_norm(x, shape, weight, shift, eps)
    if len(node.outputs) < 2:
        return out
    axes = tuple(range(axis, x.ndim))
    wide = x.float() if is_half(x.dtype) else x
    mean = gw.mean(wide, axes, keepdim=True)
    inverse = gw.rsqrt(gw.var(wide, axes, correction=0, keepdim=True) + eps)
    return out, mean, inverse


@operator("RMSNormalization")
def rms_norm(node: OnnxNode, x: Any, scale: Any) -> Any:
    shape = tuple(x.shape[axis_of(node, x, -1) :])
    weight = scale if tuple(scale.shape) == shape else gw.broadcast_to(scale, shape)
    return F.rms_norm(x, shape, weight, node.get("epsilon", 1e-5)).to(x.dtype)


@operator("MeanVarianceNormalization")
def mean_variance_norm(node: OnnxNode, x: Any) -> Any:
    axes = tuple(node.get("axes", (0, 2, 3)))
    centered = x - gw.mean(x, axes, keepdim=True)
    return centered / (gw.sqrt(gw.mean(centered * centered, axes, keepdim=True)) + 1e-9)


@operator("LRN")
def local_response_norm(node: OnnxNode, x: Any) -> Any:
    alpha, beta = node.get("alpha", 1e-4), node.get("beta", 0.75)
    # ONNX has the smaller half of the neighbours before an even window, PyTorch the larger.
    size = node.get("size")
    if size % 2:
        return F.local_response_norm(x, size, alpha, beta, node.get("bias", 1.0))
    turned = F.local_response_norm(gw.flip(x, (1,)), size, alpha, beta, node.get("bias", 1.0))
    return gw.flip(turned, (1,))


@operator("LpNormalization")
def lp_norm(node: OnnxNode, x: Any) -> Any:
    p, axis = node.get("p", 2), axis_of(node, x, -1)
    norm = gw.sum(gw.abs(x) ** p, axis, keepdim=True) ** (1 / p)
    return gw.where(norm == 0, gw.zeros_like(x), x / gw.where(norm == 0, 1, norm))


@operator("Dropout", numbers=(1, 2), varies=True)
def dropout(node: OnnxNode, x: Any, ratio: Any = None, training: Any = None) -> Any:
    p = float(node.get("ratio", 0.5) if ratio is None else ratio.item())
    if training is None or not training.item() or not p:
        kept = gw.ones_like(x, dtype=gw.bool)
        return (x, kept) if len(node.outputs) > 1 else x
    if len(node.outputs) < 2:
        return F.dropout(x, p)
    kept = gw.rand(*x.shape) >= p
    return x * kept * (1 / (1 - p) if p < 1 else 0.0), kept


# -- losses ----------------------------------------------------------------------------------------


@operator("NegativeLogLikelihoodLoss")
def nll_loss(node: OnnxNode, x: Any, target: Any, weight: Any = None) -> Any:
    ignored, how = node.get("ignore_index", -100), node.get("reduction", "mean")
    return F.nll_loss(x, target.to(gw.int64), weight, ignore_index=ignored, reduction=how)


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(node: OnnxNode, x: Any, target: Any, weight: Any = None) -> Any:
    ignored, how = node.get("ignore_index", -100), node.get("reduction", "mean")
    if len(node.outputs) > 1:
        scores = gw.log_softmax(x, 1)
        return nll_loss(node, scores, target, weight), scores
    return F.cross_entropy(x, target.to(gw.int64), weight, ignore_index=ignored, reduction=how)
