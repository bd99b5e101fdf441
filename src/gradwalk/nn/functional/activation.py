"""Activation functions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from gradwalk.ops.core.halves import as_half, rounds_once
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise import activation as ops
from gradwalk.ops.elementwise.arithmetic import abs as absolute
from gradwalk.ops.elementwise.arithmetic import log
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.trigonometry import tanh as tanh_op
from gradwalk.ops.index.indexing import scatter_add
from gradwalk.ops.network import softmax as softmax_ops
from gradwalk.ops.reduce.reduction import argmax
from gradwalk.ops.shape.reshaping import chunk, reshape, unsqueeze
from gradwalk.tensors import creation
from gradwalk.tensors.inplace import write

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "selu",
    "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold",
]  # fmt: skip
__all__ += ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_", "threshold_"]

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _apply(op: Op, x: Any, inplace: bool = False, **attrs: Any) -> Any:
    return write(x, op, (x,), attrs) if inplace else op(x, **attrs)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0).

    >>> import gradwalk as gw
    >>> gw.nn.functional.relu(gw.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _apply(ops.relu, input, inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where positive, `negative_slope` × x elsewhere."""
    return _apply(ops.leaky_relu, input, inplace, negative_slope=float(negative_slope))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, alpha × (eˣ − 1) elsewhere."""
    return _apply(ops.elu, input, inplace, alpha=float(alpha), scale=1.0, input_scale=1.0)


def selu(input: Any, inplace: bool = False) -> Any:
    """elu with the two constants that keep mean 0 and variance 1 from layer to layer."""
    constants = {"alpha": _SELU_ALPHA, "scale": _SELU_SCALE, "input_scale": 1.0}
    return _apply(ops.elu, input, inplace, **constants)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, alpha × (exp(x / alpha) − 1) elsewhere; its slope is continuous."""
    if not alpha:
        raise ZeroDivisionError("celu needs an alpha that is not 0")
    constants = {"alpha": float(alpha), "scale": 1.0, "input_scale": 1.0 / alpha}
    return _apply(ops.elu, input, inplace, **constants)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x × Φ(x), with Φ the normal distribution function; `approximate="tanh"` is the older form.

    >>> import gradwalk as gw
    >>> gw.nn.functional.gelu(gw.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
    return ops.gelu_exact(input) if approximate == "none" else ops.gelu_tanh(input)


def silu(input: Any, inplace: bool = False) -> Any:
    """x × sigmoid(x), also called swish."""
    return _apply(ops.silu, input, inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """x × tanh(softplus(x))."""
    return _apply(ops.mish, input, inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x limited to [min_val, max_val]; the bounds themselves have no gradient."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    return _apply(ops.hardtanh, input, inplace, min_val=float(min_val), max_val=float(max_val))


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return _apply(ops.hardsigmoid, input, inplace)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x × hardsigmoid(x)."""
    return _apply(ops.hardswish, input, inplace)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta × x)) / beta, and x itself where beta × x is above the threshold."""
    return ops.softplus(input, beta=float(beta), threshold=float(threshold))


@rounds_once
def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (absolute(input) + 1)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by `lambd`; 0 where |x| is smaller."""
    if lambd < 0:
        raise ValueError(f"softshrink needs a lambd of at least 0, not {lambd}")
    return ops.softshrink(input, lambd=float(lambd))


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > `lambd`, 0 elsewhere."""
    return ops.hardshrink(input, lambd=as_half(float(lambd), input.dtype))


def tanhshrink(input: Any) -> Any:
    """x − tanh(x)."""
    return input - tanh_op(input)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where it is above the threshold, `value` elsewhere."""
    attrs = {"threshold": float(threshold), "value": float(value)}
    return _apply(ops.threshold, input, inplace, **attrs)


def glu(input: Any, dim: int = -1) -> Any:
    """First half × sigmoid(second half) along `dim`."""
    if input.shape[dim] % 2:
        raise ValueError(f"glu halves dimension {dim}, which has odd length {input.shape[dim]}")
    first, second = chunk(input, 2, dim)
    return first * ops.sigmoid(second)


def sigmoid(input: Any) -> Any:
    """1 / (1 + e⁻ˣ)."""
    return ops.sigmoid(input)


def tanh(input: Any) -> Any:
    """Hyperbolic tangent."""
    return tanh_op(input)


@public(namespaces="", method=True)
def prelu(input: Any, weight: Any) -> Any:
    """x where positive, weight × x elsewhere; one weight, or one per channel (dimension 1)."""
    count = weight.shape[0] if weight.ndim else 1
    if count > 1 and (input.ndim < 2 or input.shape[1] != count):
        raise ValueError(
            f"prelu: {count} weights do not fit the channels of shape {tuple(input.shape)}"
        )
    weight = reshape(weight, shape=(count, *(1,) * (input.ndim - 2)) if count > 1 else ())
    return where(input > 0, input, input * weight)


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), stable for very negative x."""
    return ops.logsigmoid(input)


def _implicit(name: str, dim: int | None, ndim: int) -> int:
    """The dimension of a softmax; without one PyTorch's old choice, with a warning."""
    if dim is not None:
        return dim
    chosen = 0 if ndim in (0, 1, 3) else 1
    warnings.warn(
        f"{name} without dim: dimension {chosen} of {ndim} is chosen, as PyTorch does. "
        f"Fix: pass dim={chosen}, or the one that you mean.",
        stacklevel=3,
    )
    return chosen


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x) / Σ exp(x) along `dim`, stable for large x.

    >>> import gradwalk as gw
    >>> gw.nn.functional.softmax(gw.tensor([1e4, 1e4]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return softmax_ops.softmax(input, _implicit("softmax", dim, input.ndim), dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along `dim`, without taking the log of a number near zero."""
    chosen = _implicit("log_softmax", dim, input.ndim)
    return softmax_ops.log_softmax(input, chosen, dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(−x)."""
    return softmax(-input, _implicit("softmin", dim, input.ndim), dtype=dtype)


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """A differentiable random choice: softmax of `logits` plus Gumbel noise.

    With `hard` the result is one-hot and has the gradient of the soft choice. `eps` is ignored, as
    in PyTorch.
    """
    waits = creation.empty_like(logits).exponential_()
    tiny = math.ulp(0.0) if logits.dtype.itemsize == 8 else 1e-45  # an exponential may round to 0
    noise = -log(waits + tiny)
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    best = unsqueeze(argmax(soft, dim), dim)
    one_hot = scatter_add(
        creation.zeros_like(soft), dim, best, creation.ones_like(best, dtype=soft.dtype)
    )
    return one_hot - soft.detach() + soft


def _writes(function: Callable[..., Any]) -> Any:
    """The in-place form of an activation: `relu_` of `relu`."""
    made: Any = partial(function, inplace=True)
    made.__name__, made.__doc__ = f"{function.__name__}_", f"`{function.__name__}`, in place."
    return made


celu_ = _writes(celu)
elu_ = _writes(elu)
hardtanh_ = _writes(hardtanh)
leaky_relu_ = _writes(leaky_relu)
relu_ = _writes(relu)
selu_ = _writes(selu)
threshold_ = _writes(threshold)
