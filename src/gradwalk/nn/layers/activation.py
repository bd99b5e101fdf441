"""Activation functions as layers; with `inplace` they write over their input, as in PyTorch."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.module import Module, Parameter
from gradwalk.ops.elementwise.activation import relu, sigmoid
from gradwalk.ops.elementwise.trigonometry import tanh
from gradwalk.tensors import creation


class _InPlace(Module):
    """An activation with no other option than `inplace`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def _with_inplace(self, *options: str) -> str:
        return ", ".join([*options, *(["inplace=True"] if self.inplace else [])])

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace()


class ReLU(_InPlace):
    r"""$\max(x, 0)$."""

    def forward(self, input: Any) -> Any:
        """max(x, 0)."""
        return functional.relu(input, True) if self.inplace else relu(input)


class Hardtanh(_InPlace):
    r"""$\min(\max(x, \text{min\_val}), \text{max\_val})$."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        if max_val <= min_val:
            raise ValueError(f"max_val {max_val} must be larger than min_val {min_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Any) -> Any:
        """x between two values."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace(f"min_val={self.min_val}", f"max_val={self.max_val}")


class ReLU6(Hardtanh):
    r"""$\min(\max(x, 0), 6)$."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def forward(self, input: Any) -> Any:
        """x between 0 and 6."""
        return functional.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace()


class LeakyReLU(_InPlace):
    r"""$\max(x, 0) + a \min(x, 0)$."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Any:
        """x, or a · x where it is negative."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace(f"negative_slope={self.negative_slope}")


class PReLU(Module):
    r"""$\max(x, 0) + a \min(x, 0)$ with a learned $a$, one for all channels or one for each."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(creation.empty(num_parameters, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start from `init` again."""
        self.weight.detach().fill_(self.init)

    def forward(self, input: Any) -> Any:
        """x, or a · x where it is negative."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The options."""
        return f"num_parameters={self.num_parameters}"


class ELU(_InPlace):
    r"""$x$ where positive, else $\alpha (e^x - 1)$."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        """x, or α(eˣ − 1) where it is negative."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace(f"alpha={self.alpha}")


class CELU(ELU):
    r"""$\max(x, 0) + \min(0, \alpha (e^{x / \alpha} - 1))$."""

    def forward(self, input: Any) -> Any:
        """x, or α(eˣᐟᵅ − 1) where it is negative."""
        return functional.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    r"""ELU scaled so that means and variances stay: $\lambda\, \mathrm{ELU}_\alpha(x)$."""

    def forward(self, input: Any) -> Any:
        """λ · elu(x, α)."""
        return functional.selu(input, self.inplace)


class GELU(Module):
    r"""$x\, \Phi(x)$; `approximate="tanh"` is the form of GPT-2."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """x Φ(x)."""
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The options."""
        return f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    r"""$x\, \sigma(x)$."""

    def forward(self, input: Any) -> Any:
        """x σ(x)."""
        return functional.silu(input, self.inplace)


class Mish(_InPlace):
    r"""$x \tanh(\mathrm{softplus}(x))$."""

    def forward(self, input: Any) -> Any:
        """x tanh(softplus(x))."""
        return functional.mish(input, self.inplace)


class Hardsigmoid(_InPlace):
    r"""$\min(\max(x / 6 + 1/2, 0), 1)$."""

    def forward(self, input: Any) -> Any:
        """x / 6 + 1/2, between 0 and 1."""
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Hardswish(Hardsigmoid):
    r"""$x\, \mathrm{hardsigmoid}(x)$."""

    def forward(self, input: Any) -> Any:
        """x · hardsigmoid(x)."""
        return functional.hardswish(input, self.inplace)


class Softplus(Module):
    r"""$\frac{1}{\beta} \log(1 + e^{\beta x})$; above the threshold, $x$."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        """log(1 + eˣ)."""
        return functional.softplus(input, beta=self.beta, threshold=self.threshold)

    def extra_repr(self) -> str:
        """The options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    r"""$x$ where $|x| > \lambda$, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """x where it is large, else 0."""
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    r"""$x$ moved towards 0 by $\lambda$."""

    def forward(self, input: Any) -> Any:
        """x moved towards 0."""
        return functional.softshrink(input, self.lambd)


class Threshold(_InPlace):
    r"""$x$ where $x > $ threshold, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Any) -> Any:
        """x above the threshold, else the value."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The options."""
        return self._with_inplace(f"threshold={self.threshold}", f"value={self.value}")


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


class Softsign(Module):
    r"""$x / (1 + |x|)$."""

    def forward(self, input: Any) -> Any:
        """x / (1 + |x|)."""
        return functional.softsign(input)


class Tanhshrink(Module):
    r"""$x - \tanh(x)$."""

    def forward(self, input: Any) -> Any:
        """x − tanh(x)."""
        return functional.tanhshrink(input)


class LogSigmoid(Module):
    r"""$\log \sigma(x)$, stable."""

    def forward(self, input: Any) -> Any:
        """log(sigmoid(x))."""
        return functional.logsigmoid(input)


class _Along(Module):
    """An activation along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def _dim(self, x: Any) -> int:
        """PyTorch's old choice where none was made: 0 for up to 1-d and 3-d inputs, else 1."""
        return (0 if x.ndim in (0, 1, 3) else 1) if self.dim is None else self.dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class GLU(_Along):
    r"""$a\, \sigma(b)$, with $a$ and $b$ the halves of $x$ along `dim`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: Any) -> Any:
        """One half times the sigmoid of the other."""
        return functional.glu(input, self._dim(input))


class Softmax(_Along):
    r"""$e^{x_i} / \sum_j e^{x_j}$ along `dim`."""

    def forward(self, input: Any) -> Any:
        """softmax(x)."""
        return functional.softmax(input, self._dim(input))


class Softmin(_Along):
    r"""$e^{-x_i} / \sum_j e^{-x_j}$ along `dim`."""

    def forward(self, input: Any) -> Any:
        """softmax(−x)."""
        return functional.softmin(input, self._dim(input))


class LogSoftmax(_Along):
    r"""$x_i - \log \sum_j e^{x_j}$ along `dim`."""

    def forward(self, input: Any) -> Any:
        """log(softmax(x))."""
        return functional.log_softmax(input, self._dim(input))


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        """softmax over channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d takes (N, C, H, W) or (C, H, W), not {input.shape}")
        return functional.softmax(input, -3)
