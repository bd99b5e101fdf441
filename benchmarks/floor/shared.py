"""Shared parts of the hand-written steps: the loss, the two optimizers, and reused buffers.

Parameters and gradients are dictionaries under the names that `model.named_parameters()` gives in
gradwalk and PyTorch, so that any of the three can start from another's weights. All arrays have the
dtype of the parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


class Floor:
    """One network's training step; a subclass writes its forward and backward pass by hand."""

    optimizer: Momentum | AdamW

    def __init__(self, parameters: Arrays) -> None:
        self.parameters = parameters

    def gradients(self, inputs: Array, labels: Array) -> tuple[float, Arrays]:
        raise NotImplementedError

    def step(self, inputs: Array, labels: Array) -> float:
        """Run forward, loss, backward and update; return the loss."""
        loss, gradients = self.gradients(inputs, labels)
        self.optimizer.update(gradients)
        return loss


class Buffers:
    """Large arrays, reused by name from step to step.

    The C library returns freed large arrays to the system. Allocating them again costs a page fault
    per 4 KiB: half a step of the CNN, a third of the LSTM's.
    """

    def __init__(self) -> None:
        self.kept: Arrays = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array with its previous contents, or with zeros if it is new."""
        found = self.kept.get(name)
        if found is None or found.shape != shape:
            self.kept[name] = found = np.zeros(shape, dtype)
        return found


class Momentum:
    """Gradient descent with momentum: v = momentum × v + gradient; p −= rate × v."""

    def __init__(self, parameters: Arrays, rate: float, momentum: float = 0.9) -> None:
        self.parameters, self.rate, self.momentum = parameters, rate, momentum
        self.running = {name: np.zeros_like(each) for name, each in parameters.items()}

    def update(self, gradients: Arrays) -> None:
        for name, parameter in self.parameters.items():
            running, gradient = self.running[name], gradients[name]
            running *= self.momentum
            running += gradient
            np.multiply(running, self.rate, out=gradient)  # the gradient is no longer needed
            parameter -= gradient


class AdamW:
    """Adam with decoupled weight decay; plain Adam if `decay` is 0."""

    def __init__(self, parameters: Arrays, rate: float, decay: float) -> None:
        self.parameters, self.rate, self.decay = parameters, rate, decay
        self.beta1, self.beta2, self.eps = 0.9, 0.999, 1e-8
        self.steps = 0
        self.mean = {name: np.zeros_like(each) for name, each in parameters.items()}
        self.square = {name: np.zeros_like(each) for name, each in parameters.items()}

    def update(self, gradients: Arrays) -> None:
        self.steps += 1
        # Both bias corrections, as scalar factors.
        correction = math.sqrt(1 - self.beta2**self.steps)
        rate = self.rate * correction / (1 - self.beta1**self.steps)
        for name, parameter in self.parameters.items():
            gradient, mean, square = gradients[name], self.mean[name], self.square[name]
            if self.decay:
                parameter *= 1 - self.rate * self.decay
            scratch = gradient * (1 - self.beta1)
            mean *= self.beta1
            mean += scratch
            np.multiply(gradient, gradient, out=scratch)
            scratch *= 1 - self.beta2
            square *= self.beta2
            square += scratch
            np.sqrt(square, out=scratch)
            scratch += self.eps * correction
            np.divide(mean, scratch, out=scratch)
            scratch *= rate
            parameter -= scratch


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """The mean loss of (rows, classes) logits, and its gradient, stored in the logits' memory."""
    rows = np.arange(len(labels))
    logits -= logits.max(1, keepdims=True)
    chosen = logits[rows, labels]
    np.exp(logits, out=logits)
    total = logits.sum(1, keepdims=True)
    loss = (np.log(total[:, 0]) - chosen).mean()
    logits /= total * len(labels)
    logits[rows, labels] -= 1 / len(labels)
    return float(loss), logits
