"""The training step of a small convolutional network, by hand.

The batch is the last dimension, (channels, height, width, batch): a pixel of a patch is then one
contiguous run of memory for all images, and both extracting patches and summing them are fast. We
compared this with the batch first, and channels first or last.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .shared import AdamW, Array, Arrays, Buffers, Floor, cross_entropy


class CnnFloor(Floor):
    """Conv, relu, conv, relu, max-pool, linear, relu, linear; cross-entropy; AdamW."""

    def __init__(self, parameters: Arrays, rate: float) -> None:
        super().__init__(parameters)
        self.optimizer = AdamW(parameters, rate, decay=0.01)
        self.buffer = Buffers()

    def gradients(self, inputs: Array, labels: Array) -> tuple[float, Arrays]:
        p = self.parameters
        batch = len(labels)
        images = inputs.transpose(1, 2, 3, 0)  # (channels, height, width, batch)
        first, first_columns = self.convolve(images, "0")
        second, second_columns = self.convolve(first, "2")
        pooled = largest_of_four(second)  # (channels, height / 2, width / 2, batch)
        flat = pooled.reshape(-1, batch)  # (features, batch)
        hidden = p["6.weight"] @ flat  # (hidden, batch)
        hidden += p["6.bias"][:, None]
        np.maximum(hidden, 0, out=hidden)
        logits = hidden.T @ p["8.weight"].T  # (batch, classes)
        logits += p["8.bias"]
        loss, g = cross_entropy(logits, labels)

        gradients = {"8.weight": g.T @ hidden.T, "8.bias": g.sum(0)}
        g = p["8.weight"].T @ g.T  # (hidden, batch)
        g *= hidden > 0
        gradients |= {"6.weight": g @ flat.T, "6.bias": g.sum(1)}
        g = (p["6.weight"].T @ g).reshape(pooled.shape)
        g = spread_to_largest(g, second, pooled)
        g *= second > 0
        gradients |= self.convolution_gradients(g, second_columns, "2")
        g = self.add_patches(g, p["2.weight"])
        g *= first > 0
        gradients |= self.convolution_gradients(g, first_columns, "0")
        return loss, gradients

    def convolve(self, x: Array, name: str) -> tuple[Array, Array]:
        """relu(3 × 3 convolution + bias) with padding 1; also its patches as columns."""
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        channels, height, width, batch = x.shape
        # Only the inside is written, so the frame stays 0.
        framed = self.buffer(f"{name} framed", (channels, height + 2, width + 2, batch), x.dtype)
        framed[:, 1:-1, 1:-1] = x
        windows = sliding_window_view(framed, (3, 3), (1, 2))  # (..., 3, 3)
        columns = self.buffer(f"{name} columns", (channels, 3, 3, height, width, batch), x.dtype)
        columns[...] = windows.transpose(0, 4, 5, 1, 2, 3)
        columns = columns.reshape(channels * 9, -1)  # (patch, places)
        out = self.buffer(f"{name} out", (len(weight), columns.shape[1]), x.dtype)
        np.matmul(weight.reshape(len(weight), -1), columns, out=out)  # (outputs, places)
        out += bias[:, None]
        np.maximum(out, 0, out=out)
        return out.reshape(-1, height, width, batch), columns

    def convolution_gradients(self, g: Array, columns: Array, name: str) -> Arrays:
        """The gradients of weight and bias."""
        g = g.reshape(len(g), -1)  # (outputs, places)
        weight = columns @ g.T  # faster than computing its transpose, the gradient, directly
        shape = self.parameters[f"{name}.weight"].shape
        return {f"{name}.weight": weight.T.reshape(shape), f"{name}.bias": g.sum(1)}

    def add_patches(self, g: Array, weight: Array) -> Array:
        """The gradient of a convolution's input: the gradients of all patches, summed in place."""
        outputs, height, width, batch = g.shape
        channels = weight.shape[1]
        patches = self.buffer("patches", (channels * 9, height * width * batch), g.dtype)
        np.matmul(weight.reshape(outputs, -1).T, g.reshape(outputs, -1), out=patches)
        patches = patches.reshape(channels, 3, 3, height, width, batch)
        framed = self.buffer("framed", (channels, height + 2, width + 2, batch), g.dtype)
        framed[...] = 0
        for i in range(3):
            for j in range(3):
                framed[:, i : i + height, j : j + width] += patches[:, i, j]
        return framed[:, 1:-1, 1:-1]


def quarters(x: Array) -> list[Array]:
    """The four pixels of every 2 × 2 window, in reading order."""
    return [x[:, i::2, j::2] for i in range(2) for j in range(2)]


def largest_of_four(x: Array) -> Array:
    a, b, c, d = quarters(x)
    out = np.maximum(a, b)
    np.maximum(out, c, out=out)
    np.maximum(out, d, out=out)
    return out


def spread_to_largest(g: Array, x: Array, largest: Array) -> Array:
    """Route each window's gradient to its largest pixel; of equal ones, to the first."""
    out = np.empty_like(x)
    open_ = np.ones(g.shape, bool)  # windows whose gradient has not been routed yet
    for source, target in zip(quarters(x), quarters(out), strict=True):
        chosen = source == largest
        chosen &= open_
        open_ ^= chosen
        np.multiply(g, chosen, out=target)
    return out
