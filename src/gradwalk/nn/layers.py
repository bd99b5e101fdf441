"""Layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gradwalk import creation
from gradwalk.nn import functional
from gradwalk.nn.module import Module, Parameter


class Linear(Module):
    """y = x Wᵀ + b, with W of shape (out_features, in_features).

    >>> import gradwalk as gw
    >>> gw.nn.Linear(2, 3)(gw.zeros(5, 2)).shape
    (5, 3)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        shape = (out_features, in_features)
        self.weight = Parameter((creation.rand(*shape, dtype=dtype) * 2 - 1) * bound)
        self.bias = (
            Parameter((creation.rand(out_features, dtype=dtype) * 2 - 1) * bound) if bias else None
        )

    def forward(self, x: Any) -> Any:
        """x Wᵀ + b."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Any) -> Any:
        """max(x, 0)."""
        return functional.relu(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Any) -> Any:
        """tanh(x)."""
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + e⁻ˣ)."""

    def forward(self, x: Any) -> Any:
        """sigmoid(x)."""
        return functional.sigmoid(x)


class Sequential(Module):
    """Modules one after the other, named "0", "1", ...

    >>> import gradwalk as gw
    >>> gw.nn.Sequential(gw.nn.Linear(1, 2), gw.nn.ReLU())
    Sequential(
      (0): Linear(in_features=1, out_features=2, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *modules: Module) -> None:
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def __iter__(self) -> Iterator[Module]:
        return (m for m in vars(self).values() if isinstance(m, Module))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> Module:
        return list(self)[index]

    def forward(self, x: Any) -> Any:
        """Each module applied to the result of the one before."""
        for module in self:
            x = module(x)
        return x
