"""Quantized numbers: small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.operators.table import OnnxNode, axis_of, operator


def centered(x: Any, zero: Any, axis: int | None = None) -> Any:
    """x − zero point in float64, in which products of small integers are exact."""
    if zero is None:
        return x.double()
    if axis is not None and zero.ndim == 1:
        zero = gw.reshape(zero, (-1, *(1,) * (x.ndim - 1 - axis)))
    return x.double() - zero.double()


def requantized(x: Any, zero: Any) -> Any:
    """Rounded and clipped to the integers that the zero point is of."""
    limits = np.iinfo(zero.dtype)
    return gw.clip(gw.round(x) + zero.double(), limits.min, limits.max).to(zero.dtype)


def _fitted(node: OnnxNode, x: Any, parameter: Any) -> Any:
    """A scale or zero point, of each channel or block, in a shape that broadcasts."""
    if parameter is None or parameter.ndim == 0 or parameter.shape == (1,):
        return parameter
    axis, block = axis_of(node, x, 1), int(node.get("block_size", 0))
    if block:
        repeated = gw.repeat_interleave(parameter, block, axis)
        return gw.narrow(repeated, axis, 0, x.shape[axis])
    return gw.reshape(parameter, (-1, *(1,) * (x.ndim - 1 - axis)))


@operator("QuantizeLinear")
def quantize(node: OnnxNode, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    if zero is None and node.get("output_dtype", 0):
        dtype = dtype_of(node.get("output_dtype"), node.where())
    zeros = gw.zeros((), dtype=dtype) if zero is None else _fitted(node, x, zero)
    return requantized((x / _fitted(node, x, scale)).double(), zeros)


@operator("DequantizeLinear")
def dequantize(node: OnnxNode, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = scale.dtype
    if node.get("output_dtype", 0):
        dtype = dtype_of(node.get("output_dtype"), node.where())
    factor = _fitted(node, x, scale)
    return (centered(x, _fitted(node, x, zero)) * factor.double()).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(node: OnnxNode, x: Any) -> Any:
    low, high = gw.clip(gw.amin(x), max=0), gw.clip(gw.amax(x), min=0)
    scale = (high - low) / 255
    zero = gw.clip(gw.round(-low / scale), 0, 255).to(gw.uint8)
    return requantized((x / scale).double(), zero), scale, zero
