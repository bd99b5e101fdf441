"""Operators of other domains than ONNX's own. Of `ai.onnx.ml` what scikit-learn's converter puts
around a network: scaling, filling in and linear models, whose numbers are attributes and no
parameters. Of `com.microsoft` what ONNX Runtime fuses when it saves an optimized model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.nn import functional as F
from gradwalk.onnx.operators.convolution import conv
from gradwalk.onnx.operators.normalization import layer_norm, rms_norm
from gradwalk.onnx.operators.products import gemm
from gradwalk.onnx.operators.table import OnnxNode, constant, operator

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"


def _floats(node: OnnxNode, name: str) -> Any:
    return constant(np.asarray(node.get(name), np.float32))


@operator("Scaler", domain=ML)
def scaler(node: OnnxNode, x: Any) -> Any:
    return (x.float() - _floats(node, "offset")) * _floats(node, "scale")


@operator("Imputer", domain=ML)
def imputer(node: OnnxNode, x: Any) -> Any:
    """A value for each column, or for all, in place of one that means that it is missing."""
    kind = "float" if x.is_floating_point() else "int64"
    values = node.get(f"imputed_value_{kind}s")
    missing = node.get(f"replaced_value_{kind}", 0)
    there = gw.isnan(x) if missing != missing else x == missing
    return gw.where(there, constant(np.asarray(values, x.dtype)), x)


@operator("Normalizer", domain=ML)
def normalizer(node: OnnxNode, x: Any) -> Any:
    """Rows divided by their largest element, sum of sizes, or length; zeros stay zeros."""
    x, norm = x.float(), node.get("norm", "MAX")
    if norm == "MAX":
        size = x.amax(-1, keepdim=True)
    else:
        size = x.norm(1 if norm == "L1" else 2, dim=-1, keepdim=True)
    return x / gw.where(size == 0, 1.0, size)


# -- linear models ---------------------------------------------------------------------------------

_AFTER: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": gw.sigmoid,
    "SOFTMAX": lambda scores: gw.softmax(scores, -1),
    "PROBIT": lambda scores: gw.special.ndtri(scores),
}


def _scores(node: OnnxNode, x: Any, count: int) -> Any:
    """x Wᵀ + b, for so many results."""
    weight = _floats(node, "coefficients").reshape(count, -1)
    out = gw.matmul(x.float().reshape(-1, weight.shape[1]), weight.mT)
    return out + _floats(node, "intercepts") if node.get("intercepts") else out


def _after(node: OnnxNode, scores: Any) -> Any:
    name = node.get("post_transform", "NONE")
    if name not in _AFTER:
        raise NotImplementedError(f"{node.where()}: post_transform {name} is not supported")
    return _AFTER[name](scores)


@operator("LinearRegressor", domain=ML)
def linear_regressor(node: OnnxNode, x: Any) -> Any:
    return _after(node, _scores(node, x, int(node.get("targets", 1))))


@operator("LinearClassifier", domain=ML)
def linear_classifier(node: OnnxNode, x: Any) -> Any:
    """The label of the largest score, and all scores; of two classes one score may be given."""
    labels = node.get("classlabels_ints")
    if not labels:
        raise NotImplementedError(f"{node.where()}: labels are integers here, not strings")
    width = len(node.get("coefficients")) // x.shape[-1]
    scores = _scores(node, x, width)
    if width == 1 and len(labels) == 2:
        likely = (scores[:, 0] > 0).long()
        one = _after(node, scores)
        both = [1 - one if node.get("post_transform") == "LOGISTIC" else -one, one]
        return constant(np.asarray(labels, np.int64))[likely], gw.cat(both, 1)
    return constant(np.asarray(labels, np.int64))[scores.argmax(1)], _after(node, scores)


# -- what ONNX Runtime fuses -----------------------------------------------------------------------


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(node: OnnxNode, x: Any, bias: Any = None) -> Any:
    return F.gelu(x if bias is None else x + bias)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(node: OnnxNode, x: Any, bias: Any = None) -> Any:
    return F.gelu(x if bias is None else x + bias, "tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: OnnxNode, x: Any) -> Any:
    return x * gw.sigmoid(x * node.get("alpha", 1.702))


@operator("FusedMatMul", domain=MICROSOFT)
def fused_matmul(node: OnnxNode, x: Any, y: Any) -> Any:
    """alpha × x @ y, each of them transposed in its last dimensions if it is so marked."""
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        raise NotImplementedError(f"{node.where()}: transBatchA and transBatchB are not supported")
    x = x.mT if node.get("transA", 0) and x.ndim > 1 else x
    y = y.mT if node.get("transB", 0) and y.ndim > 1 else y
    out = gw.matmul(x, y)
    alpha = node.get("alpha", 1.0)
    return out if alpha == 1 else out * alpha


# ONNX Runtime has this one in the default domain.
operator("SimplifiedLayerNormalization")(rms_norm)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    node: OnnxNode, x: Any, skip: Any, scale: Any, shift: Any = None, bias: Any = None
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return _with_sum(node, layer_norm(_one_output(node), total, scale, shift), total)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(node: OnnxNode, x: Any, skip: Any, scale: Any, bias: Any = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return _with_sum(node, rms_norm(_one_output(node), total, scale), total)


def _one_output(node: OnnxNode) -> OnnxNode:
    given = {"epsilon": 1e-12, **node.attributes}
    return OnnxNode(node.name, node.op, outputs=node.outputs[:1], attributes=given)


def _with_sum(node: OnnxNode, out: Any, total: Any) -> Any:
    """The outputs: the second and third, statistics for training, are not there."""
    return (out, None, None, total)[: len(node.outputs)] if len(node.outputs) > 1 else out


_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Relu": F.relu,
    "Sigmoid": gw.sigmoid,
    "Tanh": gw.tanh,
    "LeakyRelu": F.leaky_relu,
    "Clip": lambda x, low, high: gw.clip(x, low, high),
    "HardSigmoid": lambda x, alpha, beta: gw.clip(alpha * x + beta, 0, 1),
}


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(node: OnnxNode, x: Any, weight: Any, bias: Any = None, added: Any = None) -> Any:
    """A convolution, something added to it, and an activation."""
    out = conv(node, x, weight, bias)
    out = out if added is None else out + added
    return _activated(node, out, *node.get("activation_params", ()))


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: OnnxNode, a: Any, b: Any, c: Any = None) -> Any:
    names = ("activation_alpha", "activation_beta")
    return _activated(
        node, gemm(node, a, b, c), *[node.get(name) for name in names if name in node.attributes]
    )


def _activated(node: OnnxNode, out: Any, *parameters: float) -> Any:
    name = node.get("activation")
    if name not in _ACTIVATIONS:
        raise NotImplementedError(f"{node.where()}: the activation {name} is not supported")
    return _ACTIVATIONS[name](out, *parameters)
