"""Pooling and interpolation."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.nn.functional.dimensions import Size, check_rank, for_dimensions, sizes
from gradwalk.ops.core.dtypes import float32, is_floating, is_half, uint8
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.arithmetic import div_trunc, floor
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network import pooling as ops
from gradwalk.ops.reduce.reduction import max as maximum_along
from gradwalk.ops.reduce.reduction import mean
from gradwalk.ops.shape.rearranging import concrete
from gradwalk.ops.shape.reshaping import apart, broadcast_to, cast, new_result, permute, reshape
from gradwalk.tensors import creation

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "avg_pool1d", "avg_pool2d", "interpolate", "max_pool1d", "max_pool2d",
]  # fmt: skip


def _check(name: str, x: Any, n: int, kinds: str = "f") -> None:
    check_rank(name, x, n)
    if x.dtype.kind not in kinds and not is_floating(x.dtype):
        raise TypeError(f"{name} takes floating-point numbers, these are {x.dtype}")


def _strides(stride: Size | None, kernel: Shape) -> Shape:
    """The stride; by default the kernel size."""
    return kernel if stride in (None, (), []) else sizes("stride", stride, len(kernel))


def _windows(
    size: Shape, kernel: Shape, stride: Shape, pads: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """The number of windows along each dimension."""
    counts = []
    for n, k, s, p, d in zip(size, kernel, stride, pads, dilation, strict=True):
        if 2 * p > k:
            raise ValueError(f"padding {p} must be at most half the kernel size {k}")
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1  # the last window must begin inside the input or the left padding
        if count < 1:
            raise ValueError(f"a window of size {kernel} does not fit an input of size {size}")
        counts.append(count)
    return tuple(counts)


def max_pool(
    n: int,
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window of the last n dimensions."""
    _check(f"max_pool{n}d", input, n, "fiu")
    kernel = sizes("kernel_size", kernel_size, n)
    strides = _strides(stride, kernel)
    pads, dilations = sizes("padding", padding, n, 0), sizes("dilation", dilation, n)
    size = tuple(input.shape[input.ndim - n :])
    attrs = dict(
        kernel=kernel,
        out=_windows(size, kernel, strides, pads, dilations, ceil_mode),
        stride=strides,
        padding=tuple((p, p) for p in pads),
        dilation=dilations,
    )
    values = ops.max_pool(input, **attrs)
    return (values, ops.max_pool_indices(input, **attrs)) if return_indices else values


_LARGEST = "The largest element of every window; the gradient goes to the (first) one chosen."

max_pool1d = for_dimensions(max_pool, 1, _LARGEST)
max_pool2d = for_dimensions(
    max_pool,
    2,
    f"""{_LARGEST}

    >>> import gradwalk as gw
    >>> gw.nn.functional.max_pool2d(gw.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """,
)


def avg_pool(
    n: int,
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of every window of the last n dimensions."""
    _check(f"avg_pool{n}d", input, n, "fiu")
    kernel = sizes("kernel_size", kernel_size, n)
    strides = _strides(stride, kernel)
    pads = sizes("padding", padding, n, 0)
    size = tuple(input.shape[input.ndim - n :])
    out = _windows(size, kernel, strides, pads, (1,) * n, ceil_mode)
    padded = tuple((p, p) for p in pads)
    total = ops.pool_sum(input, kernel=kernel, out=out, stride=strides, padding=padded)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError("divisor_override must not be 0")
        return _over(total, divisor_override)
    if not ceil_mode and (count_include_pad or not any(pads)):
        return _over(total, math.prod(kernel))
    counts = functools.reduce(
        np.multiply.outer,
        (
            _counts(*axis, count_include_pad)
            for axis in zip(size, kernel, out, strides, pads, strict=True)
        ),
    )
    return _over(total, counts)


def _over(total: Any, count: Any) -> Any:
    """A mean; of integers it is truncated, as in PyTorch."""
    if not is_floating(total.dtype):
        return div_trunc(total, count)
    return total * (1 / count) if isinstance(count, int) else total / count.astype(total.dtype)


def _counts(n: int, kernel: int, out: int, stride: int, pad: int, include: bool) -> Any:
    """The number of elements of each window along one dimension, with or without padding."""
    start = np.arange(out) * stride - pad
    stop = np.minimum(start + kernel, n + pad)
    return stop - start if include else np.minimum(stop, n) - np.maximum(start, 0)


def avg_pool1d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of every window."""
    return avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


avg_pool2d = for_dimensions(
    avg_pool,
    2,
    """The mean of every window.

    >>> import gradwalk as gw
    >>> gw.nn.functional.avg_pool2d(gw.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """,
)


# -- adaptive ------------------------------------------------------------------------------------


def _targets(name: str, x: Any, output_size: Any, n: int) -> Shape:
    _check(name, x, n)
    given = (output_size,) * n if isinstance(output_size, int | None) else tuple(output_size)
    if len(given) != n:
        raise ValueError(f"{name}: output_size must be one or {n} number(s), not {output_size!r}")
    own = x.shape[x.ndim - n :]
    out = tuple(int(size) if o is None else int(o) for o, size in zip(given, own, strict=True))
    if min(out) < 1:
        raise ValueError(f"{name}: output_size must be positive, not {output_size!r}")
    return out


def _bins(size: int, out: int) -> list[tuple[int, int]]:
    """Where each of `out` windows begins and ends, as in PyTorch."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _along(x: Any, matrix: np.ndarray[Any, Any], axis: int) -> Any:
    """Apply a constant matrix along one dimension."""
    matrix = matrix.astype(x.dtype)
    if axis == x.ndim - 1:
        return matmul(x, matrix.T)
    if axis == x.ndim - 2:
        return matmul(matrix, x)
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return permute(matmul(permute(x, axes=order), matrix.T), axes=back)


def adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Any:
    """The mean of windows of (nearly) equal size of the last n dimensions."""
    out = _targets(f"adaptive_avg_pool{n}d", input, output_size, n)
    x, lead = input, input.ndim - n
    size = tuple(x.shape[lead:])
    if out == (1,) * n:
        return mean(x, tuple(range(lead, x.ndim)), keepdim=True)
    for i, (own, wanted) in enumerate(zip(size, out, strict=True)):
        matrix = np.zeros((wanted, own))
        for row, (start, stop) in enumerate(_bins(own, wanted)):
            matrix[row, start:stop] = 1 / (stop - start)
        x = _along(x.float() if is_half(x.dtype) else x, matrix, lead + i)
    return x if x.dtype == input.dtype else x.to(input.dtype)  # halves are rounded once


adaptive_avg_pool1d = for_dimensions(
    adaptive_avg_pool, 1, "The mean of `output_size` windows of (nearly) equal length."
)
adaptive_avg_pool2d = for_dimensions(
    adaptive_avg_pool,
    2,
    """The mean of windows chosen so that the output has size `output_size`.

    >>> import gradwalk as gw
    >>> gw.nn.functional.adaptive_avg_pool2d(gw.ones(1, 2, 7, 5), 1).shape
    (1, 2, 1, 1)
    """,
)


def adaptive_max_pool(n: int, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Pad windows of different lengths to the longest, then take one maximum over all."""
    x, out = input, _targets(f"adaptive_max_pool{n}d", input, output_size, n)
    lead = x.ndim - n
    size = tuple(x.shape[lead:])
    if all(own % wanted == 0 for own, wanted in zip(size, out, strict=True)):
        kernel = tuple(own // wanted for own, wanted in zip(size, out, strict=True))
        return max_pool(n, x, kernel, return_indices=return_indices)
    flat, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for own, wanted in zip(size, out, strict=True):
        bins = _bins(own, wanted)
        longest = max(stop - start for start, stop in bins)
        at = np.array([[min(start + i, own - 1) for i in range(longest)] for start, _ in bins])
        fits = np.array([[start + i < stop for i in range(longest)] for start, stop in bins])
        joined = (flat.shape[0] * wanted, flat.shape[1] * longest)
        flat = (flat[:, None, :, None] * own + at[:, None, :]).reshape(joined)
        inside = (inside[:, None, :, None] & fits[:, None, :]).reshape(joined)
    rows = reshape(x, shape=(*x.shape[:lead], math.prod(size)))
    windows = getitem(rows, flat, index=("...", ("array", 0)))  # (..., windows, elements)
    values, places = maximum_along(where(inside, windows, -math.inf), -1)
    values = reshape(values, shape=(*x.shape[:lead], *out))
    if not return_indices:
        return values
    chosen = flat[np.arange(len(flat)), concrete(places, "adaptive_max_pool")]
    indices = creation.as_tensor(chosen.reshape(values.shape), device=values.device)
    return values, indices


adaptive_max_pool1d = for_dimensions(
    adaptive_max_pool, 1, "The largest element of `output_size` windows of (nearly) equal length."
)
adaptive_max_pool2d = for_dimensions(
    adaptive_max_pool,
    2,
    "The largest element of windows chosen so that the output has size `output_size`.",
)


# -- interpolation -------------------------------------------------------------------------------

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


@new_result
@rounds_once
def interpolate(
    input: Any,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resize to `size`, or by `scale_factor`: nearest, linear, bilinear, trilinear, bicubic, area.

    Each dimension is one product with a small matrix; nearest by a whole factor copies.

    >>> import gradwalk as gw
    >>> gw.nn.functional.interpolate(gw.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    n = input.ndim - 2
    if antialias:
        raise NotImplementedError("interpolate: antialias is not supported")
    if n < 1 or (size is None) == (scale_factor is None):
        raise ValueError("interpolate takes (batch, channels, ...) and either size or scale_factor")
    if mode in _LINEAR:
        if _LINEAR[mode] != n:
            raise ValueError(f"mode {mode!r} is for {_LINEAR[mode] + 2} dimensions, not {n + 2}")
    elif mode not in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: unknown mode {mode!r}")
    elif align_corners is not None:
        raise ValueError(f"align_corners has no meaning for mode {mode!r}")
    own = tuple(input.shape[2:])
    scales: list[float | None] = [None] * n
    if size is not None:
        out = sizes("size", size, n)
    else:
        given: Any = scale_factor
        factors = (given,) * n if isinstance(given, (int, float)) else tuple(given)
        out = tuple(math.floor(o * f) for o, f in zip(own, factors, strict=True))
        if not recompute_scale_factor:
            scales = [float(f) for f in factors]
    if mode == "area":
        return adaptive_avg_pool(n, input, out)
    if mode == "nearest" and all(
        o % i == 0 and f in (None, o // i) for f, o, i in zip(scales, out, own, strict=True)
    ):
        return _repeated(input, out)
    between = mode in _LINEAR and not is_floating(input.dtype)
    if between and input.dtype != uint8:
        raise TypeError(f"interpolate in mode {mode!r} takes floats or uint8, not {input.dtype}")
    x = cast(input, dtype=float32) if between else input
    for i in reversed(range(n)):
        matrix = _weights(own[i], out[i], scales[i], mode, bool(align_corners))
        x = _along(x, matrix, i + 2)
        if between:  # bytes are rounded after every dimension, as in PyTorch
            x = clip(floor(x + 0.5), 0, 255)
    return cast(x, dtype=uint8) if between else x


def _repeated(x: Any, out: Shape) -> Any:
    """Repeat every element a whole number of times: reshape, broadcast, reshape."""
    thin, wide = list(x.shape[:2]), list(x.shape[:2])
    for own, wanted in zip(x.shape[2:], out, strict=True):
        thin += [own, 1]
        wide += [own, wanted // own]
    spread = broadcast_to(reshape(x, shape=tuple(thin)), tuple(wide))
    return apart(reshape(spread, shape=(*x.shape[:2], *out)), x)


@functools.lru_cache(maxsize=64)
def _weights(
    own: int, out: int, factor: float | None, mode: str, align_corners: bool
) -> np.ndarray[Any, Any]:
    """The matrix (out, own) that interpolates along one dimension."""
    step = own / out if factor is None else 1 / factor
    i = np.arange(out)
    matrix = np.zeros((out, own))
    if mode.startswith("nearest"):
        place = (i + 0.5) * step if mode == "nearest-exact" else i * step
        matrix[i, np.minimum(place.astype(int), own - 1)] = 1
        return matrix
    if align_corners:
        place = i * ((own - 1) / (out - 1)) if out > 1 else i * 0.0
    else:
        place = (i + 0.5) * step - 0.5
        if mode != "bicubic":
            place = np.maximum(place, 0.0)
    low = np.floor(place).astype(int)
    t = place - low
    if mode != "bicubic":
        taps = [(0, 1 - t), (1, t)]
    else:
        taps = [(-1, _far(t + 1)), (0, _near(t)), (1, _near(1 - t)), (2, _far(2 - t))]
    for offset, weight in taps:
        np.add.at(matrix, (i, np.clip(low + offset, 0, own - 1)), weight)
    return matrix


_CUBIC = -0.75  # PyTorch's choice of the free constant in cubic convolution


def _near(t: Any) -> Any:
    return ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1


def _far(t: Any) -> Any:
    return ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC
