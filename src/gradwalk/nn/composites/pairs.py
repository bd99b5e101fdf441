"""Composites of complex numbers, each a pair of real ones along the last dimension.

PyTorch's gradient of a complex number z has as parts the derivatives with respect to z's parts, so
it is the gradient of the pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn.composites.composite import composed, composite
from gradwalk.ops.elementwise.arithmetic import div, mul, neg
from gradwalk.ops.elementwise.trigonometry import atan2, cos, sin
from gradwalk.ops.index.indexing import take_item
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.reduce.norms import vector_norm
from gradwalk.ops.shape.reshaping import pad, permute, reshape, stack

Axes = tuple[int, ...]


def _parts(z: Any) -> tuple[Any, Any]:
    return take_item(z, (..., 0)), take_item(z, (..., 1))


def _pair(real: Any, imaginary: Any) -> Any:
    return stack((real, imaginary), -1)


def _for_both(x: Any) -> Any:
    """A real array in a shape that meets both parts of a pair."""
    return reshape(x, shape=(*x.shape, 1))


composite("complex_of", lambda real: pad(_for_both(real), (0, 1)), real="the real part of g")
composite(
    "polar",
    lambda radius, angle: _pair(mul(radius, cos(angle)), mul(radius, sin(angle))),
    radius="g along the direction",
    angle="{radius} × g across the direction",
)
composite("complex_abs", lambda z: vector_norm(z, dim=-1), z="g × {z} / |{z}|")


@composed(z="g across the direction / |{z}|")
def complex_angle(z: Any) -> Any:
    real, imaginary = _parts(z)
    return atan2(imaginary, real)


@composed(z="the conjugate of g")
def complex_conj(z: Any) -> Any:
    real, imaginary = _parts(z)
    return _pair(real, neg(imaginary))


@composed(x="g × the conjugate of {y}", y="g × the conjugate of {x}")
def complex_mul(x: Any, y: Any) -> Any:
    (a, b), (c, d) = _parts(x), _parts(y)
    return _pair(mul(a, c) - mul(b, d), mul(a, d) + mul(b, c))


@composed(x="g / the conjugate of {y}")
def complex_div(x: Any, y: Any) -> Any:
    (a, b), (c, d) = _parts(x), _parts(y)
    size = mul(c, c) + mul(d, d)
    return _pair(div(mul(a, c) + mul(b, d), size), div(mul(b, c) - mul(a, d), size))


@composed(x="g @ {y}ᴴ", y="{x}ᴴ @ g")
def complex_matmul(x: Any, y: Any) -> Any:
    (a, b), (c, d) = _parts(x), _parts(y)
    return _pair(matmul(a, c) - matmul(b, d), matmul(a, d) + matmul(b, c))


composite("complex_scaled", lambda z, x: mul(z, _for_both(x)), z="g × {x}")
composite("complex_divided", lambda z, x: div(z, _for_both(x)), z="g / {x}")


# -- Fourier transforms, as products with the matrix of waves --------------------------------------


def _waves(n: int, dtype: Any) -> tuple[Any, Any]:
    """cos and sin of 2π·k·t/n, with k·t reduced first: n wraps around exactly."""
    turns = np.outer(np.arange(n), np.arange(n)) % n / n
    return np.cos(2 * np.pi * turns).astype(dtype), np.sin(2 * np.pi * turns).astype(dtype)


def _along(axis: int, x: Any, matrix: Any) -> Any:
    """The product of a symmetric matrix, or its first rows, with x along an axis."""
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    back = tuple(order.index(k) for k in range(x.ndim))
    return permute(matmul(permute(x, axes=tuple(order)), matrix), axes=back)


def _transformed(real: Any, imaginary: Any, axes: Axes, sign: int) -> tuple[Any, Any]:
    for axis in axes:
        cosines, sines = _waves(real.shape[axis], real.dtype)
        a, b = _along(axis, real, cosines), _along(axis, real, sign * sines)
        c, d = _along(axis, imaginary, cosines), _along(axis, imaginary, sign * sines)
        real, imaginary = a - d, b + c
    return real, imaginary


@composed(z="scale × g transformed in the other direction")
def fft(z: Any, *, axes: Axes, scale: float, sign: int) -> Any:
    """The discrete Fourier transform: Σ z·exp(sign·2πi·k·t/n) over each axis, times `scale`."""
    return _pair(*_transformed(*_parts(z), axes, sign)) * scale


@composed(x="scale × the real part of g transformed back")
def fft_of_real(x: Any, *, axes: Axes, scale: float, onesided: bool) -> Any:
    """As `fft` of real numbers; `onesided` keeps the frequencies up to half along the last axis."""
    out = _pair(*_transformed(x, mul(x, 0.0), axes, -1)) * scale
    if not onesided:
        return out
    half = slice(x.shape[axes[-1]] // 2 + 1)
    return take_item(out, (slice(None),) * axes[-1] + (half,))


@composed(z="scale × g transformed back, the frequencies that stand for two doubled")
def fft_to_real(z: Any, *, axes: Axes, scale: float, n: int) -> Any:
    """The real signal of length n with these frequencies up to half along the last axis."""
    *first, last = axes
    real, imaginary = _transformed(*_parts(z), tuple(first), 1)
    cosines, sines = _waves(n, real.dtype)
    kept = n // 2 + 1
    # Each frequency but 0, and n/2 of an even length, stands for its mirror image as well.
    weight = np.where(np.arange(kept) * 2 % n == 0, 1, 2).astype(real.dtype)[:, None]
    inside = (slice(None),) * last + (slice(kept),)
    real, imaginary = take_item(real, inside), take_item(imaginary, inside)
    waves = _along(last, real, weight * cosines[:kept])
    return (waves - _along(last, imaginary, weight * sines[:kept])) * scale
