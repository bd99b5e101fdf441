"""Dropout: random zeros while training, from the library's default generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn.functional.activation import leaky_relu
from gradwalk.nn.functional.dimensions import check_rank
from gradwalk.ops.core.dtypes import is_half, real_only
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import alias
from gradwalk.random.generator import default_generator
from gradwalk.random.memory_order import drawn_like
from gradwalk.random.mersenne import MersenneStream
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import placed

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
    "rrelu", "rrelu_",
]  # fmt: skip


def check_probability(p: float) -> None:
    """Reject what is no probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"a dropout probability lies between 0 and 1, not {p}")


def _kept(x: Any, shape: tuple[int, ...], p: float) -> np.ndarray[Any, Any]:
    """1 with probability 1 − p, else 0, for each element of x or for whole channels."""
    stream = default_generator.stream
    if shape != tuple(x.shape):  # whole channels: PyTorch makes a mask of its own
        return stream.bernoulli(1 - p, shape).astype(x.dtype)
    return drawn_like(x, stream, lambda size: stream.bernoulli(1 - p, size)).astype(x.dtype)


def _masked(x: Any, shape: tuple[int, ...], p: float, inplace: bool) -> Any:
    if p == 1:  # PyTorch draws no random numbers here
        mask = np.zeros(shape, x.dtype)
    else:
        mask = _kept(x, shape, p)
        kind = np.float32 if is_half(x.dtype) else mask.dtype.type  # a half is rounded once
        mask *= mask.dtype.type(1 / kind(1 - p))
    kept = wrap(placed(mask, x.device))
    return x.mul_(kept) if inplace else x * kept


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero each element with probability p, divide the others by 1 − p; x itself if not training.

    >>> import gradwalk as gw
    >>> gw.nn.functional.dropout(gw.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    check_probability(p)
    if not training or p == 0:
        return input
    return _masked(input, tuple(input.shape), p, inplace)


def _by_channel(n: int, x: Any, p: float, training: bool, inplace: bool) -> Any:
    check_probability(p)
    check_rank(f"dropout{n}d", x, n)
    if not training or p == 0:  # PyTorch adds a batch of one and takes it away again
        return alias(x) if x.ndim == n + 1 and not inplace else x
    return _masked(x, (*x.shape[: x.ndim - n], *(1,) * n), p, inplace)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (batch, channels, length)."""
    return _by_channel(1, input, p, training, inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (batch, channels, height, width)."""
    check_probability(p)
    if not training or p == 0:
        return input
    if input.ndim < 2:
        raise ValueError(f"dropout2d takes (batch, channels, ...), got {tuple(input.shape)}")
    if input.ndim == 3:  # PyTorch reads this as (batch, channels, length), for compatibility
        return _by_channel(1, input, p, training, inplace)
    return _masked(input, (*input.shape[:2], *(1,) * (input.ndim - 2)), p, inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (batch, channels, depth, height, width).

    As in PyTorch, the first of any other number of dimensions is that of the channels.
    """
    check_probability(p)
    batched = input.ndim == 5
    if not training or p == 0:
        return input if batched or inplace else alias(input)
    lead = 2 if batched else 1
    return _masked(input, (*input.shape[:lead], *(1,) * (input.ndim - lead)), p, inplace)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps the mean and variance of selu's outputs."""
    return _alpha_dropout(input, tuple(input.shape), p, training, inplace)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels of (batch, channels, ...)."""
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _alpha_dropout(input, shape, p, training, inplace)


def _alpha_dropout(
    input: Any, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Any:
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    lowest = -1.7580993408473766  # the limit of selu: −alpha × scale
    scale = (1 - p) ** -0.5 * (1 + p * lowest * lowest) ** -0.5
    keep = wrap(placed(_kept(input, shape, p), input.device))
    offset = (1 - keep) * (scale * lowest) - scale * p * lowest
    keep = keep * scale
    return input.mul_(keep).add_(offset) if inplace else input * keep + offset


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """x, times a random slope where it is negative; while not training, the mean slope."""
    if lower > upper:
        raise ValueError(f"rrelu: lower {lower} is above upper {upper}")
    if training:
        real_only("rrelu", input)
        kind = np.dtype(np.float32) if is_half(input.dtype) else input.dtype
        slopes = _slopes(input, default_generator.stream, kind, lower, upper)
        slopes = slopes.astype(input.dtype, copy=False)
        before = input.clone() if inplace else input  # backward needs what was there
        out = where(before > 0, before, before * wrap(placed(slopes, input.device)))
        return input.copy_(out) if inplace else out
    return leaky_relu(input, (lower + upper) / 2, inplace)


def rrelu_(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """`rrelu`, written into the input."""
    return rrelu(input, lower, upper, training, inplace=True)


def _slopes(input: Any, stream: Any, kind: Any, lower: float, upper: float) -> Any:
    """A slope for each element; PyTorch draws only for those that are not positive."""
    if not isinstance(stream, MersenneStream):
        return stream.uniform(tuple(input.shape), kind, lower, upper)
    below = ~(input.detach().cpu().numpy() > 0)
    slopes = np.ones(below.shape)
    slopes[below] = stream.uniform((int(below.sum()),), np.float64, lower, upper)
    return slopes.astype(kind)
