"""Windows that fade a piece of a signal in and out; periodic ones leave out the last sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from gradwalk.ops.core.dtypes import get_default_dtype, is_floating
from gradwalk.tensors.leaves import LeafOptions, leaf, makes_leaf

__all__ = [
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window",
]  # fmt: skip


def made_window(
    shape: Callable[[int], Any], length: int, periodic: bool, options: LeafOptions
) -> Any:
    """The window of a length that a function shapes; a periodic one is cut from a longer one."""
    if length < 0:
        raise ValueError(f"a window has at least 0 samples, not {length}")
    kind = np.dtype(options.get("dtype") or get_default_dtype())
    if not is_floating(kind):
        raise TypeError(f"a window holds floats, not {kind}")
    samples = shape(length + 1)[:-1] if periodic and length > 1 else shape(length)
    return leaf(samples.astype(kind), **options)


def _raised_cosine(alpha: float, beta: float) -> Callable[[int], Any]:
    """alpha − beta·cos, over one turn."""

    def shape(count: int) -> Any:
        turn = np.linspace(0, 2 * np.pi, count)
        return alpha - beta * np.cos(turn) if count != 1 else np.ones(1)

    return shape


@makes_leaf
def hann_window(window_length: int, periodic: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """½ − ½·cos, over one turn.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return made_window(_raised_cosine(0.5, 0.5), window_length, periodic, options)


@makes_leaf
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Unpack[LeafOptions],
) -> Any:  # fmt: skip
    """alpha − beta·cos, over one turn: it does not quite reach zero."""
    return made_window(_raised_cosine(alpha, beta), window_length, periodic, options)


@makes_leaf
def blackman_window(
    window_length: int, periodic: bool = True, **options: Unpack[LeafOptions]
) -> Any:
    """0.42 − 0.5·cos + 0.08·cos of twice the angle."""
    return made_window(np.blackman, window_length, periodic, options)


@makes_leaf
def bartlett_window(
    window_length: int, periodic: bool = True, **options: Unpack[LeafOptions]
) -> Any:
    """A triangle."""
    return made_window(np.bartlett, window_length, periodic, options)


@makes_leaf
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Unpack[LeafOptions]
) -> Any:
    """A Kaiser window, narrower for a larger `beta`."""
    return made_window(lambda count: np.kaiser(count, beta), window_length, periodic, options)
