"""Layers: linear, convolution, pooling, normalization, attention, recurrence and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call
from gradwalk.onnx.writers.table import GraphWriter, Value, writes


@writes("linear")
def linear(write: GraphWriter, call: Call, x: Value, weight: Value, bias: Value) -> Value:
    if call.terms[0].ndim == 2:
        return write("Gemm", x, weight, bias, transB=1)
    return write("Add", write("MatMul", x, write("Transpose", weight, perm=[1, 0])), bias)


def _pads(padding: Any) -> list[int]:
    return [before for before, _ in padding] + [after for _, after in padding]


@writes("conv", "conv_bias")
def conv(write: GraphWriter, call: Call, *operands: Value) -> Value:
    attrs, kernel = call.attrs, call.terms[1].shape[2:]
    return write(
        "Conv", *operands, kernel_shape=list(kernel), strides=list(attrs["stride"]),
        pads=_pads(attrs["padding"]), dilations=list(attrs["dilation"]), group=attrs["groups"],
    )  # fmt: skip


@writes("conv_input")
def conv_transpose(write: GraphWriter, call: Call, y: Value, weight: Value) -> Value:
    attrs, kernel, size = call.attrs, call.terms[1].shape[2:], call.terms[0].shape[2:]
    smallest = [
        (n - 1) * s + (k - 1) * d + 1 - before - after
        for n, s, k, d, (before, after) in zip(
            size, attrs["stride"], kernel, attrs["dilation"], attrs["padding"], strict=True
        )
    ]
    extra = [wanted - least for wanted, least in zip(attrs["shape"], smallest, strict=True)]
    return write(
        "ConvTranspose", y, weight, kernel_shape=list(kernel), strides=list(attrs["stride"]),
        pads=_pads(attrs["padding"]), dilations=list(attrs["dilation"]), group=attrs["groups"],
        output_padding=extra,
    )  # fmt: skip


def _window(call: Call) -> dict[str, Any]:
    """The attributes of a pooling node; padding after the input reaches to the last window."""
    attrs, size = call.attrs, call.terms[0].shape[-len(call.attrs["kernel"]) :]
    dilation = attrs.get("dilation", (1,) * len(size))
    pads = []
    for n, k, o, s, d, (before, after) in zip(
        size, attrs["kernel"], attrs["out"], attrs["stride"], dilation, attrs["padding"],
        strict=True,
    ):  # fmt: skip
        reach = (o - 1) * s + (k - 1) * d + 1
        pads.append((before, max(after, reach - n - before)))
    return dict(kernel_shape=list(attrs["kernel"]), strides=list(attrs["stride"]), pads=_pads(pads))


def _fits_exactly(call: Call) -> bool:
    """Whether ONNX, which is not told the number of windows, finds the same."""
    window, attrs = _window(call), call.attrs
    n = len(attrs["kernel"])
    size, dilation = call.terms[0].shape[-n:], attrs.get("dilation", (1,) * n)
    pads = window["pads"]
    found = [
        (size[i] + pads[i] + pads[i + n] - dilation[i] * (attrs["kernel"][i] - 1) - 1)
        // attrs["stride"][i]
        + 1
        for i in range(n)
    ]
    return found == list(attrs["out"])


def _pooled(write: GraphWriter, call: Call, op: str, x: Value, **attributes: Any) -> Value:
    """A pooling node, which takes one dimension for the batch and one for channels."""
    shape, n = call.terms[0].shape, len(call.attrs["kernel"])
    if len(shape) == n + 2:
        return write(op, x, **_window(call), **attributes)
    lead = math.prod(shape[:-n])
    planes = write("Reshape", x, [lead, 1, *shape[-n:]])
    return write(
        "Reshape", write(op, planes, **_window(call), **attributes), list(call.outputs[0].shape)
    )


@writes("max_pool", fits=_fits_exactly)
def max_pool(write: GraphWriter, call: Call, x: Value) -> Value:
    return _pooled(write, call, "MaxPool", x, dilations=list(call.attrs["dilation"]))


@writes("max_pool_indices", fits=_fits_exactly)
def max_pool_indices(write: GraphWriter, call: Call, x: Value) -> Value:
    """Where the largest elements are in each plane; ONNX counts in the whole tensor."""
    shape, n = call.terms[0].shape, len(call.attrs["kernel"])
    planes = write("Reshape", x, [math.prod(shape[:-n]), 1, *shape[-n:]])
    dilations = list(call.attrs["dilation"])
    _, found = write("MaxPool", planes, count=2, **_window(call), dilations=dilations)
    found = write("Mod", found, write.constant(np.int64(math.prod(shape[-n:]))))
    return write("Reshape", found, list(call.outputs[0].shape))


@writes("pool_sum", fits=_fits_exactly)
def pool_sum(write: GraphWriter, call: Call, x: Value) -> Value:
    mean = _pooled(write, call, "AveragePool", x, count_include_pad=1)
    count = np.array(math.prod(call.attrs["kernel"]), call.outputs[0].dtype)
    return write("Mul", mean, write.constant(count))


# -- normalization ---------------------------------------------------------------------------------


def _is_trailing(call: Call) -> bool:
    """Whether the last dimensions are normalized: all but the first, or but the first two."""
    ndim, axes = call.terms[0].ndim, call.attrs["axes"]
    return bool(axes) and axes == tuple(range(ndim - len(axes), ndim)) and call.attrs["center"]


@writes("standardize", "standardize_affine", fits=_is_trailing)
def normalization(write: GraphWriter, call: Call, x: Value, *parameters: Value) -> Value:
    """Layer norm, or instance norm if the weights are of the dimensions before."""
    axes, eps = call.attrs["axes"], call.attrs["eps"]
    shape, dtype = call.terms[0].shape, call.outputs[0].dtype
    last, lead = shape[-len(axes) :], shape[: -len(axes)]
    if all(term.shape == (*(1,) * len(lead), *last) for term in call.terms[1:]):
        weights = [write.unlifted(term, last) for term in call.terms[1:]]
        weights = weights or [write.constant(np.ones(last, dtype))]
        return write("LayerNormalization", x, *weights, axis=-len(axes), epsilon=eps)
    channels = (1, *lead[1:], *(1,) * len(axes))
    if len(lead) == 2 and all(term.shape == channels for term in call.terms[1:]):
        weights = [write.unlifted(term, lead[1:]) for term in call.terms[1:]]
        return write("InstanceNormalization", x, *weights, epsilon=eps)
    ones = write.constant(np.ones(last, dtype))
    out = write("LayerNormalization", x, ones, axis=-len(axes), epsilon=eps)
    return write("Add", write("Mul", out, parameters[0]), parameters[1])


@writes("batch_norm")
def batch_norm(write: GraphWriter, call: Call, *operands: Value) -> Value:
    return write("BatchNormalization", *operands, epsilon=call.attrs["eps"])


# -- attention and recurrence ----------------------------------------------------------------------


@writes("attention", since=23, fits=lambda call: call.terms[0].ndim == 4)
def attention(write: GraphWriter, call: Call, query: Value, key: Value, value: Value) -> Value:
    causal = int(call.attrs["causal"])
    return write("Attention", query, key, value, scale=call.attrs["scale"], is_causal=causal)


def _rows(write: GraphWriter, weight: Value, size: int, order: tuple[int, ...]) -> Value:
    """The gates of a weight or bias in ONNX's order, with a dimension for directions."""
    parts = write("Split", weight, [size] * len(order), count=len(order), axis=0)
    return write("Unsqueeze", write("Concat", *(parts[i] for i in order), axis=0), [0])


def _sequence(
    write: GraphWriter, call: Call, op: str, inputs: list[Value], **attributes: Any
) -> list[Value]:
    """The outputs (time, batch, size) of a recurrent node, and its last states."""
    direction = "reverse" if call.attrs["reverse"] else "forward"
    count = 3 if op == "LSTM" else 2
    out, *states = write(
        op, *inputs, count=count, hidden_size=call.terms[1].shape[-1], direction=direction,
        **attributes,
    )  # fmt: skip
    return [write("Squeeze", out, [1]), *(write("Squeeze", state, [0]) for state in states)]


@writes("lstm")
def lstm(
    write: GraphWriter, call: Call, x: Value, h: Value, c: Value, w: Value, r: Value, b: Value
) -> Any:
    size, order = call.terms[1].shape[-1], (0, 3, 1, 2)  # of i, f, g, o: i, o, f, g
    w, r, b = (_rows(write, part, size, order) for part in (w, r, b))
    bias = write("Concat", b, write("Sub", b, b), axis=1)
    h, c = (write("Unsqueeze", state, [0]) for state in (h, c))
    out, _, cell = _sequence(write, call, "LSTM", [x, w, r, bias, None, h, c])
    return out, cell


@writes("gru")
def gru(
    write: GraphWriter, call: Call, x: Value, h: Value, w: Value, r: Value, b: Value, b_h: Value
) -> Value:
    size, order = call.terms[1].shape[-1], (1, 0, 2)  # of r, z, n: z, r, n
    w, r, b, b_h = (_rows(write, part, size, order) for part in (w, r, b, b_h))
    inputs = [x, w, r, write("Concat", b, b_h, axis=1), None, write("Unsqueeze", h, [0])]
    return _sequence(write, call, "GRU", inputs, linear_before_reset=1)[0]


@writes("rnn")
def rnn(write: GraphWriter, call: Call, x: Value, h: Value, w: Value, r: Value, b: Value) -> Value:
    w, r, b, h = (write("Unsqueeze", part, [0]) for part in (w, r, b, h))
    bias = write("Concat", b, write("Sub", b, b), axis=1)
    activation = "Tanh" if call.attrs["nonlinearity"] == "tanh" else "Relu"
    return _sequence(write, call, "RNN", [x, w, r, bias, None, h], activations=[activation])[0]


# -- losses ----------------------------------------------------------------------------------------


@writes("cross_entropy")
def cross_entropy(write: GraphWriter, call: Call, logits: Value, target: Value) -> Value:
    return write(
        "SoftmaxCrossEntropyLoss", logits, target, reduction="none",
        ignore_index=call.attrs["ignore_index"],
    )  # fmt: skip
