"""Arithmetic, activations, comparison and casts."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.nn import functional as F
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.operators.table import ALL, OnnxNode, direct, operator
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.elementwise.activation import elu

direct(
    Abs=gw.abs, Acos=gw.acos, Acosh=gw.acosh, Add=gw.add, And=gw.logical_and, Asin=gw.asin,
    Asinh=gw.asinh, Atan=gw.atan, Atanh=gw.atanh, BitwiseAnd=gw.bitwise_and,
    BitwiseNot=gw.bitwise_not, BitwiseOr=gw.bitwise_or, BitwiseXor=gw.bitwise_xor, Ceil=gw.ceil,
    Cos=gw.cos, Cosh=gw.cosh, Equal=gw.eq, Erf=gw.erf, Exp=gw.exp, Floor=gw.floor,
    Greater=gw.gt, GreaterOrEqual=gw.ge, HardSwish=F.hardswish, Identity=lambda x: x,
    IsNaN=gw.isnan, Less=gw.lt, LessOrEqual=gw.le, Log=gw.log, Mish=F.mish, Mul=gw.mul,
    Neg=gw.neg, Not=gw.logical_not, Or=gw.logical_or, Reciprocal=gw.reciprocal, Relu=gw.relu,
    Round=gw.round, Sigmoid=gw.sigmoid, Sign=gw.sign, Sin=gw.sin, Sinh=gw.sinh,
    Softplus=F.softplus, Softsign=F.softsign, Sqrt=gw.sqrt, Sub=gw.sub, Tan=gw.tan, Tanh=gw.tanh,
    Where=gw.where, Xor=gw.logical_xor,
    Max=lambda *xs: functools.reduce(gw.maximum, xs),
    Min=lambda *xs: functools.reduce(gw.minimum, xs),
    Sum=lambda *xs: functools.reduce(gw.add, xs),
    Mean=lambda *xs: functools.reduce(gw.add, xs) / len(xs),
)  # fmt: skip


@operator("Div")
def div(node: OnnxNode, x: Any, y: Any) -> Any:
    return gw.div(x, y) if is_floating(x.dtype) else gw.div(x, y, rounding_mode="trunc")


@operator("Mod")
def mod(node: OnnxNode, x: Any, y: Any) -> Any:
    return gw.fmod(x, y) if node.get("fmod", 0) else gw.remainder(x, y)


@operator("Pow")
def power(node: OnnxNode, x: Any, y: Any) -> Any:
    return gw.pow(x, y).to(x.dtype)  # the exponent may be of another dtype


@operator("PRelu")
def prelu(node: OnnxNode, x: Any, slope: Any) -> Any:
    if node.version < 7 and slope.ndim == 1 and x.ndim > 2:  # one for each channel
        slope = gw.reshape(slope, (-1, *(1,) * (x.ndim - 2)))
    return gw.where(x < 0, slope * x, x)


@operator("BitShift", numbers=ALL)
def bit_shift(node: OnnxNode, x: Any, y: Any) -> Any:
    return (np.left_shift if node.get("direction") == "LEFT" else np.right_shift)(x, y)


@operator("Clip", numbers=(1, 2))
def clip(node: OnnxNode, x: Any, low: Any = None, high: Any = None) -> Any:
    least = node.get("min") if low is None else low.item()
    most = node.get("max") if high is None else high.item()
    return x if least is None and most is None else gw.clip(x, min=least, max=most)


# -- casts -----------------------------------------------------------------------------------------


@operator("Cast")
def cast(node: OnnxNode, x: Any) -> Any:
    return x.to(dtype_of(node.get("to"), node.where()))


@operator("CastLike")
def cast_like(node: OnnxNode, x: Any, like: Any) -> Any:
    return x.to(like.dtype)


@operator("BitCast", numbers=ALL)
def bit_cast(node: OnnxNode, x: Any) -> Any:
    return x.view(dtype_of(node.get("to"), node.where()))


# -- activations with attributes -------------------------------------------------------------------


@operator("Celu")
def celu(node: OnnxNode, x: Any) -> Any:
    return F.celu(x, node.get("alpha", 1.0))


@operator("Elu")
def elu_of(node: OnnxNode, x: Any) -> Any:
    return F.elu(x, node.get("alpha", 1.0))


@operator("Selu")
def selu(node: OnnxNode, x: Any) -> Any:
    alpha = node.get("alpha", 1.6732632423543772)
    return elu(x, alpha=alpha, scale=node.get("gamma", 1.0507009873554805), input_scale=1.0)


@operator("Gelu")
def gelu(node: OnnxNode, x: Any) -> Any:
    return F.gelu(x, node.get("approximate", "none"))


@operator("HardSigmoid")
def hard_sigmoid(node: OnnxNode, x: Any) -> Any:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return F.hardsigmoid(x)
    return gw.clip(alpha * x + beta, 0, 1)


@operator("LeakyRelu")
def leaky_relu(node: OnnxNode, x: Any) -> Any:
    return F.leaky_relu(x, node.get("alpha", 0.01))


@operator("Binarizer", domain="ai.onnx.ml")
def binarizer(node: OnnxNode, x: Any) -> Any:
    return (x > node.get("threshold", 0.0)).to(x.dtype)


@operator("ThresholdedRelu")
def thresholded_relu(node: OnnxNode, x: Any) -> Any:
    return gw.where(x > node.get("alpha", 1.0), x, 0)


@operator("Shrink")
def shrink(node: OnnxNode, x: Any) -> Any:
    limit, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    shrunk = gw.where(x < -limit, x + bias, gw.where(x > limit, x - bias, gw.zeros_like(x)))
    return shrunk.to(x.dtype)


@operator("Swish")
def swish(node: OnnxNode, x: Any) -> Any:
    alpha = node.get("alpha", 1.0)
    return F.silu(x) if alpha == 1 else x * gw.sigmoid(alpha * x)


@operator("IsInf")
def is_inf(node: OnnxNode, x: Any) -> Any:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    if positive and negative:
        return gw.isinf(x)
    if positive or negative:
        return x == (math.inf if positive else -math.inf)
    return gw.isinf(gw.zeros_like(x))
