"""Discrete Fourier transforms, with the names and arguments of `torch.fft`.

Three ops do the work: from complex numbers to complex ones, from real ones to the half of the
frequencies that determines the rest, and back. A transform is a product with a symmetric matrix, so
the rule of the first one is the transform itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import complex_of, is_complex_dtype, is_floating, part_of
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.complex_numbers import conj, conjugate
from gradwalk.ops.shape.rearranging import roll
from gradwalk.ops.shape.reshaping import cast, getitem_slice, normal_axes, pad_op

Axes = tuple[int, ...]
Sizes = int | Sequence[int] | None
Dims = int | Sequence[int] | None


def _fourier_forward(z: Any, *, axes: Axes, scale: float, sign: int) -> Any:
    if not axes:
        return np.array(z)
    if sign < 0:
        return _scaled(np.fft.fftn(z, axes=axes), scale)
    return _scaled(np.fft.ifftn(z, axes=axes, norm="forward"), scale)


def _scaled(out: Any, scale: float) -> Any:
    if scale != 1:
        out *= scale
    return out


fourier: Op = define(
    "fourier",
    _fourier_forward,
    vjp=[lambda g, attrs: fourier(g, **attrs)],
    shape=lambda z, *, axes, scale, sign: z,
    linear=True,
    doc="Σ z·exp(sign·2πi·k·t/n) over each axis, times `scale`.",
)


def _half(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], shape[axis] // 2 + 1, *shape[axis + 1 :])


def _of_real_rule(g: Any, x_shape: Shape, axes: Axes, scale: float) -> Any:
    missing = x_shape[axes[-1]] - g.shape[axes[-1]]
    widths = tuple((0, missing if axis == axes[-1] else 0) for axis in range(len(x_shape)))
    # The engine takes the real part, because x is real.
    return fourier(pad_op(g, widths=widths, value=0.0), axes=axes, scale=scale, sign=-1)


fourier_of_real: Op = define(
    "fourier_of_real",
    lambda x, *, axes, scale: _scaled(np.fft.rfftn(x, axes=axes), scale),
    vjp=[_of_real_rule],
    shape=lambda x, *, axes, scale: _half(x, axes[-1]),
    linear=True,
    gives=complex_of,
    doc="The transform of real numbers, the last axis up to half the frequencies.",
)


def _to_real_rule(g: Any, axes: Axes, scale: float, n: int) -> Any:
    # Each frequency but 0, and n/2 of an even length, stands for its mirror image as well.
    weight = np.where(np.arange(n // 2 + 1) * 2 % n == 0, 1, 2).astype(g.dtype)
    after = (1,) * (len(g.shape) - 1 - axes[-1])
    waves = conjugate(fourier_of_real(g, axes=axes, scale=scale))
    return waves * weight.reshape(-1, *after)


def _to_real_forward(z: Any, *, axes: Axes, scale: float, n: int) -> Any:
    sizes = [z.shape[axis] for axis in axes[:-1]]
    return _scaled(np.fft.irfftn(z, (*sizes, n), axes, norm="forward"), scale)


fourier_to_real: Op = define(
    "fourier_to_real",
    _to_real_forward,
    vjp=[_to_real_rule],
    shape=lambda z, *, axes, scale, n: (*z[: axes[-1]], n, *z[axes[-1] + 1 :]),
    linear=True,
    gives=part_of,
    doc="The real signal of length n whose transform is z, up to half along the last axis.",
)

# -- public functions ------------------------------------------------------------------------------

# The power of the number of elements that divides, for a transform and for an inverse one.
_POWERS = {None: (0.0, 1.0), "backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}
_OTHER_WAY = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _scale(name: str, norm: str | None, sizes: Sequence[int], inverse: bool) -> float:
    if norm not in _POWERS:
        raise ValueError(f'{name}: norm is "forward", "backward" or "ortho", not {norm!r}')
    return math.prod(sizes) ** -_POWERS[norm][inverse]


def _axes(name: str, x: Any, s: Sizes, dim: Dims) -> tuple[Axes, list[int]]:
    """The axes to transform, and the length of each: from `s`, or as they are."""
    if x.ndim == 0:
        raise ValueError(f"{name} takes a tensor with at least one dimension")
    lengths = [s] if isinstance(s, (int, np.integer)) else None if s is None else list(s)
    if dim is None:
        count = x.ndim if lengths is None else len(lengths)
        dim = range(x.ndim - count, x.ndim)
    axes = normal_axes([dim] if isinstance(dim, (int, np.integer)) else list(dim), x.ndim)
    if len(set(axes)) != len(axes) or not (axes or name in ("fftn", "ifftn")):
        raise ValueError(f"{name}: dim must name at least one dimension, each once, not {dim}")
    own = [x.shape[axis] for axis in axes]
    if lengths is not None and len(lengths) != len(axes):
        raise ValueError(f"{name}: {len(lengths)} size(s) for {len(axes)} dimension(s)")
    sizes = own if lengths is None else [o if n == -1 else n for n, o in zip(lengths, own)]
    if min(sizes, default=1) < 1:
        raise ValueError(f"{name}: each length must be at least 1, not {sizes}")
    return tuple(axes), sizes


def _resized(x: Any, axes: Axes, sizes: Sequence[int]) -> Any:
    """x with zeros behind it, or cut, to the given lengths."""
    for axis, n in zip(axes, sizes, strict=True):
        if x.shape[axis] > n:
            x = getitem_slice(x, axis, 0, n)
        elif x.shape[axis] < n:
            more = n - x.shape[axis]
            widths = tuple((0, more if k == axis else 0) for k in range(x.ndim))
            x = pad_op(x, widths=widths, value=0.0)
    return x


def _as_complex(x: Any) -> Any:
    kind = complex_of(x.dtype)
    return x if x.dtype == kind else cast(x, dtype=kind)


def _to_complex(name: str, x: Any, s: Sizes, dim: Dims, norm: str | None, sign: int) -> Any:
    axes, sizes = _axes(name, x, s, dim)
    z = _resized(_as_complex(x), axes, sizes)
    return fourier(z, axes=axes, scale=_scale(name, norm, sizes, sign > 0), sign=sign)


def _of_real(name: str, x: Any, s: Sizes, dim: Dims, norm: str | None) -> Any:
    if is_complex_dtype(x.dtype):
        raise TypeError(f"{name} takes real numbers, not {x.dtype}; use fft, or x.real")
    complex_of(x.dtype)  # of halves there are none
    if not is_floating(x.dtype):
        x = cast(x, dtype=part_of(complex_of(x.dtype)))
    axes, sizes = _axes(name, x, s, dim)
    scale = _scale(name, norm, sizes, False)
    return fourier_of_real(_resized(x, axes, sizes), axes=axes, scale=scale)


def _to_real(name: str, x: Any, s: Sizes, dim: Dims, norm: str | None) -> Any:
    axes, sizes = _axes(name, x, s, dim)
    if s is None or (s if isinstance(s, (int, np.integer)) else list(s)[-1]) == -1:
        sizes[-1] = 2 * (x.shape[axes[-1]] - 1)
    n = sizes[-1]
    if n < 1:
        raise ValueError(f"{name}: each length must be at least 1, not {sizes}")
    z = _resized(_as_complex(x), axes, [*sizes[:-1], n // 2 + 1])
    return fourier_to_real(z, axes=axes, scale=_scale(name, norm, sizes, True), n=n)


@public(namespaces="fft")
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along `dim`, of `n` elements (cut, or zeros behind).

    `norm` is "backward" (nothing is divided), "ortho" (by √n) or "forward" (by n).

    >>> import gradwalk as gw
    >>> gw.fft.fft(gw.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
    """
    return _to_complex("fft", input, n, dim, norm, -1)


@public(namespaces="fft")
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`."""
    return _to_complex("ifft", input, n, dim, norm, 1)


@public(namespaces="fft")
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """`fft` of real numbers: the frequencies up to half, of which the others are conjugates.

    >>> import gradwalk as gw
    >>> gw.fft.rfft(gw.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _of_real("rfft", input, n, dim, norm)


@public(namespaces="fft")
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`; for a signal of odd length give `n`."""
    return _to_real("irfft", input, n, dim, norm)


@public(namespaces="fft")
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """`fft` of a signal whose other half is conjugate to this one: the result is real."""
    return _to_real("hfft", conj(input), n, dim, _other_way("hfft", norm))


@public(namespaces="fft")
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`."""
    return conj(_of_real("ihfft", input, n, dim, _other_way("ihfft", norm)))


def _other_way(name: str, norm: str | None) -> str | None:
    """The norm of the transform in the other direction that divides by the same."""
    _scale(name, norm, (), False)
    return _OTHER_WAY[norm]


@public(namespaces="fft")
def fft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """`fft` along two dimensions, of the lengths `s`."""
    return _to_complex("fft2", input, s, dim, norm, -1)


@public(namespaces="fft")
def ifft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft2`."""
    return _to_complex("ifft2", input, s, dim, norm, 1)


@public(namespaces="fft")
def rfft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """`fft2` of real numbers: half of the frequencies along the last of the dimensions."""
    return _of_real("rfft2", input, s, dim, norm)


@public(namespaces="fft")
def irfft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `rfft2`."""
    return _to_real("irfft2", input, s, dim, norm)


@public(namespaces="fft")
def hfft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """`hfft` along the last of two dimensions, after `fft` along the first."""
    return _to_real("hfft2", conj(input), s, dim, _other_way("hfft2", norm))


@public(namespaces="fft")
def ihfft2(input: Any, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `hfft2`."""
    return conj(_of_real("ihfft2", input, s, dim, _other_way("ihfft2", norm)))


@public(namespaces="fft")
def fftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """`fft` along several dimensions, without `dim` along all of them."""
    return _to_complex("fftn", input, s, dim, norm, -1)


@public(namespaces="fft")
def ifftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`."""
    return _to_complex("ifftn", input, s, dim, norm, 1)


@public(namespaces="fft")
def rfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """`fftn` of real numbers: half of the frequencies along the last of the dimensions."""
    return _of_real("rfftn", input, s, dim, norm)


@public(namespaces="fft")
def irfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`."""
    return _to_real("irfftn", input, s, dim, norm)


@public(namespaces="fft")
def hfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """`hfft` along the last of several dimensions, after `fft` along the others."""
    return _to_real("hfftn", conj(input), s, dim, _other_way("hfftn", norm))


@public(namespaces="fft")
def ihfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Any:
    """The inverse of `hfftn`."""
    return conj(_of_real("ihfftn", input, s, dim, _other_way("ihfftn", norm)))


def _shifted(name: str, x: Any, dim: Dims, by: Any) -> Any:
    axes = _axes(name, x, None, dim)[0] if x.ndim else ()
    return roll(x, [by(x.shape[axis]) for axis in axes], list(axes)) if axes else x


@public(namespaces="fft")
def fftshift(input: Any, dim: Dims = None) -> Any:
    """The frequency 0 in the middle, where `fft` puts it first.

    >>> import gradwalk as gw
    >>> gw.fft.fftshift(gw.arange(4))
    tensor([2, 3, 0, 1])
    """
    return _shifted("fftshift", input, dim, lambda n: n // 2)


@public(namespaces="fft")
def ifftshift(input: Any, dim: Dims = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, lambda n: (n + 1) // 2)
