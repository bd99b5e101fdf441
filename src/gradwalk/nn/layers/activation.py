"""Activation functions as layers; with `inplace` they overwrite their input, as in PyTorch."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.constructors import on_device
from gradwalk.nn.layers.options import OneInput, layer
from gradwalk.nn.module import Module, Parameter
from gradwalk.ops.elementwise.activation import relu, sigmoid
from gradwalk.ops.elementwise.trigonometry import tanh
from gradwalk.tensors import creation

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(OneInput):
    inplace: bool

    def extra_repr(self) -> str:
        """The options; `inplace` only where it is on."""
        return ", ".join(filter(None, [super().extra_repr(), "inplace=True" * self.inplace]))


@layer()
class ReLU(_InPlace):
    r"""$\max(x, 0)$."""

    inplace: bool = False

    def forward(self, input: Any) -> Any:
        """max(x, 0)."""
        return functional.relu(input, True) if self.inplace else relu(input)


@layer(functional.hardtanh, shown="min_val max_val")
class Hardtanh(_InPlace):
    r"""$\min(\max(x, \text{min\_val}), \text{max\_val})$."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def _check(self) -> None:
        if self.max_val <= self.min_val:
            raise ValueError(f"max_val {self.max_val} must be larger than min_val {self.min_val}")


class ReLU6(Hardtanh):
    r"""$\min(\max(x, 0), 6)$."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@layer(functional.leaky_relu, shown="negative_slope")
class LeakyReLU(_InPlace):
    r"""$\max(x, 0) + a \min(x, 0)$."""

    negative_slope: float = 0.01
    inplace: bool = False


class PReLU(Module):
    r"""$\max(x, 0) + a \min(x, 0)$ with a learned $a$, one for all channels or one for each."""

    @on_device
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(creation.empty(num_parameters, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to `init`."""
        self.weight.detach().fill_(self.init)

    def forward(self, input: Any) -> Any:
        """x where positive, a · x elsewhere."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"num_parameters={self.num_parameters}"


@layer(functional.elu, shown="alpha")
class ELU(_InPlace):
    r"""$x$ where positive, else $\alpha (e^x - 1)$."""

    alpha: float = 1.0
    inplace: bool = False


@layer(functional.celu, shown="alpha")
class CELU(_InPlace):
    r"""$\max(x, 0) + \min(0, \alpha (e^{x / \alpha} - 1))$."""

    alpha: float = 1.0
    inplace: bool = False


@layer(functional.selu)
class SELU(_InPlace):
    r"""ELU scaled to keep means and variances: $\lambda\, \mathrm{ELU}_\alpha(x)$."""

    inplace: bool = False


@layer(functional.gelu, shown="approximate")
class GELU(OneInput):
    r"""$x\, \Phi(x)$; `approximate="tanh"` is the form of GPT-2."""

    approximate: str = "none"


@layer(functional.silu)
class SiLU(_InPlace):
    r"""$x\, \sigma(x)$."""

    inplace: bool = False


@layer(functional.mish)
class Mish(_InPlace):
    r"""$x \tanh(\mathrm{softplus}(x))$."""

    inplace: bool = False


@layer(functional.hardsigmoid)
class Hardsigmoid(OneInput):
    r"""$\min(\max(x / 6 + 1/2, 0), 1)$."""

    inplace: bool = False


@layer(functional.hardswish)
class Hardswish(OneInput):
    r"""$x\, \mathrm{hardsigmoid}(x)$."""

    inplace: bool = False


@layer(functional.softplus, shown="beta threshold")
class Softplus(OneInput):
    r"""$\frac{1}{\beta} \log(1 + e^{\beta x})$; above the threshold, $x$."""

    beta: float = 1.0
    threshold: float = 20.0


@layer()
class _Shrink(OneInput):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        """The bound λ."""
        return f"{self.lambd}"


@layer(functional.hardshrink)
class Hardshrink(_Shrink):
    r"""$x$ where $|x| > \lambda$, else 0."""


@layer(functional.softshrink)
class Softshrink(_Shrink):
    r"""$x$ moved towards 0 by $\lambda$."""


@layer(functional.threshold, shown="threshold value")
class Threshold(_InPlace):
    r"""$x$ where $x > $ threshold, else `value`."""

    threshold: float
    value: float
    inplace: bool = False


class Tanh(Module):
    r"""$\tanh(x)$."""

    def forward(self, input: Any) -> Any:
        """tanh(x)."""
        return tanh(input)


class Sigmoid(Module):
    r"""$1 / (1 + e^{-x})$."""

    def forward(self, input: Any) -> Any:
        """sigmoid(x)."""
        return sigmoid(input)


@layer(functional.softsign)
class Softsign(OneInput):
    r"""$x / (1 + |x|)$."""


@layer(functional.tanhshrink)
class Tanhshrink(OneInput):
    r"""$x - \tanh(x)$."""


@layer(functional.logsigmoid)
class LogSigmoid(OneInput):
    r"""$\log \sigma(x)$, stable."""


@layer()
class _AlongDim(OneInput):
    dim: int | None = None
    _shown = ("dim",)


@layer(functional.glu)
class GLU(_AlongDim):
    r"""$a\, \sigma(b)$, with $a$ and $b$ the halves of $x$ along `dim`."""

    dim: int | None = -1


@layer(functional.softmax)
class Softmax(_AlongDim):
    r"""$e^{x_i} / \sum_j e^{x_j}$ along `dim`."""


@layer(functional.softmin)
class Softmin(_AlongDim):
    r"""$e^{-x_i} / \sum_j e^{-x_j}$ along `dim`."""


@layer(functional.log_softmax)
class LogSoftmax(_AlongDim):
    r"""$x_i - \log \sum_j e^{x_j}$ along `dim`."""


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        """softmax over channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d takes (N, C, H, W) or (C, H, W), not {input.shape}")
        return functional.softmax(input, -3)
