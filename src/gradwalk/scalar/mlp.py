"""A small neural network of Values: neurons, layers, a multi-layer perceptron."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from gradwalk.scalar.value import Value


class Module:
    """Something with parameters."""

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to zero."""
        for p in self.parameters():
            p.grad = 0

    def parameters(self) -> list[Value]:
        """Every number that is learned."""
        return []


class Neuron(Module):
    """relu(w · x + b), or without the relu."""

    def __init__(self, nin: int, nonlin: bool = True) -> None:
        self.w = [Value(random.uniform(-1, 1)) for _ in range(nin)]
        self.b = Value(0)
        self.nonlin = nonlin

    def __call__(self, x: Sequence[Any]) -> Value:
        act: Value = sum((wi * xi for wi, xi in zip(self.w, x, strict=False)), self.b)
        return act.relu() if self.nonlin else act

    def parameters(self) -> list[Value]:
        """The weights, then the bias."""
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """Several neurons on the same inputs."""

    def __init__(self, nin: int, nout: int, **kwargs: Any) -> None:
        self.neurons = [Neuron(nin, **kwargs) for _ in range(nout)]

    def __call__(self, x: Sequence[Any]) -> Any:
        out = [n(x) for n in self.neurons]
        return out[0] if len(out) == 1 else out

    def parameters(self) -> list[Value]:
        """The parameters of every neuron."""
        return [p for n in self.neurons for p in n.parameters()]

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(str(n) for n in self.neurons)}]"


class MLP(Module):
    """Layers one after the other; all but the last with relu.

    >>> from gradwalk.scalar import MLP
    >>> len(MLP(2, [16, 16, 1]).parameters())
    337
    """

    def __init__(self, nin: int, nouts: Sequence[int]) -> None:
        sizes = [nin, *nouts]
        self.layers = [
            Layer(sizes[i], sizes[i + 1], nonlin=i != len(nouts) - 1) for i in range(len(nouts))
        ]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    def parameters(self) -> list[Value]:
        """The parameters of every layer."""
        return [p for layer in self.layers for p in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(str(layer) for layer in self.layers)}]"
