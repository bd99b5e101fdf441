"""Layers that multiply by a learned matrix."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import on_device
from gradwalk.nn.layers.options import described
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.tensors import creation

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Return the input; takes any arguments, so that it can replace any layer."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input itself."""
        return input


class Linear(Module):
    r"""$y = x W^T + b$, with $W$ of shape (out_features, in_features).

    Weight and bias start uniform in $\pm 1 / \sqrt{\text{in\_features}}$.

    >>> import gradwalk as gw
    >>> gw.nn.Linear(2, 3)(gw.zeros(5, 2)).shape
    (5, 3)
    """

    @on_device
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(creation.empty(out_features, in_features, dtype=dtype))
        self.bias: Parameter | None
        self.register_parameter("bias", empty_parameter(out_features, dtype, bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize weight and bias anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.fill(init.uniform_, self.weight, self.bias, a=-bound, b=bound)

    def forward(self, input: Any) -> Any:
        """x Wᵀ + b."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return described(self, "in_features", "out_features", "bias")


class NonDynamicallyQuantizableLinear(Linear):
    """The last map of `MultiheadAttention`: a linear map under the name that PyTorch prints."""


class Bilinear(Module):
    r"""$y_k = x_1^T W_k\, x_2 + b_k$, with $W$ of shape (out, in1, in2)."""

    @on_device
    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be positive, not {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(creation.empty(shape, dtype=dtype))
        self.bias: Parameter | None
        self.register_parameter("bias", empty_parameter(out_features, dtype, bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.fill(init.uniform_, self.weight, self.bias, a=-bound, b=bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """x₁ᵀ W x₂ + b."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return described(self, "in1_features", "in2_features", "out_features", "bias")
