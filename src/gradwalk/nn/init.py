"""Filling parameters with their first numbers: PyTorch's `nn.init`, in place and not recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine.modes import no_grad
from gradwalk.random import sampling
from gradwalk.random.generator import Generator
from gradwalk.tensors import creation
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

_ROOT_2 = math.sqrt(2.0)
_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3,
    "relu": _ROOT_2, "selu": 3.0 / 4,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of a layer's output, by what follows the layer.

    >>> from gradwalk.nn import init
    >>> init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ValueError(f"the negative slope is a number, not {param!r}")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    known = ", ".join([*_GAINS, "leaky_relu"])
    raise ValueError(f"no gain is known for {nonlinearity!r}; there is {known}")


def _write(tensor: Tensor, value: Any) -> Tensor:
    with no_grad():
        tensor.copy_(value)
    return tensor


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform between a and b.

    >>> import gradwalk as gw
    >>> bool((gw.nn.init.uniform_(gw.zeros(9), 2, 3) >= 2).all())
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with this mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, of which only what lies between a and b is drawn (not in units of `std`)."""
    low, high = math.erf((a - mean) / std / _ROOT_2), math.erf((b - mean) / std / _ROOT_2)
    options: dict[str, Any] = dict(dtype=tensor.dtype, generator=generator, device="cpu")
    if (high - low) / 2 > 0.3:  # draw again what falls outside: as PyTorch, number by number
        drawn = sampling.normal(mean, std, tensor.shape, **options)._array
        while (outside := (drawn < a) | (drawn > b)).any():
            again = sampling.normal(mean, std, tensor.shape, **options)._array
            drawn = np.where(outside, again, drawn)
    else:
        from scipy.special import erfinv

        uniform = sampling.rand(tensor.shape, **options)._array.astype(np.float64)
        drawn = erfinv(uniform * (high - low) + low) * (std * _ROOT_2) + mean
    return _write(tensor, wrap(np.clip(drawn, a, b).astype(tensor.dtype)))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return _write(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _write(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return _write(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_ fills a matrix, not a tensor of shape {tensor.shape}")
    return _write(tensor, creation.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes its channels on unchanged."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_ fills the weight of a convolution, not shape {tensor.shape}")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups:
        raise ValueError(f"{out_channels} output channels cannot be split into {groups} groups")
    weight = np.zeros(tensor.shape, tensor.dtype)
    per_group = out_channels // groups
    middle = tuple(n // 2 for n in kernel)
    for group in range(groups):
        for channel in range(min(per_group, in_channels)):
            weight[(group * per_group + channel, channel, *middle)] = 1
    return _write(tensor, wrap(weight))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has and how many outputs an input has."""
    if tensor.ndim < 2:
        raise ValueError(
            f"fan in and fan out are of weights with at least 2 dimensions, not {tensor.shape}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"mode is one of {modes}, not {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform, of variance gain² · 2 / (fan in + fan out)."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, of variance gain² · 2 / (fan in + fan out)."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform, of variance gain² / fan; `a` is the negative slope of a leaky ReLU."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal, of variance gain² / fan; `a` is the negative slope of a leaky ReLU."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix; dimensions after the first are flattened."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ needs at least 2 dimensions, not {tensor.shape}")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    shape = (rows, tensor.numel() // rows)
    flat = sampling.randn(shape, dtype=tensor.dtype, generator=generator, device="cpu")._array
    if shape[0] < shape[1]:
        flat = flat.T
    q, r = np.linalg.qr(flat)
    q *= np.sign(np.diagonal(r))  # makes the distribution uniform
    if shape[0] < shape[1]:
        q = q.T
    return _write(
        tensor, wrap(np.ascontiguousarray(q).reshape(tensor.shape) * tensor.dtype.type(gain))
    )


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal with this standard deviation, and a fraction of every column zero."""
    if tensor.ndim != 2:
        raise ValueError(f"sparse_ fills a matrix, not a tensor of shape {tensor.shape}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    drawn = np.array(tensor._array)
    for column in range(columns):
        order = sampling.randperm(rows, generator=generator, device="cpu")
        drawn[order._array[:zeros], column] = 0
    return _write(tensor, wrap(drawn))


# PyTorch's deprecated names, which its programs of 2017 and 2018 have.
constant, dirac, eye, normal, orthogonal = constant_, dirac_, eye_, normal_, orthogonal_
sparse, uniform = sparse_, uniform_
kaiming_normal, kaiming_uniform = kaiming_normal_, kaiming_uniform_
xavier_normal, xavier_uniform = xavier_normal_, xavier_uniform_


def fill(initialise: Callable[..., Tensor], *tensors: Tensor | None, **options: Any) -> None:
    """Initialise each tensor that is there: a layer's bias may not be."""
    for tensor in tensors:
        if tensor is not None:
            initialise(tensor, **options)


# PyTorch's first names.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_


# Private names that older programs copied from PyTorch with the functions that used them.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
