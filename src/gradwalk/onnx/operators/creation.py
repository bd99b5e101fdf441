"""Constants, ranges and random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.operators.table import ALL, OnnxNode, constant, operator


@operator("Constant", numbers=ALL)
def constant_of(node: OnnxNode) -> Any:
    kinds = {"value_float": np.float32, "value_floats": np.float32}
    for name, value in node.attributes.items():
        if name == "value":
            return value
        if name.startswith(("value_int", "value_float")):
            return np.array(value, kinds.get(name, np.int64))
    raise ValueError(f"{node.where()} has no value that is a tensor of numbers")


@operator("ConstantOfShape", numbers=ALL)
def constant_of_shape(node: OnnxNode, shape: Any) -> Any:
    value = node.get("value", np.zeros(1, np.float32))
    return np.full(tuple(map(int, shape)), value.reshape(-1)[0], value.dtype)


@operator("Range", numbers=ALL)
def range_of(node: OnnxNode, start: Any, limit: Any, delta: Any) -> Any:
    first, last, step = (n.reshape(-1)[0].item() for n in (start, limit, delta))
    count = max(math.ceil((last - first) / step), 0)
    return (first + np.arange(count) * step).astype(start.dtype)


@operator("EyeLike")
def eye_like(node: OnnxNode, x: Any) -> Any:
    dtype = dtype_of(node.get("dtype"), node.where()) if node.get("dtype") else x.dtype
    rows, columns = x.shape
    return np.eye(rows, columns, node.get("k", 0)).astype(dtype)


@operator("OneHot", numbers=(1,))
def one_hot(node: OnnxNode, indices: Any, depth: Any, values: Any) -> Any:
    count, axis = int(np.asarray(depth).reshape(-1)[0]), int(node.get("axis", -1))
    axis += indices.ndim + 1 if axis < 0 else 0
    places = constant(np.arange(count).reshape((count, *(1,) * (indices.ndim - axis))))
    wrapped = gw.unsqueeze(indices.to(gw.int64), axis)
    wrapped = gw.where(wrapped < 0, wrapped + count, wrapped)
    return gw.where(wrapped == places, values[1], values[0])


# -- random numbers --------------------------------------------------------------------------------


def _drawn(node: OnnxNode, shape: Any, dtype: Any) -> Any:
    seed = node.get("seed")
    generator = None if seed is None else gw.Generator().manual_seed(int(seed))
    if "Normal" in node.op:
        numbers = gw.randn(*shape, generator=generator)
        return (numbers * node.get("scale", 1.0) + node.get("mean", 0.0)).to(dtype)
    low, high = node.get("low", 0.0), node.get("high", 1.0)
    return (gw.rand(*shape, generator=generator) * (high - low) + low).to(dtype)


@operator("RandomNormal", "RandomUniform", varies=True)
def random(node: OnnxNode) -> Any:
    return _drawn(node, node.get("shape"), dtype_of(node.get("dtype", 1), node.where()))


@operator("RandomNormalLike", "RandomUniformLike", varies=True)
def random_like(node: OnnxNode, x: Any) -> Any:
    code = node.get("dtype")
    return _drawn(node, tuple(x.shape), x.dtype if code is None else dtype_of(code, node.where()))


@operator("Bernoulli", varies=True)
def bernoulli(node: OnnxNode, x: Any) -> Any:
    code = node.get("dtype")
    return gw.bernoulli(x).to(x.dtype if code is None else dtype_of(code, node.where()))


@operator("Multinomial", varies=True)
def multinomial(node: OnnxNode, x: Any) -> Any:
    drawn = gw.multinomial(gw.softmax(x, 1), node.get("sample_size", 1), replacement=True)
    return drawn.to(dtype_of(node.get("dtype", 6), node.where()))


# -- windows and filters ---------------------------------------------------------------------------


_WINDOWS = {
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator(*_WINDOWS, numbers=ALL)
def window(node: OnnxNode, size: Any) -> Any:
    count = int(size)
    turn = 2 * np.pi * np.arange(count) / (count if node.get("periodic", 1) else count - 1)
    terms = [(-1) ** k * a * np.cos(k * turn) for k, a in enumerate(_WINDOWS[node.op])]
    return sum(terms[1:], terms[0]).astype(dtype_of(node.get("output_datatype", 1), node.where()))


@operator("MelWeightMatrix", numbers=ALL)
def mel_weight_matrix(
    node: OnnxNode, bins: Any, length: Any, rate: Any, lowest: Any, highest: Any
) -> Any:
    def mel(hertz: Any) -> Any:
        return 2595 * np.log10(1 + hertz / 700)

    spectrum = int(length) // 2 + 1
    mels = np.linspace(mel(float(lowest)), mel(float(highest)), int(bins) + 3)[:-1]
    edges = np.floor((int(length) + 1) * 700 * (10 ** (mels / 2595) - 1) / int(rate)).astype(int)
    matrix = np.zeros((spectrum, int(bins)))
    for i, (low, centre, high) in enumerate(zip(edges, edges[1:], edges[2:])):
        rising, falling = np.arange(low, centre + 1), np.arange(centre, high)
        matrix[rising, i] = (rising - low) / (centre - low) if centre > low else 1
        matrix[falling, i] = (high - falling) / (high - centre)
    return matrix.astype(dtype_of(node.get("output_datatype", 1), node.where()))
