"""The training step of a multilayer perceptron, by hand."""

from __future__ import annotations

import numpy as np

from .shared import Array, Arrays, Floor, Momentum, cross_entropy


class MlpFloor(Floor):
    """Linear, relu, linear, relu, linear; cross-entropy; SGD with momentum."""

    def __init__(self, parameters: Arrays, rate: float) -> None:
        super().__init__(parameters)
        self.optimizer = Momentum(parameters, rate)

    def gradients(self, inputs: Array, labels: Array) -> tuple[float, Arrays]:
        p = self.parameters
        first = inputs @ p["0.weight"].T  # (batch, hidden)
        first += p["0.bias"]
        np.maximum(first, 0, out=first)
        second = first @ p["2.weight"].T  # (batch, hidden)
        second += p["2.bias"]
        np.maximum(second, 0, out=second)
        logits = second @ p["4.weight"].T  # (batch, classes)
        logits += p["4.bias"]
        loss, g = cross_entropy(logits, labels)

        gradients = {"4.weight": g.T @ second, "4.bias": g.sum(0)}
        g = g @ p["4.weight"]  # (batch, hidden)
        g *= second > 0
        gradients |= {"2.weight": g.T @ first, "2.bias": g.sum(0)}
        g = g @ p["2.weight"]  # (batch, hidden)
        g *= first > 0
        gradients |= {"0.weight": g.T @ inputs, "0.bias": g.sum(0)}
        return loss, gradients
