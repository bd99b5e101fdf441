"""Fourier transforms of short pieces of a signal, and the signal from them: `stft`, `istft`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import is_complex_dtype, part_of
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.complex_numbers import view_as_real
from gradwalk.ops.linear.fourier import fft, ifft, irfft, rfft
from gradwalk.ops.reduce.reduction import amin
from gradwalk.ops.shape.rearranging import windows_add, windows_op
from gradwalk.ops.shape.reshaping import broadcast_to, getitem_slice, pad, reshape


def _window(name: str, x: Any, window: Any, win_length: int | None, n_fft: int) -> Any:
    """The window, with zeros on both sides up to the length of a piece."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise ValueError(f"{name}: win_length is from 1 to n_fft = {n_fft}, not {length}")
    if window is None:
        window = np.ones(length, part_of(x.dtype))
    if tuple(window.shape) != (length,):
        raise ValueError(
            f"{name}: the window has shape {tuple(window.shape)}, not win_length = {length}"
        )
    left = (n_fft - length) // 2
    return pad(window, (left, n_fft - length - left)) if length < n_fft else window


def _step(name: str, hop_length: int | None, n_fft: int) -> int:
    step = n_fft // 4 if hop_length is None else hop_length
    if step < 1 or n_fft < 1:
        raise ValueError(f"{name}: n_fft and hop_length are at least 1, not {n_fft} and {step}")
    return step


@public(method=True)
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Any:
    """The Fourier transforms of pieces of `n_fft` samples, `hop_length` apart, times a window.

    The result has the shape (..., frequencies, pieces). With `center`, the signal is padded so that
    the first piece has its first sample in the middle.

    >>> import gradwalk as gw
    >>> gw.stft(gw.ones(8), 4, center=False, return_complex=True).shape
    (3, 5)
    """
    if input.ndim not in (1, 2):
        raise ValueError(f"stft takes a signal or a batch of them, not {tuple(input.shape)}")
    step, window = (
        _step("stft", hop_length, n_fft),
        _window("stft", input, window, win_length, n_fft),
    )
    whole = is_complex_dtype(input.dtype) or is_complex_dtype(window.dtype)
    if return_complex is None and not whole:
        raise TypeError("stft of a real signal needs return_complex=True, or False for pairs")
    if onesided and whole:
        raise ValueError("stft: only a real signal and a real window have one-sided transforms")
    x = input
    if center:
        lifted = reshape(x, shape=(1,) * (3 - x.ndim) + tuple(x.shape))
        padded = pad(lifted, (n_fft // 2, n_fft // 2), pad_mode)
        x = reshape(padded, shape=(*x.shape[:-1], padded.shape[-1]))
    if x.shape[-1] < n_fft:
        raise ValueError(f"stft: a signal of {x.shape[-1]} samples is shorter than n_fft = {n_fft}")
    pieces = windows_op(x, axis=x.ndim - 1, size=n_fft, step=step) * window
    transform = fft if whole or onesided is False else rfft
    out = transform(pieces, norm="ortho" if normalized else None).mT
    return view_as_real(out) if return_complex is False else out


@public(method=True)
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` this is: pieces are added up and divided by the windows' squares.

    >>> import gradwalk as gw
    >>> x = gw.randn(64)
    >>> gw.allclose(gw.istft(gw.stft(x, 16, return_complex=True), 16), x, atol=1e-5)
    True
    """
    if not is_complex_dtype(input.dtype) or input.ndim not in (2, 3):
        raise TypeError(
            "istft takes complex numbers of shape (..., frequencies, pieces), not "
            f"{input.dtype} of shape {tuple(input.shape)}"
        )
    step, window = (
        _step("istft", hop_length, n_fft),
        _window("istft", input, window, win_length, n_fft),
    )
    rows, count = input.shape[-2:]
    half = rows != n_fft if onesided is None else onesided
    if rows != (n_fft // 2 + 1 if half else n_fft) or (half and return_complex):
        raise ValueError(f"istft: {rows} frequencies do not belong to n_fft = {n_fft}")
    norm = "ortho" if normalized else None
    # A real signal needs half of the frequencies: `irfft` cuts off the others.
    pieces = ifft(input.mT, norm=norm) if return_complex else irfft(input.mT, n_fft, norm=norm)
    total = n_fft + step * (count - 1)
    lead = tuple(input.shape[:-2])
    options: Any = {"axis": len(lead), "size": n_fft, "step": step}
    signal = windows_add(pieces * window, shape=(*lead, total), **options)
    squares = broadcast_to(window * window, (count, n_fft))
    weight = windows_add(squares, shape=(total,), **(options | {"axis": 0}))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    signal, weight = (
        getitem_slice(signal, len(lead), start, end),
        getitem_slice(weight, 0, start, end),
    )
    if not bool(amin(abs(weight)) > 1e-11):
        raise RuntimeError("istft: the windows leave a gap, and what lies in it cannot be restored")
    signal = signal / weight
    missing = 0 if length is None else length - signal.shape[-1]
    return pad(signal, (0, missing)) if missing else signal
