"""Resizing images, and reading them at any place."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.nn.functional.dimensions import Size, sizes
from gradwalk.nn.functional.pooling import adaptive_avg_pool, along
from gradwalk.ops.core.dtypes import float32, float64, int64, is_floating, uint8
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.arithmetic import floor, round
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.elementwise.remainders import remainder
from gradwalk.ops.index.indexing import along_dim, gather, getitem
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.shape.reshaping import (
    apart,
    broadcast_to,
    cast,
    new_result,
    permute,
    reshape,
    unsqueeze,
)  # fmt: skip

__all__ = [
    "affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

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

    Each dimension is one product with a small matrix; the nearest pixels are copied. With
    `antialias`, a pixel of a smaller image is an average of all pixels that it covers.

    >>> import gradwalk as gw
    >>> gw.nn.functional.interpolate(gw.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    n = input.ndim - 2
    if antialias and (mode not in ("bilinear", "bicubic") or n != 2):
        raise ValueError(
            f"interpolate: antialias is for the modes 'bilinear' and 'bicubic', not {mode!r}"
        )
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
        factors = (given,) * n if isinstance(given, (int, float, np.generic)) else tuple(given)
        out = tuple(math.floor(o * f) for o, f in zip(own, factors, strict=True))
        if not recompute_scale_factor:
            scales = [float(f) for f in factors]
    if mode == "area":
        return adaptive_avg_pool(n, input, out)
    if mode.startswith("nearest"):
        small = n == 2 and sum(out) <= 128  # PyTorch has a kernel of its own for these,
        single = small or input.dtype != float64
        if small and mode == "nearest":  # which looks at the factor less
            scales = [None if o in (i, 2 * i) else f for f, o, i in zip(scales, out, own)]
        named = [_named(*case, mode, single) for case in zip(own, out, scales, strict=True)]
        cases = zip(named, own, out, strict=True)
        if all(o % i == 0 and (at == np.arange(o) // (o // i)).all() for at, i, o in cases):
            return _repeated(input, out)
        for axis, at in enumerate(named, 2):
            input = getitem(input, at, index=along_dim(input, axis))
        return input
    between = mode in _LINEAR and not is_floating(input.dtype)
    if between and input.dtype != uint8:
        raise TypeError(f"interpolate in mode {mode!r} takes floats or uint8, not {input.dtype}")
    x = cast(input, dtype=float32) if between else input
    for i in reversed(range(n)):
        weights = _smooth_weights if antialias else _weights
        matrix = weights(own[i], out[i], scales[i], mode, bool(align_corners))
        x = along(x, matrix, i + 2)
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
def _named(
    own: int, out: int, factor: float | None, mode: str, single: bool
) -> np.ndarray[Any, Any]:
    """The pixel that each of `out` pixels copies. A place near a border between two pixels falls
    on PyTorch's side, because it is computed with PyTorch's precision, step by step."""
    kind: Any = np.float32 if single else np.float64
    step = kind(own) / kind(out) if factor is None else kind(1 / factor)
    i = np.arange(out, dtype=kind)
    if mode == "nearest-exact":
        place = np.maximum(step * (i + kind(0.5)) - kind(0.5), kind(0)) + kind(0.5)
    else:
        place = step * i
    return np.minimum(np.floor(place.astype(np.float32)).astype(np.int64), own - 1)


@functools.lru_cache(maxsize=64)
def _weights(
    own: int, out: int, factor: float | None, mode: str, align_corners: bool
) -> np.ndarray[Any, Any]:
    """The matrix (out, own) that interpolates along one dimension."""
    step = own / out if factor is None else 1 / factor
    i = np.arange(out)
    matrix = np.zeros((out, own))
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
        taps = list(enumerate(_cubic(t), -1))
    for offset, weight in taps:
        np.add.at(matrix, (i, np.clip(low + offset, 0, own - 1)), weight)
    return matrix


@functools.lru_cache(maxsize=64)
def _smooth_weights(
    own: int, out: int, factor: float | None, mode: str, align_corners: bool
) -> np.ndarray[Any, Any]:
    """The matrix (out, own) of averages: the kernel of the mode, as wide as a pixel of the output,
    over the pixels of the input that it reaches."""
    if align_corners:
        step = (own - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = own / out if factor is None else 1 / factor
    width = max(step, 1.0)
    center = (np.arange(out)[:, None] + 0.5) * step  # (out, 1)
    pixel = np.arange(own)  # (own,)
    reach = width * (2 if mode == "bicubic" else 1)
    # The pixels from the first to the last, both rounded, as in PyTorch.
    first, last = np.trunc(center - reach + 0.5), np.trunc(center + reach + 0.5)
    t = np.abs(pixel + 0.5 - center) / width
    if mode == "bicubic":
        kernel = np.where(t < 1, _near(t, _SMOOTH), np.where(t < 2, _far(t, _SMOOTH), 0.0))
    else:
        kernel = np.maximum(1 - t, 0.0)
    matrix = np.where((pixel >= first) & (pixel < last), kernel, 0.0)
    return matrix / matrix.sum(1, keepdims=True)


# PyTorch's choices of the free constant in cubic convolution.
_CUBIC = -0.75
_SMOOTH = -0.5


def _cubic(t: Any) -> list[Any]:
    """The weights of the four pixels around a place that is t beyond the second."""
    return [_far(t + 1, _CUBIC), _near(t, _CUBIC), _near(1 - t, _CUBIC), _far(2 - t, _CUBIC)]


def _near(t: Any, a: float) -> Any:
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _far(t: Any, a: float) -> Any:
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


# -- reading at any place --------------------------------------------------------------------------


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The places that a batch of affine maps sends the pixels of an image to, for `grid_sample`.

    `theta` is (N, 2, 3) or (N, 3, 4), `size` the size of the result; places go from −1 to 1.

    >>> import gradwalk as gw
    >>> still = gw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> gw.nn.functional.affine_grid(still, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    spatial = tuple(size)[2:]
    n = len(spatial)
    if tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(f"affine_grid: theta is (N, {n}, {n + 1}), not {tuple(theta.shape)}")
    lines = []
    for length in spatial:
        line = np.linspace(-1.0, 1.0, length) if length > 1 else np.zeros(1)
        lines.append(line if align_corners else line * ((length - 1) / length))
    axes = np.meshgrid(*lines, indexing="ij")[::-1]  # x, which is along the last dimension, first
    points = np.stack([*axes, np.ones(spatial)], -1).reshape(-1, n + 1)
    moved = matmul(points.astype(theta.dtype), permute(theta, axes=(0, 2, 1)))
    return reshape(moved, shape=(theta.shape[0], *spatial, n))


_SAMPLING = ("bilinear", "nearest", "bicubic")
_OUTSIDE = ("zeros", "border", "reflection")


@rounds_once
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Read (N, C, H, W) or (N, C, D, H, W) at places between −1 and 1; x comes first in `grid`.

    >>> import gradwalk as gw
    >>> image = gw.tensor([[[[1.0, 3.0]]]])
    >>> gw.nn.functional.grid_sample(image, gw.tensor([[[[0.0, 0.0]]]]), align_corners=True)
    tensor([[[[2.]]]])
    """
    n = input.ndim - 2
    if mode not in _SAMPLING or padding_mode not in _OUTSIDE or (mode == "bicubic" and n != 2):
        raise ValueError(f"grid_sample: unknown mode {mode!r} or padding_mode {padding_mode!r}")
    if n not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != n:
        raise ValueError(
            f"grid_sample of {tuple(input.shape)} takes a grid (N, ..., {n}), not "
            f"{tuple(grid.shape)}"
        )
    own = tuple(input.shape[2:])
    places = []  # one per dimension of the image, in pixels
    for i, length in enumerate(own):
        at = grid[..., n - 1 - i]
        at = (at + 1) / 2 * (length - 1) if align_corners else ((at + 1) * length - 1) / 2
        places.append(at if mode == "bicubic" else _back(at, length, padding_mode, align_corners))
    taps = [_taps(at, mode) for at in places]
    rows = reshape(input, shape=(*input.shape[:2], math.prod(own)))
    total: Any = 0
    for corner in itertools.product(*taps):
        flat: Any = 0
        weight: Any = 1.0
        for (index, share), length in zip(corner, own, strict=True):
            if mode == "bicubic":
                index = round(_back(index, length, padding_mode, align_corners))
            inside = (index >= 0) & (index <= length - 1)
            weight = weight * where(inside, share, 0.0)
            flat = flat * length + cast(where(inside, index, 0.0), dtype=int64)
        picked = _picked(rows, flat)  # (N, C, ...)
        total = total + picked * unsqueeze(broadcast_to(weight, tuple(flat.shape)), 1)
    return total


def _back(at: Any, length: int, padding_mode: str, align_corners: bool | None) -> Any:
    """A place beyond the border, where `padding_mode` moves it."""
    if padding_mode == "reflection":
        low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
        span = high - low
        if not span:
            return at * 0.0
        turned = remainder(at - low, 2 * span)
        at = where(turned > span, 2 * span - turned, turned) + low
    return at if padding_mode == "zeros" else clip(at, 0.0, length - 1.0)


def _taps(at: Any, mode: str) -> list[tuple[Any, Any]]:
    """The pixels that a place is read from along one dimension, with their weights."""
    if mode == "nearest":
        return [(round(at), 1.0)]
    low = floor(at)
    t = at - low
    if mode == "bilinear":
        return [(low, 1 - t), (low + 1, t)]
    return [(low + o, w) for o, w in zip((-1, 0, 1, 2), _cubic(t), strict=True)]


def _picked(rows: Any, flat: Any) -> Any:
    """(N, C, pixels) at (N, ...) places, the same for every channel."""
    batch, channels = rows.shape[:2]
    places = reshape(flat, shape=(batch, 1, math.prod(flat.shape[1:])))
    picked = gather(rows, 2, broadcast_to(places, (batch, channels, places.shape[2])))
    return reshape(picked, shape=(batch, channels, *flat.shape[1:]))


def upsample(
    input: Any,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """`interpolate` under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Any, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Any:
    """`interpolate` by copying the nearest element."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Any, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Any:
    """`interpolate` between four neighbours, the corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
